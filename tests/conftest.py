"""What holds for all tests: none is timed, by hypothesis neither."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
