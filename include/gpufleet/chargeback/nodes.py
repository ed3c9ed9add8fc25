"""When each node was up, and as what (rules 10 to 12)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from gpufleet.chargeback.days import FOREVER, micros
from gpufleet.chargeback.evidence import Evidence, Quarantine
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import GpuModel
from gpufleet.model.usage import NodeDown, NodeUp


@dataclass(frozen=True, slots=True)
class Shape:
    """A node's description, in force in [begin, end)."""

    begin: int
    up: NodeUp
    end: int = FOREVER

    @property
    def model(self) -> GpuModel:
        return gpu_model(self.up.model)


@dataclass(frozen=True, slots=True)
class Life:
    """All that is known of one node. Without any shape it was never announced: what runs on it is billed all the same."""

    name: str
    shapes: tuple[Shape, ...] = ()
    downs: tuple[int, ...] = ()
    """Instants at which all that ran on the node ended."""

    @property
    def announced(self) -> bool:
        return bool(self.shapes)

    def at(self, instant: int) -> Shape | None:
        """The description in force, None while the node is not up."""
        i = bisect_right(self.shapes, instant, key=lambda s: s.begin) - 1
        return self.shapes[i] if i >= 0 and instant < self.shapes[i].end else None

    def gone(self, since: int, gpu: int) -> tuple[int, bool]:
        """When a GPU that is there at `since` is next lost; True where by node-down, False where by a smaller shape."""
        down = next_after(self.downs, since)
        if not self.announced:
            return down, True
        i = bisect_right(self.shapes, since, key=lambda s: s.begin)
        shrunk = next((s.begin for s in self.shapes[i:] if s.begin >= down or gpu >= s.up.gpus), FOREVER)
        return (shrunk, False) if shrunk < down else (down, True)


def next_after(instants: tuple[int, ...], since: int) -> int:
    """The first of sorted instants later than `since`, or FOREVER."""
    i = bisect_right(instants, since)
    return instants[i] if i < len(instants) else FOREVER


def lives(evidence: Evidence, quarantine: Quarantine) -> Mapping[str, Life]:
    """Every node that something is known of, by name."""
    found = {name: _life(name, events, quarantine) for name, events in evidence.nodes.items()}
    for _, _, node, _ in evidence.holdings:
        found.setdefault(node, Life(node))
    return found


def _life(name: str, events: list[NodeUp | NodeDown], quarantine: Quarantine) -> Life:
    if not any(isinstance(e, NodeUp) for e in events):
        return Life(name, downs=tuple(sorted({micros(e.at) for e in events})))
    shapes: list[Shape] = []
    downs: list[int] = []
    for at, told in groupby(sorted(events, key=lambda e: (e.at, e.id)), key=lambda e: micros(e.at)):
        at_once = list(told)
        # node-down is read first (rule 10); several of one instant tell the same thing
        if _is_up(shapes):
            if any(isinstance(e, NodeDown) for e in at_once):
                shapes[-1] = replace(shapes[-1], end=at)
                downs.append(at)
        else:
            _refuse((e for e in at_once if isinstance(e, NodeDown)), quarantine)
        for up in [e for e in at_once if isinstance(e, NodeUp)][-1:]:
            if _is_up(shapes):
                shapes[-1] = replace(shapes[-1], end=at)
            shapes.append(Shape(at, up))
    return Life(name, tuple(shapes), tuple(downs))


def _is_up(shapes: list[Shape]) -> bool:
    return bool(shapes) and shapes[-1].end == FOREVER


def _refuse(downs: Iterable[NodeDown], quarantine: Quarantine) -> None:
    for down in downs:
        quarantine.add(down.id, f"node-down of {down.node}, which was not up")
