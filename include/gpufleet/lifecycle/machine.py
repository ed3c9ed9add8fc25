"""The life of one job as a state machine: an event in, the next state and instructions out. No I/O, no clock.

A spot notice, a lost node, an eviction or a cancel ends an *attempt*; only success, the job's own failures, or a
cancel end the *job*. What has ended hears nothing any more, so late and repeated events are harmless.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, assert_never


class State(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OVER: Final = (State.SUCCEEDED, State.FAILED, State.CANCELLED)


class Intent(StrEnum):
    """What follows when a stopping attempt has ended."""

    RUN = "run"
    REQUEUE = "requeue"
    CANCEL = "cancel"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Run:
    """Where a job stands. `attempt` is 0 while none is live; `max_failures` own failures end the job."""

    job: str
    state: State
    intent: Intent = Intent.RUN
    attempt: int = 0
    failures: int = 0
    max_failures: int = 3
    reason: str = ""


# ------------------------------------------------------------------ events


@dataclass(frozen=True, slots=True)
class Placed:
    """A pass gave it places; `attempt` is the new attempt's number."""

    attempt: int


@dataclass(frozen=True, slots=True)
class AllStarted:
    """Every pod of the attempt runs."""


@dataclass(frozen=True, slots=True)
class AllSucceeded:
    """Every pod ended with status 0."""


@dataclass(frozen=True, slots=True)
class PodsFailed:
    """A pod ended badly and it is the job's own doing."""

    why: str


@dataclass(frozen=True, slots=True)
class Disturbed:
    """Not the job's doing: a notice, a lost node, an eviction, a start that took too long."""

    why: str
    not_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NothingRuns:
    """The attempt has no pods: its launch was refused, or they vanished. `own`: it is the job's doing, and counted."""

    why: str
    not_on: tuple[str, ...] = ()
    own: bool = False


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Someone wants it stopped for good."""

    why: str


@dataclass(frozen=True, slots=True)
class AllOver:
    """Every pod of a stopping attempt has ended."""


Event = Placed | AllStarted | AllSucceeded | PodsFailed | Disturbed | NothingRuns | CancelAsked | AllOver


# ------------------------------------------------------------------ instructions


@dataclass(frozen=True, slots=True)
class Launch:
    attempt: int


@dataclass(frozen=True, slots=True)
class Stop:
    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Its places are free, its pods may be forgotten."""

    attempt: int
    why: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """Back into the line; not on these nodes for a while."""

    why: str
    not_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finish:
    state: State
    why: str


Instruction = Launch | Stop | EndAttempt | Requeue | Finish
Step = tuple[Run, tuple[Instruction, ...]]


def handle(run: Run, event: Event) -> Step:  # noqa: C901, PLR0911  one line for each event: a table would hide `assert_never`
    """The next state of *run*, and what the caller must now do, in order."""
    if run.state in OVER:
        return run, ()
    match event:
        case Placed(attempt):
            return _placed(run, attempt)
        case AllStarted():
            return (replace(run, state=State.RUNNING) if run.state is State.STARTING else run), ()
        case AllSucceeded():
            return _succeeded(run)
        case PodsFailed(why):
            return _failed(run, why)
        case Disturbed(why, not_on):
            return _stop(run, Intent.REQUEUE, why, not_on)
        case NothingRuns():
            return _nothing_runs(run, event)
        case CancelAsked(why):
            return _cancelled(run, why)
        case AllOver():
            return _after(run, run.reason) if run.state is State.STOPPING else (run, ())
        case _:
            assert_never(event)


def _placed(run: Run, attempt: int) -> Step:
    if run.state is not State.PENDING:
        return run, ()
    return replace(run, state=State.STARTING, intent=Intent.RUN, attempt=attempt, reason=""), (Launch(attempt),)


def _succeeded(run: Run) -> Step:
    """It finished, perhaps while it was being stopped: the work is done all the same, unless it was cancelled."""
    if not run.attempt:
        return run, ()
    end = EndAttempt(run.attempt, "succeeded")
    state = State.CANCELLED if run.intent is Intent.CANCEL else State.SUCCEEDED
    why = run.reason if state is State.CANCELLED else ""
    return replace(run, state=state, attempt=0, reason=why), (end, Finish(state, why))


def _failed(run: Run, why: str) -> Step:
    if run.state not in (State.STARTING, State.RUNNING):
        return run, ()
    failures = run.failures + 1
    counted = replace(run, failures=failures)
    if failures >= run.max_failures:
        return _stop(counted, Intent.FAIL, why)
    return _stop(counted, Intent.REQUEUE, f"{why} (failure {failures} of {run.max_failures})")


def _stop(run: Run, intent: Intent, why: str, not_on: tuple[str, ...] = ()) -> Step:
    if run.state not in (State.STARTING, State.RUNNING):
        return run, ()
    stopping = replace(run, state=State.STOPPING, intent=intent, reason=why)
    return stopping, (Stop(run.attempt, why), *((Requeue(why, not_on),) if not_on else ()))


def _cancelled(run: Run, why: str) -> Step:
    if run.state is State.PENDING:
        return replace(run, state=State.CANCELLED, reason=why), (Finish(State.CANCELLED, why),)
    if run.state is State.STOPPING:
        return replace(run, intent=Intent.CANCEL, reason=why), ()
    return _stop(run, Intent.CANCEL, why)


def _nothing_runs(run: Run, event: NothingRuns) -> Step:
    """As if it had been stopped and were over, unless something else was meant with it."""
    if not run.attempt:
        return run, ()
    if run.intent in (Intent.CANCEL, Intent.FAIL):
        return _after(run, run.reason, event.not_on)
    counted = replace(run, failures=run.failures + event.own)
    intent = Intent.FAIL if event.own and counted.failures >= run.max_failures else Intent.REQUEUE
    return _after(replace(counted, intent=intent), event.why, event.not_on)


def _after(run: Run, why: str, not_on: tuple[str, ...] = ()) -> Step:
    """The attempt has ended; go on as was meant."""
    if not run.attempt:
        return run, ()
    end = EndAttempt(run.attempt, why)
    gone = replace(run, attempt=0, reason=why)
    match run.intent:
        case Intent.CANCEL:
            return replace(gone, state=State.CANCELLED), (end, Finish(State.CANCELLED, why))
        case Intent.FAIL:
            return replace(gone, state=State.FAILED), (end, Finish(State.FAILED, why))
        case _:
            return replace(gone, state=State.PENDING, intent=Intent.RUN), (end, Requeue(why, not_on))
