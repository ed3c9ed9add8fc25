"""What GPUs do that is not work: for every moment of a fleet of training alone, where its time goes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpufleet.simulation.fleet.world import World


@dataclass(slots=True)
class Shares:
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

    def add(self, now: Shares, seconds: float) -> None:
        """Count a moment that lasts so long."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(now, each.name) * seconds)


def shares_now(world: World, gpus: int) -> Shares:
    """This moment, of so many GPUs that are there."""
    running = sum(job.work.gpus for job in world.running.values())
    slowed = sum(job.work.gpus * (1 - 1 / job.slowdown) for job in world.running.values())
    found = Shares(held=world.counts.held, slowed=slowed)
    free = gpus - running - world.counts.held
    if not world.waiting:
        found.unwanted = free
    elif any(job.work.gpus <= free for job in world.waiting.values()):
        found.fragmented = free
    else:
        found.waited_for = free
    return found
