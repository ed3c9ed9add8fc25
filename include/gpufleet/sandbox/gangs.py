"""What can be asked of gangs: launch, stop, remove, request a save, read logs. Each may be repeated.

A verb only writes down what shall be; `caretaker` carries it out, at once and again after a restart.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from gpufleet.errors import NotFound, Refused
from gpufleet.sandbox import events, referee
from gpufleet.sandbox.environment import can_start, free_port, start_of
from gpufleet.sandbox.records import Doom, Gang, GangAsk, Pod, Removed
from gpufleet.sandbox.site import Site
from gpufleet.training.manifest import Control, dump_control

NO_COMMAND_EXIT: Final = 127
"""What a shell says for a command that is not there."""
_TAIL_BYTES: Final = 1 << 20


def launch(site: Site, ask: GangAsk) -> None:
    """All or nothing. It is on disk before its first process starts, so a restart finishes what a kill cut short."""
    referee.check_shape(ask)
    key = (ask.job, ask.attempt)
    known = site.book.gangs.get(key)
    if known is not None and known.ask == ask:
        return
    if known is not None:
        raise Refused(f"Attempt {ask.attempt} of {ask.job} is there already and is not the same gang.")
    if key in site.book.removed:
        raise Refused(f"Attempt {ask.attempt} of {ask.job} ended and was removed: only a later attempt can start.")
    referee.check_gang(ask, site.book.machines, site.held())
    gang = _admit(site, ask)
    site.book.gangs.put(gang)
    site.book.commit()
    events.say("launch", job=ask.job, attempt=ask.attempt, pods=len(gang.pods))
    start(site, gang, gang.pods)


def _admit(site: Site, ask: GangAsk) -> Gang:
    taken = site.promised_ports()

    def port() -> int:
        taken.add(found := free_port(taken))
        return found

    pods = tuple(Pod(pod, port()) for pod in sorted(ask.pods, key=lambda pod: pod.rank))
    return Gang(ask, site.ledger_now(), port(), secrets.token_hex(16), pods)


def start(site: Site, gang: Gang, pods: Iterable[Pod]) -> None:
    """Start these pods of it. One whose command is not there dooms the whole gang before any process has started."""
    starts = [start_of(gang, pod, site.files(gang, pod.ask.rank)) for pod in pods]
    for wanted in starts:
        wanted.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted.log.touch(mode=0o600)
    missing = [wanted.command[0] for wanted in starts if not can_start(wanted)]
    if missing:
        events.say("start-failed", job=gang.ask.job, attempt=gang.ask.attempt, error=f"{missing[0]} is not there")
        change_pods(site, lambda other, _: other is gang, lambda pod: replace(pod, doom=Doom.START))
        return
    _write_control(site, gang)
    for wanted in starts:
        site.runner.start(wanted)


def stop(site: Site, job: str, attempt: int, grace: timedelta) -> None:
    """Asking again never gives more time, only less."""
    now = site.now()

    def leave(pod: Pod) -> Pod:
        kill_at = now + max(grace, timedelta(0))
        return replace(pod, leave_at=pod.leave_at or now, kill_at=min(pod.kill_at or kill_at, kill_at))

    events.say("stop", job=job, attempt=attempt, grace=grace.total_seconds())
    change_pods(site, lambda gang, _: (gang.ask.job, gang.ask.attempt) == (job, attempt), leave)


def change_pods(site: Site, chosen: Callable[[Gang, Pod], bool], change: Callable[[Pod], Pod]) -> None:
    """Change those pods that are not over and were chosen."""
    for gang in site.book.live_gangs():
        pods = tuple(change(pod) if not pod.is_over and chosen(gang, pod) else pod for pod in gang.pods)
        if pods != gang.pods:
            site.book.gangs.put(replace(gang, pods=pods))


def doom_node(site: Site, node: str) -> None:
    """The node is gone, and its pods with it."""
    change_pods(site, lambda _, pod: pod.ask.place.node == node, lambda pod: replace(pod, doom=Doom.NODE_LOST))


def remove(site: Site, job: str, attempt: int) -> None:
    """Ended pods are no longer shown; with the last one the attempt's folder goes, its logs stay."""
    gang = site.book.gangs.get((job, attempt))
    if gang is None:
        return
    gang = replace(gang, pods=tuple(replace(pod, is_forgotten=pod.is_over) for pod in gang.pods))
    if not gang.is_over:
        site.book.gangs.put(gang)
        return
    site.book.removed.put(Removed(job, attempt))
    site.book.gangs.drop((job, attempt))
    site.book.commit()
    for pod in gang.pods:
        site.runner.forget(site.files(gang, pod.ask.rank).home)
    site.forget_files(gang)
    shutil.rmtree(site.attempt_folder(gang), ignore_errors=True)
    events.say("remove", job=job, attempt=attempt)


def request_save(site: Site, job: str, attempt: int, number: int) -> None:
    """A number that is not higher than the last one is the same request."""
    gang = site.book.gangs.get((job, attempt))
    if gang is None or gang.is_over or number <= gang.save:
        return
    gang = replace(gang, save=number)
    site.book.gangs.put(gang)
    site.book.commit()
    _write_control(site, gang)
    events.say("save-requested", job=job, attempt=attempt, number=number)


def _write_control(site: Site, gang: Gang) -> None:
    content = dump_control(Control(save=gang.save))
    for pod in gang.pods:
        path = site.files(gang, pod.ask.rank).control
        draft = path.with_name(f".{path.name}.new")
        draft.write_bytes(content)
        draft.replace(path)


def logs(site: Site, job: str, attempt: int, rank: int, *, tail: int) -> str:
    path = site.log(referee.folder_of(job), attempt, rank)
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        raise NotFound(f"No pod with rank {rank} of attempt {attempt} of {job} was ever seen.") from None
    return "".join(lines[-tail:]) if tail > 0 else ""
