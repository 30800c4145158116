"""Rounds of killed runs: a sound store, a run that is killed once or twice, what must hold then, and a run to the end.

A round is made from its scenario's seed and its own number, which a failure names: `update(Scenario(server, folder, SEED), NUMBER)` does it
again, but for kills after some seconds, which hit where the clock says.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from qdrant_client import models

from stores import connect
from tests.flows.kill_corpora import write
from tests.flows.kill_scenario import REBUILT, SETTINGS, Scenario, same, same_points, some_kill
from tests.flows.kill_server import Job, Kill
from tests.flows.stored import Points, Stored, chunks_by_source, point_differences, read, same_vector


def check_points(points: Points, vectors: dict[str, np.ndarray | None], where: object) -> None:
    """What must hold at any moment: the journal names every point, no chunk lacks its vector or its parent."""
    rows = [payload for payload, _ in points.values() if payload["kind"] == "document"]
    named = {id_ for row in rows for id_ in (*row["chunk_ids"], *row["parent_ids"])}
    for row in rows:
        # What was in hand is known for it, so that a document which kills its run is parked in the end.
        assert row["status"] != "started" or row["attempts"] > 0, (where, "no attempt at", row["uri"])
        if row["status"] == "done":
            assert {*row["chunk_ids"], *row["parent_ids"]} <= points.keys(), (where, "lost points of", row["uri"])
    for id_, (payload, vector) in points.items():
        if payload["kind"] == "document":
            continue
        assert id_ in named, (where, "the journal does not name", payload)
        if payload["kind"] == "chunk":
            assert payload["embedding_hash"] in vectors, (where, "nobody wrote", payload)
            assert same_vector(vector, vectors[payload["embedding_hash"]]), (where, "another text's vector", payload)
            assert payload["parent_id"] is None or payload["parent_id"] in points, (where, "no parent", payload)
        else:
            assert vector is None, (where, payload)


def check_never_less(scenario: Scenario, found: Stored, history: Sequence[int], where: object) -> None:
    """Every document that readers had and that is still wanted is there whole: as it was, or as a later version has it.

    Args:
        scenario: whose versions.
        found: the store.
        history: numbers of versions: the one that was stored, and those that runs were on the way to since.
        where: the round, for the message.
    """
    before, targets = history[0], history[1:]
    for strategy in scenario.strategies:
        points = found.live(strategy)
        assert points is not None, (where, strategy, "no alias")
        whole = [chunks_by_source(scenario.clean[number].live(strategy) or {}) for number in range(3)]
        for uri, text in scenario.versions[before].items():
            ways = [whole[before][uri]]
            gone = False
            for target in targets:
                version = scenario.versions[target]
                places = [place for place, other in version.items() if other == text]
                # Under its own uri as that version has it, or, moved or copied, where that version has its text.
                ways += [whole[target][place] for place in {*places, uri} if place in version]
                gone = gone or (not places and uri not in version)
            assert gone or any(ids <= points.keys() for ids in ways), (where, strategy, "text is gone", uri)


def check_killed(scenario: Scenario, home: Path, history: Sequence[int], where: object) -> Stored:
    """What must hold after a kill of an update."""
    found = read(home)
    for name, points in found.collections.items():
        assert found.findings[name] == [], where
        check_points(points, scenario.vectors, where)
    check_never_less(scenario, found, history, where)
    return found


def update(scenario: Scenario, number: int) -> int:
    """A run that adds, changes and deletes is killed once or twice, and ends the next time; how often it was killed."""
    rng = random.Random(f"{scenario.seed} {number}")
    home = scenario.copy("round")
    history, killed, kills = [0], 0, []
    for _ in range(rng.choice([1, 1, 2])):
        # Mostly the way to the second version; a source may also change between two runs, and back.
        history.append(1 if len(history) == 1 else rng.choice([1, 1, 2, 0]))
        kill = some_kill(rng, scenario.update)
        kills.append(kill)
        told = scenario.server.run(scenario.job(home, scenario.versions[history[-1]], kill=kill))
        where = ("update", scenario.seed, number, history, kills)
        assert not told.error, (where, told.error)
        killed += told.killed
        check_killed(scenario, home, history, where)
    last = history[-1] if rng.random() < 0.8 else 0
    told = scenario.run(home, scenario.versions[last])
    same(read(home), scenario.clean[last], (where, last))
    return killed


def sweep(scenario: Scenario, operation: str) -> int:
    """An update is killed right after each of its operations of a name in turn; how many they are."""
    number = 0
    while True:
        number += 1
        home = scenario.copy("round")
        kill = Kill(operation=operation, number=number, applied=True)
        told = scenario.server.run(scenario.job(home, scenario.versions[1], kill=kill))
        where = ("sweep", scenario.seed, kill)
        assert not told.error, (where, told.error)
        check_killed(scenario, home, [0, 1], where)
        if not told.killed:
            return number - 1
        scenario.run(home, scenario.versions[1])
        same(read(home), scenario.clean[1], where)


def first_run(scenario: Scenario, number: int) -> int:
    """The first run of a new store is killed, and ends the next time."""
    rng = random.Random(f"first {scenario.seed} {number}")
    home = scenario.folder / "round"
    shutil.rmtree(home, ignore_errors=True)
    kill = some_kill(rng, scenario.beginning)
    where = ("first run", scenario.seed, number, kill)
    told = scenario.server.run(scenario.job(home, scenario.versions[1], kill=kill))
    assert not told.error, (where, told.error)
    found = read(home)
    for name, points in found.collections.items():
        assert found.findings[name] == [], where
        check_points(points, scenario.vectors, where)
    scenario.run(home, scenario.versions[1])
    same(read(home), scenario.clean[1], where)
    return told.killed


class Rebuild:
    """A scenario whose next version is built beside the live collections, with other settings."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.job = scenario.job(scenario.folder, scenario.versions[1], settings=REBUILT, rebuild=True)
        self.home = scenario.copy("rebuilt")
        self.uncut = scenario.finished(replace(self.job, home=str(self.home)))
        self.expected = read(self.home)
        alone = scenario.folder / "rebuilt-alone"
        scenario.run(alone, scenario.versions[1], settings=REBUILT)
        fresh = read(alone)
        for strategy in scenario.strategies:
            new, old = self.expected.live(strategy) or {}, scenario.clean[0].live(strategy) or {}
            same_points(new, fresh.live(strategy) or {}, scenario.seed)
            assert point_differences(new, old) != [], scenario.seed
        self.vectors = scenario.vectors | {
            payload["embedding_hash"]: vector
            for points in fresh.collections.values()
            for payload, vector in points.values()
            if payload["kind"] == "chunk"
        }


