"""Gangs in the in-process world: whole or not at all, adopted, stopped, forgotten."""

from __future__ import annotations

import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.unit.sandbox.worlds import T0, PretendedSite, ask, pretended, reasons, share_on, slice_on, whole

from gpufleet.errors import NotFound, Refused
from gpufleet.model.workload import Container
from gpufleet.sandbox import caretaker, gangs, views
from gpufleet.sandbox.records import PodPhase
from gpufleet.sandbox.runner import Sight, Stage
from gpufleet.training.manifest import parse_control

A, B = "res-0", "spot-a0"
SECOND = timedelta(seconds=1)


@pytest.fixture
def world(tmp_path: Path) -> PretendedSite:
    return pretended(tmp_path)


def launch(world: PretendedSite, *all_asked: object) -> None:
    for asked in all_asked:
        with caretaker.turn(world.site):
            gangs.launch(world.site, asked)  # type: ignore[arg-type]


def test_the_same_gang_is_adopted(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0), whole(A, 1)), ask("a", whole(A, 0), whole(A, 1)))
    assert list(world.runner.starts.values()) == [1, 1]


def test_an_ended_gang_is_adopted_too_and_not_started_again(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0)))
    world.end("a", 0)
    launch(world, ask("a", whole(A, 0)))
    assert list(world.runner.starts.values()) == [1]
    assert reasons(world.site) == {"a-1-0": "succeeded/"}


def test_an_attempt_that_was_removed_never_starts_again(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0)))
    world.end("a", 1)
    gangs.remove(world.site, "a", 1)
    with pytest.raises(Refused, match="ended and was removed: only a later attempt can start"):
        launch(world, ask("a", whole(A, 0)))
    launch(world, ask("a", whole(A, 0), attempt=2))


def test_a_missing_command_starts_nothing_and_fails_the_gang(world: PretendedSite) -> None:
    gang = ask("a", whole(A, 0), whole(A, 1))
    wrong = replace(gang.pods[1], container=Container(("no-such-command-anywhere",)))
    launch(world, replace(gang, pods=(gang.pods[0], wrong)))
    assert not world.runner.starts
    assert reasons(world.site) == {"a-1-0": "failed/start", "a-1-1": "failed/start"}
    assert world.pod("a").exit_code == 127


def test_one_process_that_cannot_start_takes_the_gang_with_it(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0), whole(A, 1), whole(A, 2)))
    world.end("a", 0, rank=2)
    world.runner.sights[world.site.files(world.gang("a"), 1).home] = Sight(Stage.NO_START, error="Exec format error")
    for _ in range(3):
        world.pass_time(1)
    assert set(reasons(world.site).values()) == {"failed/start"}
    assert not world.runner.running


def test_devices_are_held_until_the_process_has_ended(world: PretendedSite) -> None:
    world.runner.is_deaf = True
    launch(world, ask("a", whole(A, 0)))
    with caretaker.turn(world.site):
        gangs.stop(world.site, "a", 1, 5 * SECOND)
    with pytest.raises(Refused, match="held whole by a"):
        launch(world, ask("b", whole(A, 0)))
    world.pass_time(6)
    world.pass_time(0)
    launch(world, ask("b", whole(A, 0)))


