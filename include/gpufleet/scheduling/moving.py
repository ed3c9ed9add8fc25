"""What every planned move keeps to: who may be moved, how many pods in one pass, and where they may go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpufleet.model.plan import Move
from gpufleet.model.snapshot import Pending, PodPlace, Running
from gpufleet.model.workload import Demand, PodSet, Share, Slice, TopologyWish, Whole
from gpufleet.placement import Gang, place_gang
from gpufleet.scheduling.lost import gpu_hours
from gpufleet.scheduling.session import Session


def pods_left_to_move(session: Session) -> int:
    """Pods that this pass may still move (`moves_per_pass`)."""
    return session.policy.moves_per_pass - session.moved_pods


def is_movable(session: Session, run: Running) -> bool:
    """Preemptible, no service, whole, not moved yet in this pass, past its queue's min_runtime, with a fresh save."""
    job = run.job.id
    return job in session.roster.settled and len(session.held[job]) == len(run.places) and job not in session.moved


def new_places(
    session: Session, job: str, places: Sequence[PodPlace], names: Sequence[str] | None = None
) -> tuple[PodPlace, ...]:
    """Places (on these nodes) for exactly what the pods have, written into the ledger; () and nothing changed if none."""
    if not places:
        return ()
    run, kinds = session.running[job], _alike(places)
    sets = tuple(PodSet(len(pods), demand, cpu, memory) for (demand, cpu, memory), pods in kinds.items())
    model = session.nodes[places[0].node].model.name
    wish = TopologyWish(spread=run.job.topology.spread)
    asked = replace(run.job, pod_sets=sets, min_members=None, models=(model,), topology=wish)
    nodes = session.eligible(Pending(asked))
    if names is not None:
        allowed = set(names)
        nodes = {m: [n for n in on if n in allowed] for m, on in nodes.items()}
    found = place_gang(session.ledger, session.topology, Gang(asked, len(places), nodes))
    if found is None:
        return ()
    old = [place for pods in kinds.values() for place in pods]
    return tuple(replace(new, pod_set=before.pod_set, rank=before.rank) for new, before in zip(found, old, strict=True))


def note_move(
    session: Session, job: str, for_job: str, old: Sequence[PodPlace], new: Sequence[PodPlace], lost: int
) -> None:
    """Write down that these pods, which have left `old`, go to `new`; the ledger knows already."""
    session.note_moved(job, new)
    was = {p.rank: p.node for p in old}
    session.moves.append(Move(job, for_job, tuple(new), tuple(was[p.rank] for p in new), gpu_hours(lost)))


def _alike(places: Sequence[PodPlace]) -> Mapping[tuple[Demand, float | None, int | None], list[PodPlace]]:
    """Pods by what they hold, in rank order."""
    found: dict[tuple[Demand, float | None, int | None], list[PodPlace]] = {}
    for place in sorted(places, key=lambda p: p.rank):
        found.setdefault((same(place), place.cpu, place.memory_mib), []).append(place)
    return found


def same(place: PodPlace) -> Demand:
    """The demand that is served by exactly what a place is."""
    if place.slices:
        return Slice(profile=place.slices[0].instance.profile)
    if place.shares:
        return Share(place.shares[0].milli, place.shares[0].memory_mib)
    return Whole(len(place.gpus))
