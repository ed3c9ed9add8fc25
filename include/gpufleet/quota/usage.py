"""What every queue uses, by GPU model, its descendants' use included; every step can be taken back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.model.hardware import GpuModel
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import ANY_MODEL
from gpufleet.quota.tree import Bound, Tree, is_within
from gpufleet.units import GRAIN, GpuAmount, total

MILLI_GRAIN = GRAIN // 1000


def cost(place: PodPlace, model: GpuModel) -> GpuAmount:
    """What a pod's place costs a quota: whole GPUs, slices by memory slices, shares by thousandths."""
    if not place.slices and not place.shares:
        return GpuAmount(len(place.gpus) * GRAIN)
    if len(place.slices) == 1 and not place.gpus and not place.shares:  # by far the most frequent
        profile = model.profile(place.slices[0].instance.profile)
        return model.slice_amount(profile) if profile else GpuAmount(0)
    slices = total(model.slice_amount(p) for s in place.slices if (p := model.profile(s.instance.profile)))
    shares = sum(s.milli for s in place.shares) * MILLI_GRAIN
    return GpuAmount(len(place.gpus) * GRAIN + slices.grains + shares)


class Usage:
    """Grains used by (queue, model), kept for every ancestor; and apart what may not be preempted, by leaf."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._used: dict[str, dict[str, int]] = {}
        self._fixed: dict[str, dict[str, int]] = {}
        self._log: list[tuple[str, str, int, bool]] = []
        self._versions: dict[str, int] = {}
        self.changes = 0
        """Counts every change, taken back or not."""

    def copy(self) -> Usage:
        """The same amounts, counted on from here by itself."""
        found = Usage(self.tree)
        found._used = {queue: dict(row) for queue, row in self._used.items()}
        found._fixed = {queue: dict(row) for queue, row in self._fixed.items()}
        return found

    def of(self, queue: str) -> Mapping[str, int]:
        """Grains by model, descendants included."""
        return self._used.get(queue, {})

    def fixed(self, queue: str) -> Mapping[str, int]:
        """Grains by model that work of this queue holds which may not be preempted, descendants included."""
        return self._fixed.get(queue, {})

    def add(self, queue: str, model: str, grains: int, *, preemptible: bool) -> None:
        """Work of `queue` takes (or with a negative amount gives back) some of `model`."""
        self._log.append((queue, model, grains, preemptible))
        self._apply(queue, model, grains, preemptible)

    def _apply(self, queue: str, model: str, grains: int, preemptible: bool) -> None:
        chain = self.tree.chain(queue)
        self.changes += 1
        self._versions[chain[-1]] = self.changes
        for name in chain:
            for table in (self._used,) if preemptible else (self._used, self._fixed):
                row = table.setdefault(name, {})
                row[model] = row.get(model, 0) + grains

    def version(self, queue: str) -> int:
        """Changes when the use of the queue, or of any other below the same child of the root, may have changed."""
        return self._versions.get(self.tree.top.get(queue, queue), 0)

    def mark(self) -> int:
        return len(self._log)

    def rollback(self, mark: int) -> None:
        while len(self._log) > mark:
            queue, model, grains, preemptible = self._log.pop()
            self._apply(queue, model, -grains, preemptible)

    # ------------------------------------------------------------ bounds

    def over_limit(self, queue: str, model: str, grains: int) -> Bound | None:
        """The first limit on the way to the root that so much more would break: the smallest wins by being met."""
        for name in self.tree.chain(queue):
            limit, used = self.tree.limits.get(name, {}), self.of(name)
            if model in limit and used.get(model, 0) + grains > limit[model]:
                return Bound(name, model, limit[model])
            if ANY_MODEL in limit and sum(used.values()) + grains > limit[ANY_MODEL]:
                return Bound(name, ANY_MODEL, limit[ANY_MODEL])
        return None

    def fits_guarantee(self, queue: str, model: str, grains: int) -> bool:
        """Whether work that may not be preempted stays inside what the queue deserves with so much more."""
        return is_within(self.tree.deserved(queue), self.fixed(queue), model, grains)

    def within(self, queues: Iterable[str], model: str, grains: int = 0) -> bool:
        """Whether all these queues, with so much more, stay within what they deserve."""
        return all(is_within(self.tree.deserved(name), self.of(name), model, grains) for name in queues)
