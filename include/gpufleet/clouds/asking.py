"""One request to a cloud, tried again while that may help and while its caller still holds the operation's lease.

The SDKs' own retries are turned off: one rule for all clouds, and a wait that tests can hand in.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay

from gpufleet.clouds.base import NotAnswered, Throttled
from gpufleet.errors import GpufleetError

T = TypeVar("T")
Translate = Callable[[Exception], GpufleetError | None]
"""What an SDK's exception means to us; None for one that is a fault of ours."""

PATIENCE: Final = 8.0
"""Seconds after which no other try begins: below the lease of an operation, with one request's timeout on top."""
CONNECT_SECONDS: Final = 2.0
ANSWER_SECONDS: Final = 5.0
FIRST_WAIT: Final = 0.2
LONGEST_WAIT: Final = 4.0


@dataclass(frozen=True, slots=True)
class Asking:
    """How one cloud is asked: what its errors mean, how long it is tried, and the chance in the waits between."""

    translate: Translate
    patience: float = PATIENCE
    sleep: Callable[[float], None] = time.sleep
    chance: random.Random = field(default_factory=random.Random)

    def ask(self, call: Callable[[], T]) -> T:
        """The answer of a request that may be repeated; throttling and silence are waited out, within `patience`."""
        tries = Retrying(
            retry=retry_if_exception_type((Throttled, NotAnswered)),
            stop=stop_after_delay(self.patience),
            wait=self._wait,
            sleep=self.sleep,
            reraise=True,
        )
        answer: T = tries(self.once, call)
        return answer

    def once(self, call: Callable[[], T]) -> T:
        """The answer of a request that must not be repeated blindly."""
        try:
            return call()
        except Exception as e:
            meant = self.translate(e)
            if meant is None:
                raise
            raise meant from None  # an SDK's own exception may carry headers with credentials

    def _wait(self, state: RetryCallState) -> float:
        """Twice as long each time, and by chance between half and all of it: many callers do not come back at once."""
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(state.attempt_number - 1, 16))
        return longest * self.chance.uniform(0.5, 1.0)
