"""Net gain: a big gang that nothing else could start takes the places of small work, where that is worth it.

Off unless the policy names a horizon (docs/decisions/0005). Victims are smaller than the gang, have run for a while
and have saved; the GPUs that would run besides theirs, over the horizon, must outweigh what they lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from itertools import accumulate, combinations, islice
from typing import Final

from gpufleet.model.snapshot import Pending, PodPlace, Running
from gpufleet.model.workload import Kind, Whole
from gpufleet.scheduling.lost import MICROSECOND, lost_work
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.victims import eviction
from gpufleet.units import GRAIN

BIG: Final = 8
"""Only gangs of more GPUs than this: what fits one node finds its place by other means."""
IDLE: Final = 8
"""GPUs that must lie idle, or there is nothing to gain."""
TRIES: Final = 2
"""In one pass."""
SETTLED: Final = timedelta(hours=2)
"""A victim has run at least so long; this also keeps two gangs from taking turns."""
SAVED: Final = timedelta(hours=1)
"""Who has not saved for longer does not count as work that can be taken up again."""
RESTART: Final = timedelta(minutes=5)
"""What every victim pays besides the work since its save."""
PER_LEVEL: Final = 3
"""Domains tried on each level, cheapest estimate first."""
LEAVES: Final = 6
"""Leaves of which unions are thought of, the roomiest first."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """Nodes on which the gang would fit with these jobs gone, and what that costs by estimate."""

    cost: int
    order: int
    names: tuple[str, ...]
    victims: tuple[str, ...]
    crossing: int
    """Part of the cost: what the gang loses over the horizon on more leaves than it needs."""


@dataclass(frozen=True, slots=True)
class Swap:
    """A trial that worked: whom it stops, where, and what the victims pay."""

    cost: int
    victims: tuple[str, ...]
    nodes: dict[str, list[str]]


def net_gain(session: Session, pending: Pending) -> bool:
    """Start the gang in place of smaller work; False, and nothing changed, where that is not allowed or not worth it."""
    if not _is_big(session, pending) or session.notes.net_gain_tries >= TRIES:
        return False
    for model, names in session.eligible(pending).items():
        if sum(len(session.ledger.books[n].free) for n in names) < IDLE:
            continue
        session.notes.net_gain_tries += 1
        swap = _cheapest(session, pending, model, names)
        if swap is not None:
            _carry_out(session, pending, swap)
            return True
    return False


def _is_big(session: Session, pending: Pending) -> bool:
    job = pending.job
    if not session.policy.net_gain_horizon or not all(isinstance(s.demand, Whole) for s in job.pod_sets):
        return False
    return any(session.grains(job, m, job.least_pods) > BIG * GRAIN for m in session.possible(pending))


# ---------------------------------------------------------------- who may be stopped


def _may_stop(session: Session, pending: Pending, run: Running, model: str) -> bool:
    job, places = run.job, session.held[run.job.id]
    if not job.preemptible or job.kind is not Kind.TRAINING or any(m.job == job.id for m in session.moves):
        return False
    smaller = 0 < session.cost(places) < session.grains(pending.job, model, pending.job.least_pods)
    return smaller and _has_had_its_time(session, run) and _may_give_way(session, pending, run, model)


def _has_had_its_time(session: Session, run: Running) -> bool:
    queue, ran = session.tree.queues.get(run.job.queue), session.now - run.started_at
    if ran < SETTLED or (queue is not None and ran < queue.min_runtime):
        return False
    return run.last_checkpoint_at is not None and session.since_save(run) <= SAVED


def _may_give_way(session: Session, pending: Pending, run: Running, model: str) -> bool:
    """Not to a lower priority, nor to an equal one that asked later; and only what its queue borrows goes elsewhere.

    The gang's queue stays within its fair share: beyond it, the victims' queue would take the places back at once.
    """
    gang, job = pending.job, run.job
    if job.priority > gang.priority:
        return False
    elder = job.priority == gang.priority and job.submitted_at <= gang.submitted_at
    if elder and session.policy.net_gain_seniority:
        return False
    if job.queue == gang.queue:
        return True
    mine, theirs = session.tree.below_common(gang.queue, job.queue)
    if session.rights.is_within_any(theirs, model):
        return False
    return session.rights.within_share(mine, model, session.grains(gang, model, gang.least_pods))


# ---------------------------------------------------------------- where


def _cheapest(session: Session, pending: Pending, model: str, names: Sequence[str]) -> Swap | None:
    """The best swap on the narrowest level that has one; above the leaf, on as few leaves as could do."""
    prices = _prices(session, pending, model, names)
    first, last = session.topology.first_and_last(pending.job)
    for depth in range(first, last - 1, -1):
        domains = _domains(session, pending, model, names, depth)
        found = [c for on in domains if (c := _clearing(session, pending, model, on, prices))]
        found.sort(key=lambda c: (c.cost, c.order))
        swaps = [s for c in islice(found, PER_LEVEL) if (s := _try(session, pending, model, c))]
        if swaps:
            return min(swaps, key=lambda s: (s.cost, s.victims))
    return None


def _domains(
    session: Session, pending: Pending, model: str, names: Sequence[str], depth: int
) -> Iterator[Sequence[str]]:
    """The level's domains; where leaves count, before each of them the smallest unions of its leaves that could do."""
    need = session.grains(pending.job, model, pending.job.least_pods) // GRAIN
    for domain in session.topology.split(names, depth).values():
        if depth < session.topology.leaf and session.policy.leaf_slowdown > 1:
            yield from _unions(_leaves(session, domain), need)
        yield domain


