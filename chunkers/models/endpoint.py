"""Where an OpenAI-compatible server is and the key that it wants.

A key is a secret: it is in no `repr`, no log line and no error text. A server on one's own machine needs none, so a base URL
alone is an endpoint too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from chunkers.errors import SettingError
from chunkers.redaction import HIDDEN, keep_address, keep_secret, shown_address

OPENAI_URL = "https://api.openai.com/v1"

# Sent where no key is set: the client insists on one, and servers that need none ignore it.
NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server.

    Args:
        api_key: the key, or None for a server that wants none.
        base_url: address up to and with `/v1`; None is OpenAI's own.

    Raises:
        SettingError: the address is no http or https URL, or the key cannot stand in a header.
    """

    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.base_url is not None and not _is_http(self.base_url):
            raise SettingError(
                "OPENAI_BASE_URL", shown_address(self.base_url), "an http:// or https:// address such as " + OPENAI_URL
            )
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable() and self.api_key):
            raise SettingError("OPENAI_API_KEY", HIDDEN, "printable ASCII characters")
        keep_secret(self.api_key)
        keep_address(self.base_url)

    @property
    def url(self) -> str:
        return self.base_url or OPENAI_URL

    @property
    def key(self) -> str:
        return self.api_key or NO_KEY

    @property
    def shown(self) -> str:
        """The address for messages."""
        return shown_address(self.url)


def endpoint_from_environment() -> Endpoint | None:
    """The endpoint that OPENAI_API_KEY and OPENAI_BASE_URL name; None when neither is set.

    Raises:
        SettingError: as `Endpoint`.
    """
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    url = os.environ.get("OPENAI_BASE_URL", "").strip()
    return Endpoint(key or None, url or None) if key or url else None


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
