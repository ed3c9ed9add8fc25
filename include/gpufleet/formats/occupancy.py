"""Whether a stated fleet can exist: nothing is held twice, layouts are legal, cards are whole or cut or shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpufleet.model.hardware import MigInstance, Node, illegal_layout
from gpufleet.model.snapshot import PodPlace, Running


@dataclass(slots=True)
class Held:
    """Who holds what on one GPU."""

    whole: list[str] = field(default_factory=list)
    slices: list[tuple[MigInstance, str]] = field(default_factory=list)
    shares: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def jobs(self) -> str:
        return ", ".join(sorted({*self.whole, *(j for _, j in self.slices), *(j for j, *_ in self.shares)}))


def impossible(nodes: Iterable[Node], running: Iterable[Running]) -> str | None:
    """Why this state cannot be, as a sentence that names the node, or None."""
    held: dict[tuple[str, int], Held] = defaultdict(Held)
    for run in running:
        for place in run.places:
            _note(held, place, run.job.id)
    by_name = {n.name: n for n in nodes}
    for (name, gpu), what in sorted(held.items()):
        node = by_name[name]
        exists = next(d.instances for d in node.devices if d.index == gpu)
        if why := _wrong(node, exists, what):
            return f"{name}, GPU {gpu}: {why}."
    return None


def _note(held: dict[tuple[str, int], Held], place: PodPlace, job: str) -> None:
    for gpu in place.gpus:
        held[place.node, gpu].whole.append(job)
    for piece in place.slices:
        held[place.node, piece.gpu].slices.append((piece.instance, job))
    for share in place.shares:
        held[place.node, share.gpu].shares.append((job, share.milli, share.memory_mib))


def _wrong(node: Node, exists: Iterable[MigInstance], what: Held) -> str | None:
    kinds = [k for k in (what.whole, what.slices, what.shares) if k]
    if len(kinds) > 1 or len(what.whole) > 1:
        return f"is held whole and in part, or twice, by {what.jobs}"
    if (what.whole or what.shares) and tuple(exists):
        return f"has MIG instances in its layout, yet {what.jobs} uses the card itself"
    used = [instance for instance, _ in what.slices]
    if why := illegal_layout(node.model, [*used, *(i for i in exists if i not in used)]):
        return f"{why} (used by {what.jobs})"
    if sum(milli for _, milli, _ in what.shares) > 1000:
        return f"shares of {what.jobs} sum to more than the card"
    if sum(mib for *_, mib in what.shares) > node.model.memory_mib:
        return f"shares of {what.jobs} hold more memory than the card has"
    return None
