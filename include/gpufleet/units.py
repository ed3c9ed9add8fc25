"""Quantities that must not be mixed: GPU amounts, memory, durations.

A `GpuAmount` counts 1/21000 of a GPU, exact for sevenths, eighths, twelfths and thousandths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from gpufleet.errors import Invalid

GRAIN: Final = 21_000
"""Parts of one GPU: divisible by 7, 8, 12 and 1000."""

MIB_PER_GIB: Final = 1024


@dataclass(frozen=True, slots=True, order=True)
class GpuAmount:
    """An exact amount of GPU; `grains` is an integer count of 1/21000."""

    grains: int = 0

    @classmethod
    def of(cls, gpus: int | Fraction) -> GpuAmount:
        """So many GPUs; raises Invalid when the fraction is finer than the grid."""
        grains = Fraction(gpus) * GRAIN
        if grains.denominator != 1:
            raise Invalid(f"{gpus} of a GPU is finer than 1/{GRAIN}; use thousandths, sevenths, eighths or twelfths.")
        return cls(int(grains))

    @classmethod
    def milli(cls, thousandths: int) -> GpuAmount:
        return cls(thousandths * GRAIN // 1000)

    def __add__(self, other: GpuAmount) -> GpuAmount:
        return GpuAmount(self.grains + other.grains)

    def __sub__(self, other: GpuAmount) -> GpuAmount:
        return GpuAmount(self.grains - other.grains)

    def __mul__(self, times: int) -> GpuAmount:
        return GpuAmount(self.grains * times)

    @property
    def gpus(self) -> Fraction:
        return Fraction(self.grains, GRAIN)

    def __str__(self) -> str:
        gpus = float(self.gpus)
        return f"{gpus:.4g}" if gpus < 1000 else f"{round(gpus, 1):.10g}"


NO_GPU: Final = GpuAmount(0)


def total(amounts: Iterable[GpuAmount]) -> GpuAmount:
    """Sum of an iterable of GpuAmount."""
    return GpuAmount(sum(a.grains for a in amounts))


def mib(gib: str | int | float | Fraction) -> int:
    """GiB to whole MiB, rounded up: a need must never shrink by rounding."""
    text = str(gib)
    if len(text) > 30 or "e" in text.lower():  # an exponent may stand for a number that fills the memory
        raise ValueError(f"{text[:30]} is not a plain number")
    exact = Fraction(text) * MIB_PER_GIB
    return -(-exact.numerator // exact.denominator)


LONGEST: Final = timedelta(days=36_500)
"""A hundred years: sums of instants and durations stay inside the calendar."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> timedelta:
    """`90s`, `15m`, `1h30m`, `2d`; raises Invalid with the text for anything else."""
    pairs = _DURATION.findall(text)
    if not pairs or "".join(n + u for n, u in pairs) != text.strip():
        raise Invalid(f"'{text}' is not a duration; write it as 90s, 15m, 1h30m or 2d.")
    seconds = sum(float(n) * _SECONDS[u] for n, u in pairs)
    if seconds > LONGEST.total_seconds():
        raise Invalid(f"'{text[:40]}' is longer than {LONGEST.days} days, the longest duration there is here.")
    return timedelta(seconds=seconds)
