"""How much GPU memory a workload needs, learned from what its runs were measured to use.

Peak memory is a part that stays (weights, optimizer, context) and a part that grows with the tokens in flight
(activations, KV cache): about a line in batch x sequence (Korthikanti et al., arXiv 2205.05198; KV cache: vLLM logs).
Estimates lean to the safe side: inside what was measured a larger run bounds a smaller one, beyond it attention may
grow with the square of the sequence, and what is too far away is refused rather than guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpufleet.model.workload import Kind, Workload

CONTEXT_MIB: Final = 512
"""What a CUDA process holds outside its framework's allocator. The MIG user guide speaks of about 250 MiB for a trivial
process, vLLM's logs of up to 0.35 GiB on one GPU."""

USUAL_SD: Final = 0.03
"""Spread of a memory estimate before a workload has shown its own (assumed in the MIG probes behind our margins)."""
USUAL_RUNS: Final = 3
"""How many runs of its own the usual spread weighs as much as."""

SDS: Final = 4.0
"""Margin in standard deviations: at 4 the probes saw no kill, at 3.5 one in several thousand."""

FLOOR: Final = {Kind.TRAINING: 0.05, Kind.INFERENCE: 0.10, Kind.INTERACTIVE: 0.05}
"""The least margin: inference replicas are sized to fill their slice and live long, so they get more."""

REACH: Final = 2.0
"""How far beyond the largest measured batch, sequence and product an estimate may go."""


class Measured(StrEnum):
    """What a peak counts: all that the device held for the process, or only what the framework's allocator reserved."""

    DEVICE = "device"
    ALLOCATOR = "allocator"


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """The peak of one run, in MiB, of its worst GPU. `killed`: it was ended for memory, so it needs more than this."""

    workload: Workload
    peak_mib: int
    measured: Measured = Measured.ALLOCATOR
    killed: bool = False
    source: str = ""

    @property
    def held_mib(self) -> int:
        """What the device held: the CUDA context comes on top of what an allocator knows of."""
        return self.peak_mib + (CONTEXT_MIB if self.measured is Measured.ALLOCATOR else 0)


