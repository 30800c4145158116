"""Exit status 0 if a server of this container answers: `python healthy.py PORT PATH`. For health checks, as slim images have no curl.

Not with urllib: that would ask the proxy which `docker` may have put into the environment.
"""

from __future__ import annotations

import http.client
import sys

SECONDS = 5


def main(port: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=SECONDS)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        print(f"port {port}: {error}")
        return 1
    finally:
        connection.close()
    print(f"port {port}{path}: {status}")
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
