"""What a waiting job is told, and in which order the blame is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gpufleet.model.plan import Reason


@dataclass(frozen=True, slots=True)
class Why:
    """The answer about one waiting job."""

    reason: Reason
    detail: str
    unblock: str = ""


# What is left out one after another; the first that lets the job fit is to blame.
BLAME = (
    Reason.CAPACITY_TYPE,
    Reason.TOPOLOGY,
    Reason.UNHEALTHY,
    Reason.HOST_RESOURCES,
    Reason.SHARING,
    Reason.MEMORY,
)
EVERYTHING = frozenset(BLAME)
REPAIRED = "it starts when they are repaired or replaced"

WORDS: Final = {
    Reason.CAPACITY_TYPE: ("no {} capacity is free, other kinds are", "another capacity type would serve it"),
    Reason.TOPOLOGY: (
        "enough is free, but not inside one {}: {}",
        "as a preference instead of a requirement, {} would not hold it back",
    ),
    Reason.UNHEALTHY: ("the GPUs it would fit on are unhealthy or their nodes take no new work", REPAIRED),
    Reason.HOST_RESOURCES: (
        "GPUs are free, but the CPU or memory of their hosts is used up",
        "less cpu or memory_gib per pod would let it fit",
    ),
    Reason.SHARING: ("only nodes that offer no shares have room", "a slice or a whole GPU would fit there"),
    Reason.MEMORY: ("parts of cards are free, but too little of their memory", "less memory would fit"),
}


DEARER: Final = (
    "what is free is a larger slice than it asks for, and costs more than its queue may still use",
    "a higher limit of its queue, or a smaller slice that comes free, would place it",
)
