"""What would let a waiting job start, each way tried out and not guessed, the cheapest first.

The order of cheapness, by who pays for it:
1. a wait of at most `SHORT`: nobody does anything
2. other words for the same request, which cost its team a promise: the required level as a preference, preemptible,
   a declared runtime that ends before another's reservation begins, another capacity type, another GPU model
3. the move of one running job: it restarts from its last save and goes on
4. the end of one running job, the least unsaved work first: it waits again, or has ended
5. a smaller request: fewer pods, fewer GPUs for each, less memory, less of the host
6. a longer wait
7. a higher limit or guarantee: somebody decides, somebody else may get less
8. more nodes: somebody pays

What is cut so that the answer comes quickly: of the running jobs whose leaving frees enough by count only the
`departures.MOST_STARTS` with the least unsaved work are tried, and at most `growth.MOST_NODES` more nodes of
`growth.MOST_KINDS` kinds. A way that works in a trial is proven by a whole pass while `trial.MOST_WORK` lasts; in a
large fleet that is the first way only. `Unblock.cut` says so. Services are neither moved nor stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from gpufleet.model.plan import Plan
from gpufleet.model.snapshot import Pending
from gpufleet.scheduling.asks import Ask, fewer_pods, with_runtime, wordings
from gpufleet.scheduling.departures import Departures, waits
from gpufleet.scheduling.growth import more_nodes, raised
from gpufleet.scheduling.session import Session
from gpufleet.scheduling.trial import MOST_PROOFS, Option, Proof, Trial
from gpufleet.scheduling.what_if import Change

SHORT: Final = timedelta(hours=1)
"""A wait of so long is cheaper than anything anybody would have to do."""

ORDER: Final = (
    "topology",
    "preemptible",
    "runtime",
    "capacity-type",
    "gpu-type",
    "move",
    "stop",
    "pods",
    "gpus",
    "memory",
    "host-resources",
    "wait",
    "quota",
    "nodes",
)
"""Kinds of options, the cheapest first; a wait of at most SHORT goes before all."""


@dataclass(frozen=True, slots=True)
class Unblock:
    """All ways that work, the cheapest first; when the job is expected to start, None where nobody knows; what is cut."""

    options: tuple[Option, ...] = ()
    expected_start: datetime | None = None
    cut: str = ""


def unblock(session: Session, plan: Plan, pending: Pending) -> Unblock:
    """Try everything on the fleet as the plan leaves it, cheap things first, for time to prove them may run out."""
    trial, proof = Trial(session, plan, pending), Proof(session, pending.job.id)
    departures = Departures(trial)
    ends = list(islice(waits(trial), MOST_PROOFS))
    is_short = bool(ends) and _is_short(ends[0], session.now)
    expected = proof.first(ends) if is_short else None
    found = [*([expected] if expected else []), *_other_words(trial, proof), *departures.options(proof)]
    if not is_short and (expected := proof.first(ends)):
        found.append(expected)
    if quota := proof.first(raised(trial)):
        found.append(quota)
    found += more_nodes(trial, proof)
    options = sorted(found, key=lambda o: _rank(o, session.now))  # stable: in a kind as they were found
    cut = _cut(departures, proof, stops=any(o.kind == "stop" for o in options))
    return Unblock(tuple(options), expected.at if expected else None, cut)


def _cut(departures: Departures, proof: Proof, *, stops: bool) -> str:
    helpful, tried = len(departures.helpful), departures.tried
    found = []
    if tried < helpful and not stops:
        found.append(f"of {helpful} running jobs the {tried} with the least unsaved work were tried")
    if proof.unproven:
        found.append(f"{proof.unproven} answers rest on a trial of this job and those ahead of it, not on a whole pass")
    return "; ".join(found)


def _is_short(option: Option, now: datetime) -> bool:
    return option.at is not None and option.at - now <= SHORT


def _rank(option: Option, now: datetime) -> int:
    return -1 if _is_short(option, now) else ORDER.index(option.kind)


def _other_words(trial: Trial, proof: Proof) -> Iterator[Option]:
    """Of every group of wordings the first that works."""
    groups = [_runtime(trial), _fewer_pods(trial), *(_asks(trial, g) for g in wordings(trial.session, trial.pending))]
    yield from (option for group in groups if (option := proof.first(group)))


def _asks(trial: Trial, group: Iterator[Ask]) -> Iterator[Option]:
    for ask in group:
        if trial.fits(ask.pending):
            yield Option(ask.kind, ask.detail, change=_instead(ask.pending))


def _instead(asked: Pending) -> Change:
    return Change(cancel=(asked.job.id,), submit=(asked,))


def _runtime(trial: Trial) -> Iterator[Option]:
    """A runtime that ends before a reservation begins opens what is reserved."""
    job, session = trial.pending.job, trial.session
    for held in trial.held:
        if held.job == job.id or held.start is None or (job.runtime and session.now + job.runtime <= held.start):
            continue
        mark = session.mark()
        session.ledger.lift(held.holder, held.nodes)
        works = trial.fits(trial.pending)
        session.rollback(mark)
        if works and held.start > session.now:
            asked = with_runtime(trial.pending, held.start - session.now)
            words = f"a declared runtime that ends by {held.start:%Y-%m-%dT%H:%M:%SZ}, when {held.job} is due to start"
            yield Option("runtime", f"{words}, would let it start now", change=_instead(asked))
            return


def _fewer_pods(trial: Trial) -> Iterator[Option]:
    """As many of its pods as fit now."""
    asked = fewer_pods(trial.pending)
    if asked is None:
        return
    session, mark = trial.session, trial.session.mark()
    places = trial.turn(session, asked)
    session.rollback(mark)
    if places:
        words = f"with min_members of {len(places)} it would start now with {len(places)} of its {asked.job.pods} pods"
        yield Option("pods", words, change=_instead(asked))
