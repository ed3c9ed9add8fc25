"""What a node's free room is worth for the demand to come; a pod goes where the least of it is lost.

    Phi(node) = -3 V + 0.3 (S_cpu + S_memory) + 0.15 F          all in GPUs

V is what the free cards can still be sold for (`share_values`), S the GPUs that a lack of cores or memory is expected to
strand, F the free GPUs the expected next pod could not use (FGD's fragment, ATC'23, kept as a real number over all
kinds of pods). Rule, factors and what each part brings: docs/placement.md, section 1.

Everything that does not depend on the node is in tables, by cell: which kinds of pods its cores and memory can host.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gpufleet.model.hardware import MOST_GPUS
from gpufleet.placement.mix import PRIOR, Ask, Mix
from gpufleet.placement.share_values import CARD, share_values
from gpufleet.placement.stranding import Stranding

SOLD, STRANDED, FRAGMENT = 3.0, 0.3, 0.15
FRAGMENT_KNOWN: Final = 0.12
"""Of F where the mix to come is known and not learnt; learnt late, this little breaks idle nodes too early."""
PLENTY: Final = 1e9
"""Cores or GiB of a node that does not say how many it has."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Potential:
    """Phi for one mix. Rows are nodes: `free` thousandths of every card, free cores, free GiB."""

    def __init__(self, mix: Mix = PRIOR, fragment: float = FRAGMENT) -> None:
        self.mix = mix
        gpus = [(c, a.milli / CARD, a) for a, c in mix.counts if a.milli]
        self.stranding = Stranding(
            [(c, g, a.cpu) for c, g, a in gpus], [(c, g, a.memory_gib) for c, g, a in gpus], STRANDED
        )
        asks = [(a, c / mix.total) for a, c in mix.counts if a.milli]
        self._cpu = np.array(sorted({a.cpu for a, _ in asks})) - 1e-9
        self._memory = np.array(sorted({a.memory_gib for a, _ in asks})) - 1e-9
        self._thresholds = self._cpu.tolist(), self._memory.tolist()
        larger, upto, sizes = _weights(asks, self._cpu, self._memory)
        rank = np.searchsorted(sizes, np.arange(CARD + 1), side="right")
        pieces = fragment * np.arange(CARD + 1) / CARD * larger[:, rank]
        self._card = pieces - SOLD * share_values(mix.shares)
        """[cell, thousandths]: what one card adds: lost to shares larger than the piece, less what it can be sold for."""
        self._idle = fragment * (sum(w for _, w in asks) - larger[:, 0])
        """[cell]: what a free GPU adds: lost to all but the shares that the host can serve ..."""
        counts = np.arange(MOST_GPUS + 1)
        self._whole = fragment * counts * upto[:, np.minimum(counts, upto.shape[1] - 1)]
        """[cell, n]: ... save that n whole ones serve those who ask for no more than n."""

    def phi(self, free: Sequence[int], cpu: float, memory: float) -> float:
        """Phi of one node."""
        cell = bisect_right(self._thresholds[0], cpu) * (len(self._thresholds[1]) + 1)
        cell += bisect_right(self._thresholds[1], memory)
        card, total = self._card[cell], sum(free)
        found = sum([card[milli] for milli in free]) + total / CARD * self._idle[cell]
        return float(found - self._whole[cell, free.count(CARD)] + self.stranding.of_node(cpu, memory, total))

    def after_whole(self, ask: Ask, free: Ints, cpu: Floats, memory: Floats) -> Floats:
        """By row, Phi when the pod has taken its whole GPUs there (CPU-only pods: none)."""
        n = ask.milli // CARD
        cpu, memory = cpu - ask.cpu, memory - ask.memory_gib
        cell, total = self._cells(cpu, memory), np.add.reduce(free, 1) - ask.milli
        full = np.maximum(np.add.reduce(free == CARD, 1) - n, 0)
        cards = np.add.reduce(self._card[cell[:, None], free], 1) - n * self._card[cell, CARD]
        found: Floats = cards + total * self._idle[cell] / CARD - self._whole[cell, full]
        return found + self.stranding(cpu, memory, total)

    def after_share(self, ask: Ask, free: Ints, cpu: Floats, memory: Floats) -> Floats:
        """By row and card, Phi when the share has been taken from that card. The caller masks what does not fit."""
        cpu, memory = cpu - ask.cpu, memory - ask.memory_gib
        cell, total = self._cells(cpu, memory), np.add.reduce(free, 1) - ask.milli
        whole, wide = free == CARD, cell[:, None]
        now = self._card[wide, free]
        full = np.add.reduce(whole, 1)[:, None] - whole
        node = np.add.reduce(now, 1) + total * self._idle[cell] / CARD + self.stranding(cpu, memory, total)
        rest = self._card[wide, np.maximum(free - ask.milli, 0)]
        found: Floats = node[:, None] - now + rest - self._whole[wide, full]
        return found

    def _cells(self, cpu: Floats, memory: Floats) -> Ints:
        """Which kinds of pods these cores and GiB can host."""
        found: Ints = self._cpu.searchsorted(cpu, "right") * (len(self._memory) + 1)
        return found + self._memory.searchsorted(memory, "right")


@lru_cache(maxsize=8)
def potential_of(mix: Mix = PRIOR, fragment: float = FRAGMENT) -> Potential:
    """The potential of a mix; its tables never change, so equal mixes share them."""
    return Potential(mix, fragment)


def _weights(asks: Sequence[tuple[Ask, float]], cpu: Floats, memory: Floats) -> tuple[Floats, Floats, Ints]:
    """Weights of the pods each cell can host: shares larger than the k smallest sizes; pods of at most n whole GPUs."""
    sizes = np.array(sorted({a.milli for a, _ in asks if a.is_share}), dtype=np.int64)
    most = max([a.milli // CARD for a, _ in asks if not a.is_share], default=0)
    shape = len(cpu) + 1, len(memory) + 1
    larger, upto = np.zeros((*shape, len(sizes) + 1)), np.zeros((*shape, most + 1))
    for ask, weight in asks:
        i, j = int(cpu.searchsorted(ask.cpu, "right")), int(memory.searchsorted(ask.memory_gib, "right"))
        if ask.is_share:
            larger[i:, j:, : int(sizes.searchsorted(ask.milli)) + 1] += weight
        else:
            upto[i:, j:, ask.milli // CARD :] += weight
    cells = shape[0] * shape[1]
    return larger.reshape(cells, -1), upto.reshape(cells, -1), sizes
