"""Whole stores in a form that can be compared: ids, payloads and vectors of every point, without what tells of the run."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient

from stores import Finding, compare, connect, read_contents
from stores.inventory import alias_targets

RUN = ("run_id", "updated_at")
RUN_OF_COLLECTION = ("finished_at", "live_at")
# Vectors are read back as they were written or brought to unit length again, which changes the last bit.
TOLERANCE = 1e-6

Points = dict[str, tuple[dict[str, Any], "np.ndarray | None"]]


@dataclass
class Stored:
    """A store.

    Attributes:
        aliases: the collection that each points at.
        collections: points by id, as (payload, vector or None), by collection.
        metadata: of each collection.
        findings: what a verification says of each collection.
        leases: how many lease points there are behind aliases; they are not among the points. A rebuild that is killed after it
            moved an alias leaves one in the superseded collection, where nobody looks for it before it has expired.
    """

    aliases: dict[str, str] = field(default_factory=dict)
    collections: dict[str, Points] = field(default_factory=dict)
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    leases: int = 0

    def live(self, strategy: str) -> Points | None:
        """The points that readers of a strategy see; None without an alias."""
        return next(
            (self.collections[name] for alias, name in self.aliases.items() if alias.endswith(f"__{strategy}")), None
        )


def read(home: Path) -> Stored:
    """The store of a home folder. A copy is opened, so that no log is played back and no file is tidied before the next run does it."""
    copy = home.with_name(f"{home.name}-read")
    shutil.rmtree(copy, ignore_errors=True)
    if not (home / "qdrant").exists():
        return Stored()
    shutil.copytree(home / "qdrant", copy)
    with connect(path=copy) as client:
        return served(client)


def served(client: QdrantClient) -> Stored:
    """The store of a client."""
    found = Stored()
    found.aliases = alias_targets(client)
    for name in sorted(item.name for item in client.get_collections().collections):
        records, rest = client.scroll(name, limit=100_000, with_payload=True, with_vectors=True)
        assert rest is None
        points = {str(record.id): _told(record.payload or {}, record.vector) for record in records}
        found.collections[name] = {id_: one for id_, one in points.items() if one[0].get("kind") != "lease"}
        if name in found.aliases.values():
            found.leases += len(points) - len(found.collections[name])
        metadata = client.get_collection(name).config.metadata or {}
        found.metadata[name] = {key: value for key, value in metadata.items() if key not in RUN_OF_COLLECTION}
        found.findings[name] = compare(read_contents(client, name))
    return found


def _told(payload: dict[str, Any], vector: Any) -> tuple[dict[str, Any], np.ndarray | None]:
    payload = {name: value for name, value in payload.items() if name not in RUN}
    if "metadata" in payload:
        payload["metadata"] = {name: value for name, value in payload["metadata"].items() if name != "ingested_at"}
    if isinstance(vector, dict):
        if sparse := vector.get("bm25"):
            payload["bm25"] = dict(zip(sparse.indices, (round(value, 5) for value in sparse.values), strict=True))
        vector = vector.get("")
    return payload, np.asarray(vector, dtype=np.float64) if vector else None


def same_vector(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=TOLERANCE))


def point_differences(found: Points, expected: Points) -> list[str]:
    """What differs between the points of two collections, in words."""
    told = [f"missing {_name(expected[id_][0])}" for id_ in sorted(expected.keys() - found.keys())]
    told += [f"too many: {_name(found[id_][0])}" for id_ in sorted(found.keys() - expected.keys())]
    for id_ in sorted(found.keys() & expected.keys()):
        (payload, vector), (wanted, right) = found[id_], expected[id_]
        if payload != wanted:
            names = [name for name in {*payload, *wanted} if payload.get(name) != wanted.get(name)]
            pairs = "; ".join(f"{name}: {payload.get(name)!r} for {wanted.get(name)!r}" for name in names)
            told.append(f"payload of {_name(wanted)}: {pairs[:400]}")
        if not same_vector(vector, right):
            told.append(f"vector of {_name(wanted)}")
    return told


def differences(found: Stored, expected: Stored) -> list[str]:
    """What differs between two stores, in words; nothing if they are equal apart from run stamps."""
    told = [f"{found.leases} leases are left"] if found.leases else []
    if found.aliases != expected.aliases:
        told.append(f"aliases {found.aliases} for {expected.aliases}")
    if found.metadata != expected.metadata:
        told.append(f"metadata {found.metadata} for {expected.metadata}")
    if found.collections.keys() != expected.collections.keys():
        told.append(f"collections {sorted(found.collections)} for {sorted(expected.collections)}")
    for name in sorted(found.collections.keys() & expected.collections.keys()):
        wrong = point_differences(found.collections[name], expected.collections[name])
        told += [f"{name}: {one}" for one in wrong]
    return told + [f"{name}: {one}" for name, own in found.findings.items() for one in own]


def _name(payload: dict[str, Any]) -> str:
    place = payload.get("metadata", {}).get("source", payload.get("uri"))
    return f"{payload.get('kind')} of {place} {payload.get('text', '')[:40]!r}"


def chunks_by_source(points: Points) -> dict[str, set[str]]:
    """Ids of the chunks of each document, by its uri."""
    found: dict[str, set[str]] = defaultdict(set)
    for id_, (payload, _) in points.items():
        if payload["kind"] == "chunk":
            found[payload["metadata"]["source"]].add(id_)
    return found
