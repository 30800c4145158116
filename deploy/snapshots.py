"""Snapshots of every collection of the Qdrant server that QDRANT_URL names, and its aliases, which no collection's snapshot holds.

    python snapshots.py take > list.json       makes them, in the server's snapshot folder, and prints which
    python snapshots.py restore < list.json    puts collections and aliases back from that folder, over what is there
    python snapshots.py drop < list.json       deletes them from that folder, once they are kept elsewhere

Between the first collection and the last nothing should be written: pause the work pool.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import closing
from typing import Any

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from chunkers.redaction import keep_address, keep_secret
from stores.transport import reason

# A snapshot copies the whole collection, and the client waits for it.
TIMEOUT_SECONDS = 24 * 3600


def take(client: QdrantClient) -> dict[str, Any]:
    """Makes a snapshot of each collection: `{"collections": {name: snapshot}, "aliases": {alias: collection}}`."""
    aliases = {alias.alias_name: alias.collection_name for alias in client.get_aliases().aliases}
    taken = {}
    for collection in sorted(found.name for found in client.get_collections().collections):
        made = client.create_snapshot(collection)
        if made is None:
            raise RuntimeError(f"{collection}: the server made no snapshot")
        taken[collection] = made.name
        print(f"{collection}: {made.name}, {made.size:,} bytes", file=sys.stderr)
    return {"collections": taken, "aliases": aliases}


def restore(client: QdrantClient, listed: dict[str, Any]) -> None:
    """Collections first, then all aliases at once: readers see nothing that is half there."""
    for collection, snapshot in listed["collections"].items():
        place = f"file:///qdrant/snapshots/{collection}/{snapshot}"
        # "snapshot": what it holds counts, not what is there already.
        if not client.recover_snapshot(collection, place, priority=models.SnapshotPriority.SNAPSHOT):
            raise RuntimeError(f"{collection}: not restored from {place}")
        print(f"{collection}: restored", file=sys.stderr)
    moves = [
        models.CreateAliasOperation(create_alias=models.CreateAlias(alias_name=alias, collection_name=collection))
        for alias, collection in listed["aliases"].items()
    ]
    if moves and not client.update_collection_aliases(moves):
        raise RuntimeError("the aliases were not set")


def drop(client: QdrantClient, listed: dict[str, Any]) -> None:
    for collection, snapshot in listed["collections"].items():
        client.delete_snapshot(collection, snapshot)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("take", "restore", "drop"))
    action = parser.parse_args().action
    url, key = os.environ.get("QDRANT_URL"), os.environ.get("QDRANT_API_KEY")
    if not url:
        parser.error("set QDRANT_URL to the server")
    keep_secret(key)
    keep_address(url)
    try:
        with closing(QdrantClient(url=url, api_key=key, timeout=TIMEOUT_SECONDS)) as client:
            if action == "take":
                print(json.dumps(take(client), indent=2))
            else:
                {"restore": restore, "drop": drop}[action](client, _listed())
    except (ApiException, RuntimeError, ValueError) as error:
        # What was done before stays, and the same command again is harmless.
        sys.exit(f"snapshots.py: {reason(error)}")


def _listed() -> dict[str, Any]:
    """What `take` printed.

    Raises:
        ValueError: it is something else.
    """
    try:
        listed = json.load(sys.stdin)
        if listed.keys() >= {"collections", "aliases"}:
            return dict(listed)
    except (ValueError, AttributeError):
        pass
    raise ValueError("standard input is not what `snapshots.py take` printed")


if __name__ == "__main__":
    main()
