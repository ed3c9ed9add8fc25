"""Nodes that go and come back: failures without notice, spot reclaims with one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpufleet.simulation.fleet.spec import Spec
from gpufleet.simulation.fleet.workload import Random


@dataclass(frozen=True, slots=True)
class Fault:
    """A node is lost, and is there again later. `noticed` = when the notice came, None without."""

    node: int
    noticed: float | None
    lost: float
    back: float


def faults(spec: Spec, random: Random, horizon: float) -> Iterator[Fault]:
    """A Poisson stream over the fleet, every node alike; a node that is gone is not lost again."""
    told, gone = spec.faults, dict[int, float]()
    if told.every <= 0:
        return
    at = 0.0
    while (at := at + random.expovariate(spec.fleet.nodes / told.every)) <= horizon:
        node, with_notice = random.randrange(spec.fleet.nodes), random.random() < told.noticed
        if gone.get(node, 0.0) <= at:
            lost = at + (told.notice if with_notice else 0.0)
            gone[node] = lost + told.away
            yield Fault(node, at if with_notice else None, lost, gone[node])
