"""What our own live pods were planned on, read back from what we wrote on them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gpufleet.clusters.kubernetes.seeing.layout import Layout
from gpufleet.model.hardware import MigInstance

_SLICE: Final = re.compile(r"MIG:(\d{1,2})/([^@,\s]{1,30})@(\d{1,2})")
_SHARE: Final = re.compile(r"SHARE:(\d{1,2})/\d+")


@dataclass(frozen=True, slots=True)
class Held:
    """On one node: whole or shared GPUs, and slices."""

    gpus: frozenset[int] = frozenset()
    layout: Layout = field(default_factory=dict)


def held_on_node(planned: Iterable[str]) -> Held:
    """`planned` are texts as GPUFLEET_DEVICES has them: `0,1`, `MIG:7/1g.10gb@6`, `SHARE:3/500`."""
    gpus: set[int] = set()
    layout: dict[int, set[MigInstance]] = {}
    for word in (word for text in planned for word in text.split(",")):
        if match := _SLICE.fullmatch(word):
            layout.setdefault(int(match[1]), set()).add(MigInstance(int(match[3]), match[2]))
        elif match := _SHARE.fullmatch(word):
            gpus.add(int(match[1]))
        elif word.isascii() and word.isdecimal() and len(word) < 3:
            gpus.add(int(word))
    return Held(frozenset(gpus), {gpu: tuple(sorted(instances)) for gpu, instances in layout.items()})
