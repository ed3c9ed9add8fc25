"""Whether what a job is given lies within what its queue deserves: the mark that its use carries to the bill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.model.hardware import GpuModel
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import Queue
from gpufleet.quota.tree import Tree
from gpufleet.quota.usage import Usage, cost

GUARANTEED, OVER_QUOTA = "guaranteed", "over-quota"

Held = tuple[str, tuple[PodPlace, ...]]
"""A queue, and places that work of it holds."""


class Marks:
    """Counts what queues hold; a pod is over quota when its own queue holds more than it deserves with it.

    A mark is made when the place is given and stays until it is given back, as the reservation of a seat does.
    """

    def __init__(self, queues: Iterable[Queue], models: Mapping[str, GpuModel], held: Iterable[Held]) -> None:
        self._usage = Usage(Tree(queues))
        self._models = models
        for queue, places in held:
            for place in places:
                self._add(queue, place)

    def give(self, queue: str, places: Iterable[PodPlace]) -> dict[int, str]:
        """By rank, in the order of ranks; what is given counts from then on."""
        found = {}
        for place in sorted(places, key=lambda p: p.rank):
            model = self._models.get(place.node)
            grains = cost(place, model).grains if model else 0
            is_within = model is not None and self._usage.within([queue], model.name, grains)
            found[place.rank] = GUARANTEED if is_within else OVER_QUOTA
            self._add(queue, place)
        return found

    def _add(self, queue: str, place: PodPlace) -> None:
        if model := self._models.get(place.node):
            self._usage.add(queue, model.name, cost(place, model).grains, preemptible=True)