class TestStop:
    def test_first_politely_then_not(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        launch(world, ask("a", whole(A, 0)))
        self.stop(world, 5)
        world.pass_time(4.9)
        assert [number for _, number in world.runner.heard] == [signal.SIGTERM]
        world.pass_time(0.2)
        world.pass_time(0)
        assert [number for _, number in world.runner.heard] == [signal.SIGTERM, signal.SIGKILL]
        assert (world.pod("a").exit_code, world.pod("a").reason) == (137, "evicted")

    def test_asking_again_never_gives_more_time(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        launch(world, ask("a", whole(A, 0)))
        for grace in (5, 60):
            self.stop(world, grace)
        assert world.pod("a").kill_at == T0 + 5 * SECOND

    def test_asking_again_may_give_less(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        launch(world, ask("a", whole(A, 0)))
        for grace in (60, 0):
            self.stop(world, grace)
        world.pass_time(0)
        assert world.pod("a").is_over

    def test_a_pod_that_leaves_with_0_has_not_succeeded(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        launch(world, ask("a", whole(A, 0)))
        self.stop(world, 5)
        world.end("a", 0)
        assert (reasons(world.site), world.pod("a").exit_code) == ({"a-1-0": "failed/evicted"}, 0)

    def test_a_pod_that_had_ended_before_keeps_its_outcome(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        world.runner.end(world.site.files(world.gang("a"), 0).home, 0)
        world.clock.advance(SECOND)
        self.stop(world, 5)
        assert reasons(world.site) == {"a-1-0": "succeeded/"}

    def test_one_that_has_not_begun_never_does(self, world: PretendedSite) -> None:
        gangs.launch(world.site, ask("a", whole(A, 0)))
        world.runner.sights[world.site.files(world.gang("a"), 0).home] = Sight(Stage.STARTING)
        self.stop(world, 0)
        world.pass_time(0)
        assert reasons(world.site) == {"a-1-0": "failed/evicted"}
        assert world.pod("a").started_at is None

    def test_an_unknown_attempt_is_done(self, world: PretendedSite) -> None:
        self.stop(world, 5, job="nobody")

    def stop(self, world: PretendedSite, grace: float, job: str = "a") -> None:
        with caretaker.turn(world.site):
            gangs.stop(world.site, job, 1, timedelta(seconds=grace))


class TestRemove:
    def test_ended_pods_are_forgotten_while_others_run(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0), whole(A, 1)))
        world.end("a", 0, rank=1)
        with caretaker.turn(world.site):
            gangs.remove(world.site, "a", 1)
        assert [pod.is_forgotten for pod in world.gang("a").pods] == [False, True]

    def test_logs_stay(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        world.site.log("a", 1, 0).write_text("one\ntwo\nthree\n")
        world.end("a", 0)
        with caretaker.turn(world.site):
            gangs.remove(world.site, "a", 1)
        assert gangs.logs(world.site, "a", 1, 0, tail=2) == "two\nthree\n"
        assert not (world.site.folder / "pods" / "a" / "1").exists()

    def test_logs_of_a_stranger_are_not_found(self, world: PretendedSite) -> None:
        with pytest.raises(NotFound, match="No pod with rank 3 of attempt 1 of nobody"):
            gangs.logs(world.site, "nobody", 1, 3, tail=5)

    def test_logs_stay_inside_the_folder(self, world: PretendedSite) -> None:
        with pytest.raises(Refused, match="cannot name a folder"):
            gangs.logs(world.site, "../../etc", 1, 0, tail=5)


class TestSave:
    def test_only_a_higher_number_is_a_new_request(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        seen = []
        for number in (1, 3, 2, 3):
            with caretaker.turn(world.site):
                gangs.request_save(world.site, "a", 1, number)
            seen.append(self.asked(world))
        assert seen == [1, 3, 3, 3]

    def test_before_any_request_it_says_none(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        assert self.asked(world) == 0

    def test_a_gone_attempt_is_done(self, world: PretendedSite) -> None:
        gangs.request_save(world.site, "nobody", 1, 1)

    def asked(self, world: PretendedSite) -> int:
        path = world.site.files(world.gang("a"), 0).control
        return parse_control(path.read_bytes(), str(path)).save


MEMORY = {
    "a slice": (slice_on(A, 7, "1g.10gb", 6), 9984),
    "a share": (share_on(A, 0, 250, 3000), 3000),
    "a whole card": (whole(A, 0), 81920),
    "two whole cards": (whole(A, 0, 1), 163840),
}


@pytest.mark.parametrize(("place", "limit"), MEMORY.values(), ids=MEMORY)
def test_using_more_memory_than_the_place_has_is_the_end(world: PretendedSite, place: object, limit: int) -> None:
    launch(world, ask("a", place))  # type: ignore[arg-type]
    says = world.site.files(world.gang("a"), 0).device_memory
    for text in (str(limit), "12 apples", ""):
        says.write_text(text)
        world.pass_time(1)
    assert not world.pod("a").is_over
    says.write_text(str(limit + 1))
    for _ in range(3):
        world.pass_time(1)
    assert (reasons(world.site), world.pod("a").exit_code) == ({"a-1-0": "failed/memory"}, 137)


def test_a_pod_that_used_too_much_and_was_gone_has_failed_all_the_same(world: PretendedSite) -> None:
    launch(world, ask("a", share_on(A, 0, 250, 3000)))
    world.site.files(world.gang("a"), 0).device_memory.write_text("3001")
    world.end("a", 0)
    assert (reasons(world.site), world.pod("a").exit_code) == ({"a-1-0": "failed/memory"}, 137)


def test_the_most_it_ever_used_is_told_and_outlives_it(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0)), ask("b", whole(A, 1)), ask("c", whole(A, 2, 3)))
    world.site.files(world.gang("c"), 0).device_memory.write_text("90001")
    says = world.site.files(world.gang("a"), 0).device_memory
    for text in ("6000.4", "9000.1", "100", "apples", "inf"):
        says.write_text(text)
        world.pass_time(1)
    says.write_text("9500")
    world.end("a", 0)
    pods = views.observation(world.site)["pods"]
    assert {pod["name"]: pod["peak_memory_mib"] for pod in pods} == {"a-1-0": 9500, "b-1-0": None, "c-1-0": 45_001}


def test_times_are_the_ledgers(world: PretendedSite) -> None:
    midnight = T0.replace(hour=0)
    launch(world, ask("a", whole(A, 0)))
    world.pass_time(10)
    world.end("a", 0)
    pod = world.pod("a")
    assert (world.gang("a").bound_at, pod.started_at, pod.finished_at) == (midnight, midnight, midnight + 7200 * SECOND)


def test_a_vanished_process_is_a_lost_one(world: PretendedSite) -> None:
    launch(world, ask("a", whole(A, 0)))
    world.runner.sights[world.site.files(world.gang("a"), 0).home] = Sight(Stage.VANISHED)
    world.pass_time(1)
    assert reasons(world.site) == {"a-1-0": "lost/node-lost"}
    assert world.pod("a").phase is PodPhase.LOST


class TestRestart:
    def test_a_running_gang_is_adopted(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        later = world.restarted()
        assert list(later.runner.starts.values()) == [1]
        assert later.gang("a") == world.gang("a")

    def test_a_launch_that_was_cut_short_is_finished(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0), whole(A, 1)))
        home = world.site.files(world.gang("a"), 1).home
        del world.runner.sights[home], world.runner.starts[home]
        later = world.restarted()
        assert list(later.runner.starts.values()) == [1, 1]
        assert home in later.runner.voided, "a late start of the old process must come to nothing"

    def test_what_should_leave_is_not_started_for_it(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        world.runner.sights.clear()
        gangs.stop(world.site, "a", 1, SECOND)
        world.site.book.commit()
        later = world.restarted()
        assert list(later.runner.starts.values()) == [1]
        assert reasons(later.site) == {"a-1-0": "failed/evicted"}

    def test_a_stop_goes_on(self, world: PretendedSite) -> None:
        world.runner.is_deaf = True
        launch(world, ask("a", whole(A, 0)))
        gangs.stop(world.site, "a", 1, 5 * SECOND)
        world.site.book.commit()
        later = world.restarted()
        later.pass_time(6)
        later.pass_time(0)
        assert [number for _, number in later.runner.heard] == [signal.SIGTERM, signal.SIGKILL]

    def test_what_ended_meanwhile_is_known(self, world: PretendedSite) -> None:
        launch(world, ask("a", whole(A, 0)))
        world.runner.end(world.site.files(world.gang("a"), 0).home, 3)
        later = world.restarted()
        assert (reasons(later.site), later.pod("a").exit_code) == ({"a-1-0": "failed/"}, 3)
