"""Secrets of this process, which no error text, log line, report or artifact may hold.

Whoever reads a key or an address hands it in here (`keep_secret`, `keep_address`); whoever passes on words that are not our own (a server
may repeat the key that it was shown) has them `redacted`. A secret is also found in the forms that it takes in a header, an address, JSON
or Python's `repr`.
"""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import parse_qsl, quote, unquote

HIDDEN = "***"

# A shorter secret, such as the `x` that a server on one's own machine is given, is hidden only where it is a word.
_SHORT = 8
_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?P<rest>[^?#]*)(?:\?(?P<query>[^#]*))?", re.DOTALL)

_kept: set[str] = set()


def keep_secret(secret: str | None) -> None:
    """From now on no redacted text holds `secret`."""
    if secret and secret.strip():
        _kept.update(_forms(secret), _forms(secret.strip()))


def keep_address(address: str | None) -> None:
    """Keeps what may be secret in an address: a user's token or password, and the values of its query."""
    found = _ADDRESS.match(address or "")
    assert found
    user = found["rest"].rpartition("@")[0]
    name, _, password = user.partition(":")
    for secret in (user, password or name):
        keep_secret(secret)
        keep_secret(unquote(secret))
    if password:
        # As it stands in a header.
        keep_secret(base64.b64encode(f"{unquote(name)}:{unquote(password)}".encode("utf-8", "surrogatepass")).decode())
    for _, value in parse_qsl(found["query"] or ""):
        keep_secret(value)


def shown_address(address: str) -> str:
    """`address` for messages: scheme, host, port and path, without a user, a password, a query or a fragment."""
    found = _ADDRESS.match(address)
    assert found
    return (found["scheme"] or "") + found["rest"].rpartition("@")[2]


def redacted(text: str) -> str:
    """`text` with `***` for each secret that was kept."""
    # The longest first, since one may be a part of another.
    for secret in sorted(_kept, key=len, reverse=True):
        if len(secret) >= _SHORT:
            text = text.replace(secret, HIDDEN)
        elif secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", HIDDEN, text)
    return text


def in_words(error: BaseException) -> str:
    """What an error says, in one line and without secrets; its kind where it says nothing."""
    return " ".join(redacted(str(error)).split()) or type(error).__name__


def _forms(secret: str) -> set[str]:
    # A variable may hold bytes that are no UTF-8.
    raw = secret.encode("utf-8", "surrogatepass")
    return {
        secret,
        quote(raw, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        repr(raw)[2:-1],
        base64.b64encode(raw).decode(),
        # White space is folded in messages.
        " ".join(secret.split()),
    }
