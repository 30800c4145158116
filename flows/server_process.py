"""The process of a private Prefect server: Prefect's own command, which ends when whoever started it is gone.

`flows.server` runs this file by its path and keeps the other end of its standard input open. When that end closes, by whatever death,
reading returns and the server is stopped; so no server outlives its run, even one that was killed outright. The arguments are those
of `prefect`.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time

# Seconds that a server has for ending by itself.
GRACE = 10.0


def _end_with_parent() -> None:
    # Not through sys.stdin, whose lock a thread would hold when the interpreter shuts down.
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def main() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv[0] = "prefect"
    runpy.run_module("prefect", run_name="__main__")


if __name__ == "__main__":
    main()