def rebuild(made: Rebuild, number: int) -> int:
    """A rebuild is killed once or twice: readers have all of the old or all of the new; then it ends as one that was not killed."""
    scenario = made.scenario
    rng = random.Random(f"rebuild {scenario.seed} {number}")
    home = scenario.copy("round")
    job = replace(made.job, home=str(home))
    write(scenario.versions[1], scenario.source)
    killed, kills, moved = 0, [], False
    for _ in range(rng.choice([1, 1, 2])):
        kills.append(some_kill(rng, made.uncut))
        told = scenario.server.run(replace(job, kill=kills[-1], rebuild=not moved))
        where = ("rebuild", scenario.seed, number, kills)
        assert not told.error, (where, told.error)
        killed += told.killed
        found = read(home)
        for name, points in found.collections.items():
            assert found.findings[name] == [], where
            check_points(points, made.vectors, where)
        for alias, old in scenario.clean[0].aliases.items():
            name = found.aliases[alias]
            right = scenario.clean[0] if name == old else made.expected
            same_points(found.collections[name], right.collections[name], where)
        moved = found.aliases == made.expected.aliases
        if not told.killed or (not moved and found.aliases != scenario.clean[0].aliases):
            # Some aliases have moved already: a rebuild of their strategies would be another one.
            break
    left = tuple(name for name in scenario.strategies if found.live(name) is found.collections.get(f"docs__{name}__1"))
    for part, again in ((left, True), (tuple(name for name in scenario.strategies if name not in left), False)):
        if part:
            scenario.finished(replace(job, strategies=part, rebuild=again))
    same(read(home), made.expected, where)
    return killed


