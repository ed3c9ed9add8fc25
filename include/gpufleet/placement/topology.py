"""Domains: which nodes are near each other. A domain is its whole path; a missing label is a domain of its own."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gpufleet.model.hardware import Node
from gpufleet.model.workload import Job

NODE_LEVEL = "node"
Domain = tuple[str, ...]


@lru_cache(maxsize=1 << 17)
def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which n2 comes before n10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


class Topology:
    """Levels broad to narrow: the cluster (a gang never spans two), the fleet's own levels, the node."""

    def __init__(self, levels: Sequence[str], nodes: Iterable[Node]) -> None:
        self.names = ("cluster", *levels, NODE_LEVEL)
        self.depth = {name: i for i, name in enumerate(self.names)}
        self.paths = {n.name: self._path(n) for n in nodes}
        order = sorted(self.paths, key=lambda name: (self.paths[name][:-1], natural(name)))
        self.order = {name: i for i, name in enumerate(order)}
        """Nodes in the order of the topology: neighbours have neighbouring numbers."""
        self._splits: dict[tuple[int, int], tuple[Sequence[str], dict[Domain, list[str]]]] = {}

    def _path(self, node: Node) -> tuple[Domain, ...]:
        path: list[Domain] = [(node.cluster,)]
        for i in range(len(self.names) - 2):
            labelled = len(node.position) > i and all(node.position[: i + 1])
            path.append((node.cluster, *node.position[: i + 1]) if labelled else (node.cluster, "", node.name))
        return (*path, (node.cluster, "", node.name))

    def domain(self, node: str, depth: int) -> Domain:
        return self.paths[node][depth]

    @property
    def leaf(self) -> int:
        """The narrowest level above the node."""
        return len(self.names) - 2

    def first_and_last(self, job: Job) -> tuple[int, int]:
        """Depths to try, from the narrowest (preferred) out to the broadest allowed (required)."""
        required = self.depth.get(job.topology.required or "", 0)
        preferred = self.depth.get(job.topology.preferred or "", self.leaf)
        return max(required, preferred), required

    def split(self, nodes: Sequence[str], depth: int) -> dict[Domain, list[str]]:
        """The nodes by their domain at one depth. Remembered for a list that is asked about again and again."""
        known = self._splits.get((id(nodes), depth))
        if known is None:
            found: dict[Domain, list[str]] = {}
            for name in nodes:
                found.setdefault(self.paths[name][depth], []).append(name)
            known = self._splits[id(nodes), depth] = (nodes, found)  # keeping the list keeps its id its own
        return known[1]
