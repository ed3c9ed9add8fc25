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
WIDE: Final = CARD + 1
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
        self._card = np.ascontiguousarray(pieces - SOLD * share_values(mix.shares)).ravel()
        """[cell x WIDE + thousandths]: what one card adds: lost to shares larger than the piece, less what it is sold for."""
        self._idle: Floats = fragment / CARD * (sum(w for _, w in asks) - larger[:, 0])
        """[cell]: what a free thousandth adds: lost to all but the shares that the host can serve ..."""
        counts = np.arange(MOST_GPUS + 1)
        self._whole: Floats = (fragment * counts * upto[:, np.minimum(counts, upto.shape[1] - 1)]).ravel()
        """[cell x (MOST_GPUS + 1) + n]: ... save that n whole ones serve those who ask for no more than n."""

    def phi(self, free: Sequence[int], cpu: float, memory: float) -> float:
        """Phi of one node."""
        cell, total = self._cell(cpu, memory), sum(free)
        card, base = self._card.item, cell * WIDE
        found = sum([card(base + milli) for milli in free]) + total * self._idle.item(cell)
        return (
            found
            - self._whole.item(cell * (MOST_GPUS + 1) + free.count(CARD))
            + self.stranding.of_node(cpu, memory, total)
        )

    def share_costs(self, milli: int, free: Sequence[int], cpu: float, memory: float) -> dict[int, float]:
        """Of one node, by what a card has free, Phi when the share has been taken from such a card.

        `cpu` and `memory` are what is left of the node then; cards that are too small are left out.
        """
        cell, total = self._cell(cpu, memory), sum(free) - milli
        card, base = self._card.item, cell * WIDE
        node = sum([card(base + left) for left in free])
        node += total * self._idle.item(cell) + self.stranding.of_node(cpu, memory, total)
        idle = cell * (MOST_GPUS + 1) + free.count(CARD)
        kept, broken = self._whole.item(idle), self._whole.item(max(idle - 1, 0))
        return {
            left: node - card(base + left) + card(base + left - milli) - (broken if left == CARD else kept)
            for left in set(free)
            if left >= milli
        }

    def after_whole(self, gpus: int, free: Ints, host: Floats, full: Ints) -> Floats:
        """By row, Phi when so many whole GPUs are gone and `host` (cores, GiB) is left; `full` cards were idle before."""
        cell, total = self._cells(host), np.add.reduce(free, 1) - gpus * CARD
        base = cell * WIDE
        cards = np.add.reduce(self._card.take(free + base[:, None]), 1) - gpus * self._card.take(base + CARD)
        found: Floats = cards + total * self._idle.take(cell) - self._kept(cell, np.maximum(full - gpus, 0))
        return found + self.stranding(host, total)

    def after_share(self, free: Ints, left: Ints, host: Floats, full: Ints, total: Ints) -> Floats:
        """By row and card, the same when `left` is left of that card's `free`, and of the node `host` and `total`.

        The caller masks what does not fit.
        """
        cell = self._cells(host)
        base = (cell * WIDE)[:, None]
        now = self._card.take(free + base)
        kept = self._kept(cell, full)
        node = np.add.reduce(now, 1) + total * self._idle.take(cell) + self.stranding(host, total) - kept
        lost = self._card.take(left + base) - now
        lost += (free == CARD) * (kept - self._kept(cell, np.maximum(full - 1, 0)))[:, None]
        lost += node[:, None]
        return lost

    def _kept(self, cell: Ints, full: Ints) -> Floats:
        """By row, what so many idle cards serve."""
        return self._whole.take(cell * (MOST_GPUS + 1) + full)

    def _cell(self, cpu: float, memory: float) -> int:
        """Which kinds of pods these cores and GiB can host."""
        cell = bisect_right(self._thresholds[0], cpu) * (len(self._thresholds[1]) + 1)
        return cell + bisect_right(self._thresholds[1], memory)

    def _cells(self, host: Floats) -> Ints:
        """The same by row."""
        cpu, memory = self._cpu.searchsorted(host[0], "right"), self._memory.searchsorted(host[1], "right")
        found: Ints = cpu * (len(self._memory) + 1) + memory
        return found


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
