"""Whether a failure is a text's own or the endpoint's.

A server error, a silence or a refusal may come of one text, and then only its document fails. But a server that is down behind its
gateway, or an address where something else answers, fails at every text with the same words, and a run that tries document after
document pays for all of them and blames each. So a failure that follows another without a good answer between them is put to the test:
a short harmless text is sent. If that fails too, the trouble is the endpoint's and the run should stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from chunkers.errors import ModelError

# A text that no model finds fault with.
HARMLESS = "dimensions"
# Failures in a row that raise the question. The first of a batch is followed by its documents alone, which mostly are well.
IN_A_ROW = 2


class Health:
    """Judges the failures of one model, over all threads.

    Args:
        probe: asks the model about a harmless text; raises ModelError as any request does.
    """

    def __init__(self, probe: Callable[[], object]) -> None:
        self._probe = probe
        self._counting, self._probing = threading.Lock(), threading.Lock()
        # An endpoint that never answered is in question at its first failure.
        self._failures = IN_A_ROW - 1
        self._probes = 0
        self._trouble: ModelError | None = None

    def answered(self) -> None:
        """The model gave a good answer."""
        with self._counting:
            self._failures = 0

    def judged(self, failure: ModelError) -> ModelError:
        """`failure` as it is, or a fatal one if a harmless text fares no better."""
        if failure.fatal:
            return failure
        with self._counting:
            self._failures += 1
            asked, probes = self._failures >= IN_A_ROW, self._probes
        if not asked:
            return failure
        trouble = self._probed(probes)
        if trouble is None:
            self.answered()
            return failure
        if trouble.fatal:
            return trouble
        return ModelError(f"{failure}; a short text fares no better", fatal=True, passing=failure.passing)

    def _probed(self, probes: int) -> ModelError | None:
        """What comes of a harmless text; once for all who ask while it is under way."""
        with self._probing:
            if self._probes == probes:
                try:
                    self._probe()
                    self._trouble = None
                except ModelError as trouble:
                    self._trouble = trouble
                self._probes += 1
            return self._trouble
