"""What GPUs do that is not work: for every moment of a fleet of training alone, where its time goes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields

from gpufleet.simulation.fleet.progress import Progress


@dataclass(slots=True)
class Losses:
    """GPU-seconds (of one moment: GPUs)."""

    held: float = 0.0
    """By gangs that are not whole and wait for the rest of their places."""
    fragmented: float = 0.0
    """Free while somebody waits who would fit if places did not matter."""
    waited_for: float = 0.0
    """Free while everybody who waits asks for more."""
    unwanted: float = 0.0
    """Free while nobody waits."""
    slowed: float = 0.0
    """The part of running GPUs that goes into talking over more nodes or leaves than needed."""

    def add(self, now: Losses, seconds: float) -> None:
        """Count a moment that lasts so long."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(now, each.name) * seconds)


def losses_now(gpus: int, held: int, running: Collection[Progress], waiting: Collection[Progress]) -> Losses:
    """This moment, of so many GPUs that are there, some of them held by gangs that are not whole."""
    found = Losses(held=held, slowed=sum(j.work.gpus * (1 - 1 / j.slowdown) for j in running))
    free = gpus - held - sum(j.work.gpus for j in running)
    if not waiting:
        found.unwanted = free
    elif any(j.work.gpus <= free for j in waiting):
        found.fragmented = free
    else:
        found.waited_for = free
    return found
