"""kill -9 of the sandbox at the worst moments, over real processes: nothing is lost, started twice or left behind."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from tests.sandboxes import RunningSandbox, eventually, running_sandbox
from tests.unit.sandbox.worlds import ask, whole

from gpufleet.clock import SystemClock
from gpufleet.clusters.base import GangSpec, Phase, PodSeen, PodSpec
from gpufleet.errors import Temporary
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.workload import Container
from gpufleet.sandbox import caretaker, gangs
from gpufleet.sandbox.book import Book
from gpufleet.sandbox.records import Gang
from gpufleet.sandbox.runner import ShimRunner, Start
from gpufleet.sandbox.site import Site

SECOND = timedelta(seconds=1)
# Says that it began, leaves 0.3 s after SIGTERM, and says so.
SAYS_AND_STAYS = (
    "echo $GPUFLEET_NODE $RANK >> $OUT; trap 'sleep 0.3; echo left; exit 0' TERM; while :; do sleep 0.05; done"
)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSandbox]:
    with running_sandbox(tmp_path_factory.mktemp("home")) as sandbox:
        yield sandbox


def gang(job: str, out: Path, script: str = SAYS_AND_STAYS, *, pods: int = 1, gpu: int = 0) -> GangSpec:
    container = Container(("sh", "-c", script), env=(("OUT", str(out)),))
    specs = tuple(
        PodSpec(f"{job}-{rank}", rank, PodPlace(0, rank, "res-0", gpus=(gpu + rank,)), container)
        for rank in range(pods)
    )
    return GangSpec(job, 1, "team-a", "ns-a", specs, SECOND)


def pods_of(sandbox: RunningSandbox, job: str) -> list[PodSeen]:
    return [pod for pod in sandbox.cluster().observe().pods if pod.job == job]


def all_are(sandbox: RunningSandbox, job: str, phase: Phase) -> list[PodSeen] | None:
    pods = pods_of(sandbox, job)
    return pods if pods and all(pod.phase is phase for pod in pods) else None


def leave(sandbox: RunningSandbox, job: str) -> None:
    sandbox.cluster().stop(job, 1, grace=timedelta(0))
    eventually(lambda: all(pod.phase.is_over for pod in pods_of(sandbox, job)))


def test_in_mid_run_the_pods_go_on_and_are_found_again(sandbox: RunningSandbox, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cluster = sandbox.cluster()
    cluster.launch(gang("run", out, pods=2))
    cluster.launch(gang("brief", tmp_path / "brief", "sleep 0.8; exit 3", gpu=2))
    before = eventually(lambda: all_are(sandbox, "run", Phase.RUNNING))
    eventually(lambda: out.exists() and len(out.read_text().splitlines()) == 2)
    door = sandbox.door
    sandbox.kill()
    with pytest.raises(Temporary):
        cluster.observe()
    sandbox.start()
    assert (sandbox.door.url, sandbox.door.token) == (door.url, door.token)
    assert pods_of(sandbox, "run") == before
    ended = eventually(lambda: all_are(sandbox, "brief", Phase.FAILED))
    assert ended[0].exit_code == 3
    assert sorted(out.read_text().splitlines()) == ["res-0 0", "res-0 1"]
    leave(sandbox, "run")


def test_in_mid_stop_the_stop_goes_on(sandbox: RunningSandbox, tmp_path: Path) -> None:
    deaf = "trap '' TERM; echo > $OUT; while :; do sleep 0.05; done"
    sandbox.cluster().launch(gang("polite", tmp_path / "polite"))
    sandbox.cluster().launch(gang("deaf", tmp_path / "deaf", deaf, gpu=2))
    eventually(lambda: (tmp_path / "polite").exists() and (tmp_path / "deaf").exists())
    sandbox.cluster().stop("polite", 1, grace=20 * SECOND)
    sandbox.cluster().stop("deaf", 1, grace=SECOND)
    sandbox.kill()
    sandbox.start()
    (polite,) = eventually(lambda: all_are(sandbox, "polite", Phase.FAILED))
    (deaf_one,) = eventually(lambda: all_are(sandbox, "deaf", Phase.FAILED))
    assert (polite.exit_code, polite.reason) == (0, "evicted")
    assert (deaf_one.exit_code, deaf_one.reason) == (137, "evicted")
    assert "left" in sandbox.cluster().logs("polite", 1, 0)


@pytest.mark.parametrize("delay", [0.004, 0.02])
def test_in_mid_launch_the_launch_is_whole_or_was_never_heard(
    sandbox: RunningSandbox, tmp_path: Path, delay: float
) -> None:
    wanted = gang(f"launch-{delay}", tmp_path / "out", pods=7)
    asking = threading.Thread(target=_launch_somehow, args=(sandbox, wanted))
    asking.start()
    asking.join(delay)
    sandbox.kill()
    asking.join()
    sandbox.start()
    sandbox.cluster().launch(wanted)
    eventually(lambda: all_are(sandbox, wanted.job, Phase.RUNNING))
    eventually(lambda: len((tmp_path / "out").read_text().splitlines()) == 7)
    leave(sandbox, wanted.job)
    assert Counter((tmp_path / "out").read_text().splitlines()) == {f"res-0 {rank}": 1 for rank in range(7)}


def _launch_somehow(sandbox: RunningSandbox, wanted: GangSpec) -> None:
    with suppress(Temporary):
        sandbox.cluster().launch(wanted)


class _KilledAfter(ShimRunner):
    """Starts so many pods, then the sandbox is no more."""

    def __init__(self, starts: int) -> None:
        super().__init__()
        self.left = starts

    def start(self, start: Start) -> None:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        super().start(start)


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_between_any_two_starts(tmp_path: Path, starts: int) -> None:
    site, out = _site(tmp_path, _KilledAfter(starts)), tmp_path / "out"
    wanted = ask("a", whole("res-0", 0), whole("res-0", 1), whole("res-0", 2))
    container = Container(("sh", "-c", SAYS_AND_STAYS), env=(("OUT", str(out)),))
    wanted = replace(wanted, pods=tuple(replace(pod, container=container) for pod in wanted.pods))
    with pytest.raises(KeyboardInterrupt):
        gangs.launch(site, wanted)
    site.book.close()
    later = _site(tmp_path, ShimRunner())
    caretaker.resume(later)
    try:
        eventually(lambda: len(_lines(out)) == 3)
        assert sorted(_lines(out)) == ["res-0 0", "res-0 1", "res-0 2"]
    finally:
        gangs.stop(later, "a", 1, timedelta(0))
        eventually(lambda: _advanced(later).is_over)
    assert len(_lines(out)) == 3


def _site(folder: Path, runner: ShimRunner) -> Site:
    from tests.unit.sandbox.worlds import wish

    from gpufleet.sandbox.founding import found

    site = Site(folder, Book(folder / "state.db"), SystemClock(), runner)
    found(site.book, wish(), site.now())
    return site


def _advanced(site: Site) -> Gang:
    caretaker.advance(site)
    return site.book.gangs["a", 1]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_no_process_is_left_after_a_stop(tmp_path: Path) -> None:
    deaf = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 600' & echo > $OUT; while :; do sleep 0.05; done"
    with running_sandbox(tmp_path / "home") as sandbox:
        sandbox.cluster().launch(gang("polite", tmp_path / "polite", pods=2))
        sandbox.cluster().launch(gang("deaf", tmp_path / "deaf", deaf, gpu=2))
        eventually(lambda: (tmp_path / "polite").exists() and (tmp_path / "deaf").exists())
        sandbox.kill()
        sandbox.start()
        assert _processes_of(tmp_path)
        assert sandbox.stop() == 0
        assert _processes_of(tmp_path) == []
        assert not (sandbox.home / "sandbox.json").exists()


def test_without_the_option_pods_stay_for_the_next_start(tmp_path: Path) -> None:
    with running_sandbox(tmp_path / "home", options=()) as sandbox:
        sandbox.cluster().launch(gang("stays", tmp_path / "out"))
        before = eventually(lambda: all_are(sandbox, "stays", Phase.RUNNING))
        assert sandbox.stop() == 0
        sandbox.options = ("--stop-pods",)
        sandbox.start()
        assert pods_of(sandbox, "stays") == before
    assert _processes_of(tmp_path) == []


def _processes_of(folder: Path) -> list[str]:
    """Every process that names the folder in its command or its environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != psutil.Process().pid and str(folder) in f"{process.cmdline()} {process.environ()}":
                found.append(f"{process.pid} {process.cmdline()}")
    return found
