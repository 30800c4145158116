"""Qdrant: what is stored and how it is kept in step with documents, and the retriever that reads it.

Works without Prefect. `connect` gives a client, `Retriever` searches; the rest is what an ingestion is made of.
"""

from __future__ import annotations

from stores.attempts import Pending
from stores.builds import Rollback, drop, rollback
from stores.check import Finding, Repair, compare, repair_of
from stores.client import connect
from stores.collections import finish_target, make_target, open_target
from stores.contents import Contents, read_contents
from stores.errors import SettingsChanged, StoreError
from stores.hits import Hit, ParentText
from stores.info import CollectionInfo, list_collections
from stores.inventory import Inventory, Target, choose_target, read_inventory
from stores.journal import DocumentState, JournalRow
from stores.journal_io import read_journal, read_states, with_chunks
from stores.lease import LeaseHeld, Leases
from stores.names import check_corpus, corpus_slug
from stores.plan import Move, Plan, plan_documents
from stores.recipe import Recipe
from stores.retriever import Retriever
from stores.search_modes import Fusion
from stores.work import Outcome
from stores.writer import Writer

__all__ = [
    "CollectionInfo",
    "Contents",
    "DocumentState",
    "Finding",
    "Fusion",
    "Hit",
    "Inventory",
    "JournalRow",
    "LeaseHeld",
    "Leases",
    "Move",
    "Outcome",
    "ParentText",
    "Pending",
    "Plan",
    "Recipe",
    "Repair",
    "Retriever",
    "Rollback",
    "SettingsChanged",
    "StoreError",
    "Target",
    "Writer",
    "check_corpus",
    "choose_target",
    "compare",
    "connect",
    "corpus_slug",
    "drop",
    "finish_target",
    "list_collections",
    "make_target",
    "open_target",
    "plan_documents",
    "read_contents",
    "read_inventory",
    "read_journal",
    "read_states",
    "repair_of",
    "rollback",
    "with_chunks",
]
