"""Carries out what is written down, looks at what became of it, and does so again after a restart.

Everything here follows from the records alone: a signal that is due is sent however often it takes, a process that
ended is written down once. So a sandbox killed anywhere goes on where its book stands.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from math import ceil
from typing import Final

from gpufleet.sandbox import events, gangs, market
from gpufleet.sandbox.holdings import memory_limit_mib
from gpufleet.sandbox.records import EVICTED, Doom, Gang, Pod, PodPhase
from gpufleet.sandbox.runner import Sight, Stage
from gpufleet.sandbox.site import Site

KILLED_EXIT: Final = 128 + signal.SIGKILL
MOST_MIB: Final = 2**53
"""Whatever a pod writes into its file, this is the most that is written down of it."""


@contextmanager
def turn(site: Site) -> Iterator[None]:
    """One request: it sees the world as it is now, is carried out at once, and leaves nothing when it fails."""
    with site.lock:
        advance(site)
        with _whole_or_not(site):
            yield
        advance(site)


@contextmanager
def _whole_or_not(site: Site) -> Iterator[None]:
    try:
        yield
        site.book.commit()
    except BaseException:
        site.book.rollback()
        raise


def advance(site: Site) -> None:
    """One look at everything that lives."""
    with site.lock, _whole_or_not(site):
        site.runner.reap()
        now = site.now()
        for gang in site.book.live_gangs():
            seen = _tend(site, gang, now)
            if seen.pods != gang.pods:
                site.book.gangs.put(seen)
        market.advance(site)


def resume(site: Site) -> None:
    """After a restart: adopt what runs, finish launches that were cut short, start nothing twice."""
    with site.lock:
        for gang in site.book.live_gangs():
            waiting = [pod for pod in gang.pods if not pod.is_over and _never_began(site, gang, pod)]
            events.say("resume", job=gang.ask.job, attempt=gang.ask.attempt, not_begun=len(waiting))
            # One that shall leave, or be killed, need not begin for that: it ends as it stands.
            gangs.start(site, gang, [pod for pod in waiting if pod.leave_at is None and pod.doom is None])
        advance(site)


def _never_began(site: Site, gang: Gang, pod: Pod) -> bool:
    home = site.files(gang, pod.ask.rank).home
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    return site.runner.void(home)


def _tend(site: Site, gang: Gang, now: datetime) -> Gang:
    pods = tuple(pod if pod.is_over else _tend_pod(site, gang, pod, now) for pod in gang.pods)
    if any(pod.doom is Doom.START for pod in pods):
        pods = tuple(_without_the_others(pod) for pod in pods)
    return replace(gang, pods=pods)


def _without_the_others(pod: Pod) -> Pod:
    """A gang runs whole or not at all: one that could not start takes the others with it."""
    if pod.is_over:
        return replace(pod, phase=PodPhase.FAILED, reason=Doom.START.value)
    return replace(pod, doom=pod.doom or Doom.START)


def _tend_pod(site: Site, gang: Gang, pod: Pod, now: datetime) -> Pod:
    home = site.files(gang, pod.ask.rank).home
    sight = site.runner.look(home)
    if sight.stage is Stage.STARTING:
        if _must_die(pod, now):
            site.runner.void(home)  # the next look says whether that came in time
        return pod
    if sight.stage is Stage.RUNNING:
        return _tend_running(site, gang, _started(site, gang, pod, sight), now)
    return _ended(site, gang, _started(site, gang, pod, sight), sight)


def _must_die(pod: Pod, now: datetime) -> bool:
    return pod.doom is not None or (pod.kill_at is not None and pod.kill_at <= now)


def _started(site: Site, gang: Gang, pod: Pod, sight: Sight) -> Pod:
    if pod.phase is not PodPhase.PENDING or sight.started_at is None:
        return pod
    started_at = max(gang.bound_at, site.book.facts.rate.at(sight.started_at))
    return replace(pod, phase=PodPhase.RUNNING, started_at=started_at)


def _tend_running(site: Site, gang: Gang, pod: Pod, now: datetime) -> Pod:
    home = site.files(gang, pod.ask.rank).home
    if _must_die(pod, now):
        site.runner.signal(home, signal.SIGKILL)
        return pod
    if pod.leave_at is not None and not pod.is_told:
        return replace(pod, is_told=site.runner.signal(home, signal.SIGTERM))
    pod = _with_memory(site, gang, pod)
    if _used_too_much(site, pod):
        # Written down first, killed with the next look: a restart in between must know why it ended.
        return replace(pod, doom=Doom.MEMORY)
    return pod


def _with_memory(site: Site, gang: Gang, pod: Pod) -> Pod:
    """The pod with what it says, in its device memory file, that it uses, when that is more than ever before."""
    try:
        used = ceil(float(site.files(gang, pod.ask.rank).device_memory.read_text()))
    except (OSError, ValueError, OverflowError):  # it says nothing, or is in the middle of saying it
        return pod
    return replace(pod, peak_mib=min(used, MOST_MIB)) if used > pod.peak_mib else pod


def _used_too_much(site: Site, pod: Pod) -> bool:
    """Whether it ever used more GPU memory than its place has."""
    return pod.peak_mib > memory_limit_mib(site.book.machines[pod.ask.place.node], pod.ask)


def _ended(site: Site, gang: Gang, pod: Pod, sight: Sight) -> Pod:
    pod = _with_memory(site, gang, pod)
    doom = pod.doom or _doom_seen(site, pod, sight)
    phase, reason = _outcome(pod, sight, doom)
    ended_at = site.ledger_now() if sight.ended_at is None else site.book.facts.rate.at(sight.ended_at)
    events.say("pod-ended", pod=pod.ask.name, phase=phase, reason=reason, exit_code=sight.code, error=sight.error)
    return replace(
        pod,
        doom=doom,
        phase=phase,
        reason=reason,
        exit_code=_exit_code(sight, doom),
        finished_at=max(pod.started_at or gang.bound_at, ended_at),
    )


def _doom_seen(site: Site, pod: Pod, sight: Sight) -> Doom | None:
    if sight.stage is Stage.VANISHED:
        return Doom.NODE_LOST
    if sight.stage is Stage.NO_START or (sight.stage is Stage.VOID and pod.leave_at is None):
        return Doom.START
    # A process that asked for too much and was gone before anyone looked has failed just the same.
    return Doom.MEMORY if _used_too_much(site, pod) else None


def _outcome(pod: Pod, sight: Sight, doom: Doom | None) -> tuple[PodPhase, str]:
    """A pod that was asked to leave has failed even when it leaves with 0: its work is not done, only saved."""
    if doom is not None:
        return (PodPhase.LOST if doom is Doom.NODE_LOST else PodPhase.FAILED), doom.value
    if pod.leave_at is not None and (sight.ended_at is None or sight.ended_at >= pod.leave_at):
        return PodPhase.FAILED, EVICTED
    return (PodPhase.SUCCEEDED if sight.code == 0 else PodPhase.FAILED), ""


def _exit_code(sight: Sight, doom: Doom | None) -> int | None:
    if doom is Doom.MEMORY:
        return KILLED_EXIT
    if doom is Doom.START and sight.code is None:
        return gangs.NO_COMMAND_EXIT
    return sight.code
