"""Qdrant: what is stored and how it is kept in step with documents, and the retriever that reads it.

Works without Prefect. `connect` gives a client, `Retriever` searches; the rest is what an ingestion is made of.
"""

from __future__ import annotations

from stores.client import connect
from stores.collections import finish_target, make_target, open_target
from stores.errors import SettingsChanged, StoreError
from stores.info import CollectionInfo, list_collections
from stores.inventory import Inventory, Target, choose_target, read_inventory
from stores.journal import JournalRow
from stores.journal_io import read_journal
from stores.names import check_corpus, corpus_slug
from stores.plan import Plan, plan_documents
from stores.recipe import Recipe
from stores.retriever import Hit, ParentText, Retriever
from stores.writer import Outcome, Writer

__all__ = [
    "CollectionInfo",
    "Hit",
    "Inventory",
    "JournalRow",
    "Outcome",
    "ParentText",
    "Plan",
    "Recipe",
    "Retriever",
    "SettingsChanged",
    "StoreError",
    "Target",
    "Writer",
    "check_corpus",
    "choose_target",
    "connect",
    "corpus_slug",
    "finish_target",
    "list_collections",
    "make_target",
    "open_target",
    "plan_documents",
    "read_inventory",
    "read_journal",
]
