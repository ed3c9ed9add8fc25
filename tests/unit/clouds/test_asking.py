"""How often a cloud is asked again, and how long is waited in between."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from gpufleet.clouds.asking import LONGEST_WAIT, Asking
from gpufleet.clouds.base import BadRequest, NotAnswered, QuotaReached, Throttled
from gpufleet.errors import GpufleetError, NoCapacity


class Refusals:
    """Says no so many times; what it says is ours already."""

    def __init__(self, error: type[GpufleetError], times: int) -> None:
        self.error, self.times, self.asked = error, times, 0

    def __call__(self) -> str:
        self.asked += 1
        if self.asked <= self.times:
            raise ValueError(self.error.__name__)
        return "yes"

    def meant(self, error: Exception) -> GpufleetError:
        return self.error(str(error))


def asking(refusals: Refusals, slept: list[float], seed: int = 1) -> Asking:
    return Asking(refusals.meant, sleep=slept.append, chance=random.Random(seed))


@pytest.mark.parametrize("error", [Throttled, NotAnswered])
def test_what_passes_is_waited_out(error: type[GpufleetError]) -> None:
    refusals, slept = Refusals(error, 5), []
    assert asking(refusals, slept).ask(refusals) == "yes"
    assert len(slept) == 5
    assert all(0 < wait <= LONGEST_WAIT for wait in slept)


@pytest.mark.parametrize("error", [NoCapacity, QuotaReached, BadRequest])
def test_what_does_not_pass_is_told_at_once(error: type[GpufleetError]) -> None:
    refusals, slept = Refusals(error, 1), []
    with pytest.raises(error):
        asking(refusals, slept).ask(refusals)
    assert (refusals.asked, slept) == (1, [])


def test_two_callers_do_not_come_back_at_once_and_the_same_chance_is_the_same_wait() -> None:
    def waits(seed: int) -> list[float]:
        refusals, slept = Refusals(Throttled, 4), []
        asking(refusals, slept, seed).ask(refusals)
        return slept

    assert waits(1) == waits(1) != waits(2)


def test_patience_ends() -> None:
    refusals = Refusals(Throttled, 10**6)
    with pytest.raises(Throttled):
        Asking(refusals.meant, patience=0.05, sleep=lambda _: None).ask(refusals)


def test_a_fault_of_ours_is_not_taken_for_the_clouds() -> None:
    empty: list[str] = []
    call: Callable[[], str] = lambda: empty[0]  # noqa: E731
    with pytest.raises(IndexError):
        Asking(lambda _: None).ask(call)


def test_the_sdks_own_exception_is_not_dragged_along() -> None:
    refusals = Refusals(BadRequest, 1)
    with pytest.raises(BadRequest) as told:
        Asking(refusals.meant).once(refusals)
    assert told.value.__suppress_context__