Leaf = tuple[int, Sequence[str]]
"""(GPUs, nodes)"""


def _leaves(session: Session, names: Sequence[str]) -> list[Leaf]:
    """The roomiest first, counted as if nobody were there."""
    found = session.topology.split(names, session.topology.leaf).values()
    return sorted(((sum(sum(session.ledger.books[n].usable) for n in on), on) for on in found), key=lambda s: -s[0])


def _fewest(leaves: Sequence[Leaf], need: int) -> int:
    """Of the roomiest, how many it takes."""
    return next((i for i, room in enumerate(accumulate(r for r, _ in leaves), start=1) if room >= need), len(leaves))


def _unions(leaves: Sequence[Leaf], need: int) -> Iterator[Sequence[str]]:
    """So many leaves as it takes, and one more for who needs only one, the largest `LEAVES` in all combinations."""
    number = max(2, _fewest(leaves, need))
    for chosen in combinations(leaves[:LEAVES], number) if number < len(leaves) else ():
        if sum(room for room, _ in chosen) >= need:
            yield [name for _, on in chosen for name in on]


def _prices(session: Session, pending: Pending, model: str, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """By node, its residents and what each would pay; a node with a resident who stays can be had only as it is."""
    wanted = set(names)
    residents: dict[str, dict[str, int]] = {name: {} for name in names}
    stays: set[str] = set()
    for job, run in session.running.items():
        places = session.held[job]
        on = {p.node for p in places} & wanted
        if on and _may_stop(session, pending, run, model):
            for name in on:
                residents[name][job] = _cost(session, run, places)
        else:
            stays |= on
    return {name: {} if name in stays else paid for name, paid in residents.items()}


def _cost(session: Session, run: Running, places: Sequence[PodPlace]) -> int:
    """Grain-microseconds that a victim loses: the work since its save, and a restart."""
    return lost_work(session, run, places) + RESTART // MICROSECOND * session.cost(places)


def _clearing(
    session: Session, pending: Pending, model: str, names: Sequence[str], prices: dict[str, dict[str, int]]
) -> Clearing | None:
    """The cheapest nodes for what they give, until the gang has enough."""
    pod, need = _largest_pod(pending), session.grains(pending.job, model, pending.job.least_pods) // GRAIN
    order = session.topology.order
    rated = sorted(_rated(session, names, prices, pod), key=lambda r: (r[0] // r[1], order[r[2]]))
    chosen: list[str] = []
    for _, gpus, name in rated:
        if need <= 0:
            break
        chosen.append(name)
        need -= gpus
    if need > 0:
        return None
    victims = {job: cost for name in chosen for job, cost in prices[name].items()}
    where = min(order[n] for n in chosen)
    if not victims:
        return None
    crossing = _crossing(session, pending, model, chosen)
    return Clearing(sum(victims.values()) + crossing, where, tuple(chosen), tuple(sorted(victims)), crossing)


def _crossing(session: Session, pending: Pending, model: str, names: Sequence[str]) -> int:
    """Grain-microseconds over the horizon that the slowdown costs the gang here; 0 on as few leaves as it needs."""
    slower = Fraction(str(session.policy.leaf_slowdown)) - 1
    if slower <= 0:
        return 0
    grains = session.grains(pending.job, model, pending.job.least_pods)
    fewest = _fewest(_leaves(session, session.eligible(pending)[model]), grains // GRAIN)
    crosses = len({session.topology.domain(n, session.topology.leaf) for n in names}) > fewest
    return int(slower * (session.policy.net_gain_horizon // MICROSECOND) * grains) if crosses else 0


def _rated(
    session: Session, names: Sequence[str], prices: dict[str, dict[str, int]], pod: int
) -> Iterator[tuple[int, int, str]]:
    """(price, GPUs it would give, node), in whole pods."""
    for name in names:
        book = session.ledger.books[name]
        gpus = sum(book.usable) if prices[name] else len(book.free)
        if gpus >= pod:
            yield sum(prices[name].values()), gpus // pod * pod, name


def _largest_pod(pending: Pending) -> int:
    return max(s.demand.gpus for s in pending.job.pod_sets if isinstance(s.demand, Whole))


# ---------------------------------------------------------------- whether


def _try(session: Session, pending: Pending, model: str, clearing: Clearing) -> Swap | None:
    """What remains of the clearing when nobody is stopped in vain; None where it is not worth it."""
    nodes, base = {model: list(clearing.names)}, session.mark()
    taken = _take(session, pending, model, clearing.victims)
    victims = _needed(session, pending, taken, nodes)
    session.rollback(base)
    if not victims:
        return None
    places = {job: session.held[job] for job in victims}
    cost = clearing.crossing + sum(_cost(session, session.running[job], held) for job, held in places.items())
    gained = session.grains(pending.job, model, pending.job.least_pods) - sum(map(session.cost, places.values()))
    worth = gained * (session.policy.net_gain_horizon // MICROSECOND)
    return Swap(cost, victims, nodes) if worth > cost else None


def _take(session: Session, pending: Pending, model: str, victims: Sequence[str]) -> dict[str, tuple[PodPlace, ...]]:
    """Stop those who may be stopped, each judged with those before it gone."""
    taken = {}
    for job in victims:
        if _may_stop(session, pending, session.running[job], model):
            taken[job] = session.held[job]
            session.take_away(job, [p.rank for p in taken[job]])
    return taken


def _needed(
    session: Session, pending: Pending, taken: dict[str, tuple[PodPlace, ...]], nodes: dict[str, list[str]]
) -> tuple[str, ...]:
    """Whom it takes for the gang to fit; empty when all together do not help. The dearest are put back first."""
    if not session.fits(pending, nodes):
        return ()
    kept = dict(taken)
    for job in sorted(taken, key=lambda j: (-_cost(session, session.running[j], taken[j]), j)):
        mark = session.mark()
        session.give_back(job, taken[job])
        if len(kept) > 1 and session.fits(pending, nodes):
            del kept[job]
        else:
            session.rollback(mark)
    return tuple(sorted(kept))


def _carry_out(session: Session, pending: Pending, swap: Swap) -> None:
    taken = {job: session.held[job] for job in swap.victims}
    for job, places in taken.items():
        session.take_away(job, [p.rank for p in places])
    started = session.start(pending, swap.nodes)
    assert started is not None, "the trial has shown that it fits"
    session.evictions += [eviction(session, pending, job, places, "reclaim") for job, places in taken.items()]
    session.freed += 1
    session.commit(pending, started, swap.victims)
