"""How long zones last: survival by age, corrected by what each zone has done lately.

A zone that has been up for `a` ticks of ten minutes is lost at the next look with probability 0.45 a^-0.8, one that has been
down for `a` ticks is back with 0.7 / a: old zones last, young ones flap. Both curves were read off a recorded market (Google
Cloud H100, October 2025) and hold there for gangs of 1 to 16. Each zone has a factor of its own on both: ends counted by ends
expected, older ticks fading, a few of either added for caution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

OLDEST: Final = 300
"""Ticks from which on age says no more."""
FADE: Final = math.exp(-1 / 180)
"""What a tick's evidence keeps from one tick to the next: a memory of 30 hours ..."""
FADE_FAST: Final = math.exp(-1 / 24)
"""... and beside it one of four hours, which counts to the power `FAST`."""
CAUTION, CAUTION_FAST, FAST = 3.0, 10.0, 0.7
STEPS, WIDEST = 30, 20.0
"""Factors are kept on a grid of so many steps up to 20 and as many down to 1/20."""


def hazard(age: int) -> float:
    """Chance that a zone up for so many ticks is lost at the next look."""
    return min(0.95, max(0.004, 0.45 * math.pow(age, -0.8)))


def comeback(age: int) -> float:
    """Chance that a zone down for so many ticks is back at the next look."""
    return min(0.95, max(0.004, 0.7 / age))


@cache
def _remaining(rate: Callable[[int], float]) -> tuple[tuple[float, ...], ...]:
    """Ticks that a state goes on, this one included, by factor (on the grid) and age."""
    return tuple(_ages(rate, WIDEST ** (step / STEPS)) for step in range(-STEPS, STEPS + 1))


def _ages(rate: Callable[[int], float], factor: float) -> tuple[float, ...]:
    chance = [min(0.95, max(0.002, factor * rate(age))) for age in range(1, OLDEST + 1)]
    found = [1 / chance[-1]]
    for this in reversed(chance[:-1]):
        found.append(1 + (1 - this) * found[-1])
    return tuple(found[::-1])


LOST: Final = (0.0, *(hazard(age) for age in range(1, OLDEST + 1)))
BACK: Final = (0.0, *(comeback(age) for age in range(1, OLDEST + 1)))
"""By age."""


class Record:
    """Ends of a state that were counted and that the curve expected; old evidence fades."""

    __slots__ = ("ends", "ends_fast", "expected", "expected_fast")

    def __init__(self) -> None:
        self.ends = self.expected = self.ends_fast = self.expected_fast = 0.0

    def add(self, ended: float, expected: float) -> None:
        self.ends = self.ends * FADE + ended
        self.expected = self.expected * FADE + expected
        self.ends_fast = self.ends_fast * FADE_FAST + ended
        self.expected_fast = self.expected_fast * FADE_FAST + expected

    @property
    def slow(self) -> float:
        return (self.ends + CAUTION) / (self.expected + CAUTION)

    @property
    def fast(self) -> float:
        return float(((self.ends_fast + CAUTION_FAST) / (self.expected_fast + CAUTION_FAST)) ** FAST)


class Outlook:
    """What the rows seen so far say of every zone. Fed one row after the other, never one that is still to come."""

    def __init__(self, zones: int) -> None:
        self.ages = [0] * zones
        """Ticks up, or, negative, down; 0 before the first row."""
        self.losses = [Record() for _ in range(zones)]
        self.returns = [Record() for _ in range(zones)]

    def see(self, up: Iterable[int]) -> None:
        """The zones of the next row that hold the gang."""
        there = frozenset(up)
        for zone, age in enumerate(self.ages):
            is_up = zone in there
            self.losses[zone].add(age > 0 and not is_up, LOST[min(max(age, 0), OLDEST)])
            self.returns[zone].add(age < 0 and is_up, BACK[min(max(-age, 0), OLDEST)])
            self.ages[zone] = max(age, 0) + 1 if is_up else min(age, 0) - 1

    def life(self, zone: int) -> float:
        """Ticks that the zone goes on, the present one included; of one that is down: once it is back."""
        record = self.losses[zone]
        return remaining_life(record.slow * record.fast, max(self.ages[zone], 1))

    def wait(self, zone: int) -> float:
        """Ticks until a zone that is down is back, from now."""
        return _looked_up(comeback, self.returns[zone].slow, max(-self.ages[zone], 1))


def remaining_life(factor: float, age: int) -> float:
    """Ticks that a zone goes on that has been up for `age` of them and is lost `factor` times as often as the curve says."""
    return _looked_up(hazard, factor, age)


def _looked_up(rate: Callable[[int], float], factor: float, age: int) -> float:
    step = round(STEPS * math.log(factor) / math.log(WIDEST))
    return _remaining(rate)[max(-STEPS, min(STEPS, step)) + STEPS][min(age, OLDEST) - 1]