@dataclass(frozen=True, slots=True)
class Need:
    """What to ask for: `memory_mib` is the whole need, context and margin included; `why` says how it came about."""

    memory_mib: int
    margin_mib: int
    from_points: tuple[MemoryPoint, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known that would carry an estimate; `why` says what to do instead."""

    why: str


@dataclass(frozen=True, slots=True)
class _Base:
    """A peak before the margin, in MiB: from how many runs, how they lead there, how far it lies beyond them."""

    mib: float
    runs: int
    how: str
    leverage: float = 0.0


@dataclass(frozen=True, slots=True)
class _Line:
    """MiB held = `stays` + `grows` x tokens; `sd` is the spread of runs around it, as a part of the peak."""

    stays: float
    grows: float
    sd: float
    tokens: tuple[int, ...]

    def at(self, tokens: float) -> float:
        return self.stays + self.grows * tokens

    def leverage(self, tokens: float) -> float:
        """How much less sure the line is out there than in the middle of its runs (variance of a fitted line)."""
        middle = math.fsum(self.tokens) / len(self.tokens)
        width = math.fsum((t - middle) ** 2 for t in self.tokens)
        return (tokens - middle) ** 2 / width if width else 0.0


def need(points: Iterable[MemoryPoint], ask: Workload, kind: Kind = Kind.TRAINING) -> Need | Unknown:
    """The memory to ask for so that `ask` is not killed, from the runs of the workload of that name."""
    own = tuple(p for p in points if p.workload.name == ask.name)
    whole = tuple(p for p in own if not p.killed)
    if why := _missing(own, whole, ask) or _too_far(whole, ask):
        return Unknown(f"{why}: ask with memory_gib, or run it once on a whole GPU as workload '{ask.name}'.")
    line = _line(whole)
    base = _base(own, whole, line, ask)
    part = max(FLOOR[kind], SDS * line.sd * math.sqrt(1 + 1 / base.runs + base.leverage))
    peak, margin = math.ceil(base.mib), math.ceil(base.mib * part)
    return Need(peak + margin, margin, own, _why(ask, base, peak, margin, line.sd, part > FLOOR[kind]))


def _missing(own: tuple[MemoryPoint, ...], whole: tuple[MemoryPoint, ...], ask: Workload) -> str:
    if not own:
        return f"nothing was measured of '{ask.name}'"
    if not whole:
        most = max(p.held_mib for p in own)
        return f"'{ask.name}' was killed for memory at {most / 1024:.1f} GiB and never seen running whole"
    return ""


def _too_far(whole: tuple[MemoryPoint, ...], ask: Workload) -> str:
    """Why the ask lies beyond what its runs can tell; empty where it does not, or where a measured run holds it."""
    if any(ask.is_within(p.workload) for p in whole):
        return ""
    batch, sequence = max(p.workload.batch for p in whole), max(p.workload.sequence for p in whole)
    largest = max(whole, key=lambda p: p.workload.tokens).workload
    beyond = max(ask.batch / batch, ask.sequence / sequence, ask.tokens / largest.tokens)
    if beyond <= REACH:
        return ""
    most = f"batch {largest.batch} x sequence {largest.sequence}"
    return f"{ask} is {beyond:.1f} times beyond what was measured ({most} at most), and {REACH:g} is the limit"


def _base(own: tuple[MemoryPoint, ...], whole: tuple[MemoryPoint, ...], line: _Line, ask: Workload) -> _Base:
    """The line, never below the peak of a smaller ask, never above that of a larger one."""
    below = [p for p in own if p.workload.is_within(ask)]
    above = [p for p in whole if ask.is_within(p.workload)]
    found = _on_line(line, whole, ask)
    if above:
        highest = {p.workload: _highest(above, p.workload) for p in above}
        found = min(*highest.values(), found, key=lambda b: b.mib)
    if below:
        found = max(_highest(below, max(below, key=lambda p: p.held_mib).workload), found, key=lambda b: b.mib)
    return found


def _highest(points: list[MemoryPoint], at: Workload) -> _Base:
    runs = [p for p in points if p.workload == at]
    most = max(runs, key=lambda p: p.held_mib)
    # one that was killed says where its need begins; what the others used says nothing of how far it goes
    how, count = ("not enough", 1) if most.killed else ("measured", len(runs))
    return _Base(most.held_mib, count, f"{how} at batch {at.batch} x sequence {at.sequence}")


def _on_line(line: _Line, whole: tuple[MemoryPoint, ...], ask: Workload) -> _Base:
    longest = max(p.workload.sequence for p in whole)
    # without FlashAttention the scores of a layer grow with the square of the sequence
    tokens = max(ask.tokens * max(1.0, ask.sequence / longest), min(line.tokens))
    return _Base(line.at(tokens), len(whole), "on the line", line.leverage(tokens))


def _line(whole: tuple[MemoryPoint, ...]) -> _Line:
    """Least squares; neither part may shrink below nothing. Runs of one size bound the line by a ray from zero."""
    tokens = tuple(p.workload.tokens for p in whole)
    held = [float(p.held_mib) for p in whole]
    middle, mean = math.fsum(tokens) / len(tokens), math.fsum(held) / len(held)
    width = math.fsum((t - middle) ** 2 for t in tokens)
    grows = math.fsum((t - middle) * (h - mean) for t, h in zip(tokens, held, strict=True)) / width if width else 0.0
    stays = mean - grows * middle
    if not width or stays < 0:
        ray = math.fsum(t * h for t, h in zip(tokens, held, strict=True)) / math.fsum(t * t for t in tokens)
        stays, grows = 0.0, ray
    elif grows < 0:
        stays, grows = mean, 0.0
    free = len(whole) - (1 if not stays or not grows else 2)
    off = [h / (stays + grows * t) - 1 for t, h in zip(tokens, held, strict=True)]
    sd = math.sqrt((USUAL_RUNS * USUAL_SD**2 + math.fsum(o * o for o in off)) / (USUAL_RUNS + max(0, free)))
    return _Line(stays, grows, sd, tokens)


def _why(ask: Workload, base: _Base, peak: int, margin: int, sd: float, is_spread: bool) -> str:
    runs = f"{base.runs} run{'s' if base.runs != 1 else ''}"
    rule = f"{SDS:g} standard deviations of {sd:.1%}" if is_spread else "the least there is"
    return (
        f"{(peak + margin) / 1024:.1f} GiB like {ask}: {peak / 1024:.1f} GiB {base.how} of {runs}, CUDA context "
        f"included, and a margin of {margin / 1024:.1f} GiB ({margin / peak:.0%}, {rule})"
    )
