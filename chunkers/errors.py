"""The errors that a caller of `chunkers` may want to tell apart.

`SettingError` is about what was asked for: it is raised when a chunker or a model is built, before any work, and names the
parameter, its value and what is legal. `ModelError` is about a model that could not answer: `fatal` says that no other text
would fare better (a bad key, an unknown model), so the run should stop instead of trying document after document.
"""

from __future__ import annotations


class SettingError(ValueError):
    """A parameter that cannot be used. The message says which, what it holds and what is legal."""

    def __init__(self, name: str, value: object, legal: str) -> None:
        super().__init__(f"{name}: {value!r} cannot be used; it must be {legal}")
        self.name = name
        self.value = value
        self.legal = legal


class ModelError(RuntimeError):
    """A model that gave no usable answer.

    Args:
        message: what failed, of which model, and what to do.
        fatal: the same call would fail for every text, so the run should stop.
        passing: the model was away or too busy, so the same call may be answered later.
    """

    def __init__(self, message: str, *, fatal: bool = False, passing: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal
        self.passing = passing
