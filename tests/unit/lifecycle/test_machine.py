"""The life of a job, one event at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpufleet.lifecycle.blame import PEER_LOST, root_cause
from gpufleet.lifecycle.machine import (
    OVER,
    AllOver,
    AllStarted,
    AllSucceeded,
    CancelAsked,
    Disturbed,
    EndAttempt,
    Event,
    Finish,
    Intent,
    Launch,
    NothingRuns,
    Placed,
    PodsFailed,
    Requeue,
    Run,
    State,
    Stop,
    handle,
)

WAITING = Run("j", State.PENDING)
NOTICE = Disturbed("the cloud takes back n1")


def after(*events: Event, run: Run = WAITING) -> tuple[Run, list[object]]:
    """Where the job is after these events, and everything that had to be done."""
    done: list[object] = []
    for event in events:
        run, instructions = handle(run, event)
        done += instructions
    return run, done


STORIES = {
    "a job that fits is launched and runs": (
        [Placed(1), AllStarted()], State.RUNNING, [Launch(1)],
    ),
    "a job that ends well gives its places back": (
        [Placed(1), AllStarted(), AllSucceeded()],
        State.SUCCEEDED, [Launch(1), EndAttempt(1, "succeeded"), Finish(State.SUCCEEDED, "")],
    ),
    "a spot notice ends the attempt, not the job": (
        [Placed(1), AllStarted(), NOTICE, AllOver()],
        State.PENDING, [Launch(1), Stop(1, NOTICE.why), EndAttempt(1, NOTICE.why), Requeue(NOTICE.why)],
    ),
    "a second notice for the same attempt does nothing": (
        [Placed(1), AllStarted(), NOTICE, NOTICE, AllOver()],
        State.PENDING, [Launch(1), Stop(1, NOTICE.why), EndAttempt(1, NOTICE.why), Requeue(NOTICE.why)],
    ),
    "work that finished while it was being stopped is done": (
        [Placed(1), AllStarted(), NOTICE, AllSucceeded()],
        State.SUCCEEDED, [Launch(1), Stop(1, NOTICE.why), EndAttempt(1, "succeeded"), Finish(State.SUCCEEDED, "")],
    ),
    "a cancelled job that finished anyway stays cancelled": (
        [Placed(1), AllStarted(), CancelAsked("by ada"), AllSucceeded()],
        State.CANCELLED, [Launch(1), Stop(1, "by ada"), EndAttempt(1, "succeeded"), Finish(State.CANCELLED, "by ada")],
    ),
    "a waiting job is cancelled at once": (
        [CancelAsked("by ada")], State.CANCELLED, [Finish(State.CANCELLED, "by ada")],
    ),
    "a cancel during a stop wins over the requeue": (
        [Placed(1), NOTICE, CancelAsked("by ada"), AllOver()],
        State.CANCELLED, [Launch(1), Stop(1, NOTICE.why), EndAttempt(1, "by ada"), Finish(State.CANCELLED, "by ada")],
    ),
    "pods that vanished put the job back into the line": (
        [Placed(1), AllStarted(), NothingRuns("its pods vanished")],
        State.PENDING, [Launch(1), EndAttempt(1, "its pods vanished"), Requeue("its pods vanished")],
    ),
    "a refused launch waits again, elsewhere": (
        [Placed(1), NothingRuns("refused", ("n1",))],
        State.PENDING, [Launch(1), EndAttempt(1, "refused"), Requeue("refused", ("n1",))],
    ),
    "an end that nobody asked about is not an end": (
        [Placed(1), AllStarted(), AllOver()], State.RUNNING, [Launch(1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "state", "instructions"), STORIES.values(), ids=STORIES)
def test_story(events: list[Event], state: State, instructions: list[object]) -> None:
    run, done = after(*events)
    assert (run.state, done) == (state, instructions)


def test_own_failures_are_counted_and_the_last_one_ends_the_job() -> None:
    run = replace(WAITING, max_failures=2)
    run, _ = after(Placed(1), AllStarted(), PodsFailed("rank 0 ended with exit status 1"), AllOver(), run=run)
    assert (run.state, run.failures) == (State.PENDING, 1)
    run, done = after(Placed(2), AllStarted(), PodsFailed("rank 0 ended with exit status 1"), AllOver(), run=run)
    assert (run.state, run.failures) == (State.FAILED, 2)
    assert done[-1] == Finish(State.FAILED, "rank 0 ended with exit status 1")


def test_disturbances_are_never_counted() -> None:
    run = replace(WAITING, max_failures=1)
    for attempt in range(1, 6):
        run, _ = after(Placed(attempt), AllStarted(), NOTICE, AllOver(), run=run)
    assert (run.state, run.failures) == (State.PENDING, 0)


EVENTS = st.sampled_from(
    [Placed(1), AllStarted(), AllSucceeded(), PodsFailed("x"), NOTICE, NothingRuns("gone"), CancelAsked("c"), AllOver()]
)


@given(st.lists(EVENTS, max_size=12))
def test_what_has_ended_hears_nothing_any_more(events: list[Event]) -> None:
    run, _ = after(*events)
    if run.state in OVER:
        for event in (Placed(9), NOTICE, CancelAsked("late"), AllSucceeded(), AllOver(), NothingRuns("late")):
            assert handle(run, event) == (run, ())


@given(st.lists(EVENTS, max_size=12))
def test_every_attempt_that_was_launched_ends_exactly_once_or_is_live(events: list[Event]) -> None:
    run, done = after(*events)
    launched, ended = done.count(Launch(1)), sum(isinstance(d, EndAttempt) for d in done)
    assert launched - ended == (1 if run.attempt else 0)
    assert sum(isinstance(d, Finish) for d in done) == (1 if run.state in OVER else 0)


@given(st.lists(EVENTS, max_size=12))
def test_only_a_stopping_job_has_something_in_mind_for_afterwards(events: list[Event]) -> None:
    run, _ = after(*events)
    if run.state in (State.PENDING, State.STARTING, State.RUNNING):
        assert run.intent is Intent.RUN


BLAME = {
    "a crash is the job's own": (((0, 1, ""),), ("rank 0 ended with exit status 1", True)),
    "the rank that crashed is named, not the one that followed": (
        ((0, PEER_LOST, ""), (1, 3, "")), ("rank 1 ended with exit status 3", True),
    ),
    "everyone lost a peer: nobody's own failure": (
        ((0, PEER_LOST, ""), (1, PEER_LOST, "")), ("rank 0 lost its peers", False),
    ),
    "too much memory is the job's own": (((2, 137, "memory"),), ("rank 2 used more GPU memory than its place has", True)),
    "a node that went away is not": (((0, PEER_LOST, ""), (1, None, "node-lost")), ("rank 1 lost its node", False)),
    "a stop from outside is not": (((0, 143, "evicted"),), ("rank 0 was stopped from outside", False)),
}  # fmt: skip


@pytest.mark.parametrize(("exits", "want"), BLAME.values(), ids=BLAME)
def test_blame(exits: tuple[tuple[int, int | None, str], ...], want: tuple[str, bool]) -> None:
    assert root_cause(exits) == want