def damage(scenario: Scenario, home: Path, rng: random.Random) -> set[str]:
    """Spoils a store as only others do; the uris of the documents that are hit."""
    hit: set[str] = set()
    with connect(path=home / "qdrant") as client:
        for name, points in scenario.clean[0].collections.items():
            for id_ in rng.sample(sorted(points), 3):
                payload = points[id_][0]
                hit.add(payload.get("uri") or payload["metadata"]["source"])
                if payload["kind"] == "document":
                    client.delete_payload(name, ["status", "chunk_ids"], [id_])
                elif payload["kind"] == "chunk" and rng.random() < 0.5:
                    client.delete_vectors(name, [""], [id_])
                else:
                    client.delete(name, models.PointIdsList(points=[id_]))
    return hit


def repair(scenario: Scenario, number: int) -> int:
    """A repair of a spoiled store is killed, and another one puts all right."""
    rng = random.Random(f"repair {scenario.seed} {number}")
    home = scenario.copy("round")
    hit = damage(scenario, home, rng)
    write(scenario.versions[0], scenario.source)
    job = Job("repair", str(home), settings=SETTINGS, small=scenario.small)
    uncut = scenario.finished(replace(job, home=str(scenario.copy("measured", home))))
    assert uncut.report["sound"], (scenario.seed, number, uncut.report)
    kill = some_kill(rng, uncut)
    where = ("repair", scenario.seed, number, kill)
    told = scenario.server.run(replace(job, kill=kill))
    assert not told.error, (where, told.error)
    found = read(home)
    for strategy in scenario.strategies:
        points = found.live(strategy) or {}
        clean = scenario.clean[0].live(strategy) or {}
        for uri, ids in chunks_by_source(clean).items():
            assert uri in hit or ids <= points.keys(), (where, "a sound document lost its chunks", uri)
    again = scenario.finished(job)
    assert again.report["sound"], (where, again.report)
    # What the killed repair had begun, and its lease, are the next run's to end.
    scenario.run(home, scenario.versions[0])
    same(read(home), scenario.clean[0], where)
    return told.killed


def drop(made: Rebuild, number: int) -> int:
    """Dropping superseded collections is killed: the live ones are whole, and what is left is dropped the next time."""
    scenario = made.scenario
    rng = random.Random(f"drop {scenario.seed} {number}")
    home = scenario.copy("round", made.home)
    names = tuple(sorted(scenario.clean[0].collections))
    job = Job("drop", str(home), names=names)
    uncut = scenario.finished(replace(job, home=str(scenario.copy("measured", made.home))))
    kill = some_kill(rng, uncut, clock=False)
    where = ("drop", scenario.seed, number, kill)
    told = scenario.server.run(replace(job, kill=kill))
    assert not told.error, (where, told.error)
    found = read(home)
    left = tuple(name for name in names if name in found.collections)
    if left:
        scenario.finished(replace(job, names=left))
    scenario.finished(replace(made.job, home=str(home), rebuild=False))
    found = read(home)
    expected = replace(
        made.expected,
        collections={name: own for name, own in made.expected.collections.items() if name not in names},
        metadata={name: own for name, own in made.expected.metadata.items() if name not in names},
    )
    same(found, expected, where)
    return told.killed


def rollback(made: Rebuild, number: int) -> int:
    """A rollback is killed: each alias points at the whole old or the whole new collection."""
    scenario = made.scenario
    rng = random.Random(f"rollback {scenario.seed} {number}")
    home = scenario.copy("round", made.home)
    job = Job("rollback", str(home))
    uncut = scenario.finished(replace(job, home=str(scenario.copy("measured", made.home))))
    kill = some_kill(rng, uncut, clock=False)
    where = ("rollback", scenario.seed, number, kill)
    told = scenario.server.run(replace(job, kill=kill))
    assert not told.error, (where, told.error)
    found = read(home)
    for alias, name in found.aliases.items():
        assert name in (scenario.clean[0].aliases[alias], made.expected.aliases[alias]), where
    for name, points in made.expected.collections.items():
        same_points(found.collections[name], points, where)
    return told.killed
