"""The shim and the runner over real processes, without a sandbox."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.sandboxes import eventually

from gpufleet.sandbox import shim
from gpufleet.sandbox.runner import ShimRunner, Sight, Stage, Start


@pytest.fixture
def start(tmp_path: Path) -> Start:
    (tmp_path / "work").mkdir()
    return Start(tmp_path, tmp_path / "work", tmp_path / "log", (), {"PATH": os.environ["PATH"]})


@pytest.fixture
def runner(start: Start) -> Iterator[ShimRunner]:
    runner = ShimRunner()
    yield runner
    runner.signal(start.home, signal.SIGKILL)


def run(runner: ShimRunner, start: Start, *command: str) -> None:
    runner.start(Start(start.home, start.work, start.log, command, start.environment))


def ended(runner: ShimRunner, start: Start) -> Sight:
    def look() -> Sight | None:
        sight = runner.look(start.home)
        return sight if sight.stage not in (Stage.STARTING, Stage.RUNNING) else None

    return eventually(look)


def is_running(runner: ShimRunner, start: Start) -> bool:
    return runner.look(start.home).stage is Stage.RUNNING


ENDS = {
    "success": ("exit 0", 0),
    "failure": ("exit 7", 7),
    "a polite signal": ("kill -TERM $$", 143),
    "the other signal": ("kill -KILL $$", 137),
}


@pytest.mark.parametrize(("script", "code"), ENDS.values(), ids=ENDS)
def test_exit_codes_are_a_shells(runner: ShimRunner, start: Start, script: str, code: int) -> None:
    run(runner, start, "sh", "-c", script)
    sight = ended(runner, start)
    assert (sight.stage, sight.code) == (Stage.ENDED, code)
    assert sight.started_at and sight.ended_at and sight.started_at <= sight.ended_at


def test_what_cannot_be_executed_did_not_start(runner: ShimRunner, start: Start) -> None:
    run(runner, start, str(start.work))
    sight = ended(runner, start)
    assert sight.stage is Stage.NO_START
    assert "Permission denied" in sight.error


def test_a_folder_that_is_not_there_did_not_start(runner: ShimRunner, start: Start) -> None:
    start.work.rmdir()
    run(runner, start, "true")
    assert ended(runner, start).stage is Stage.NO_START


def test_output_goes_to_the_log(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "sh", "-c", "echo out; echo err >&2; pwd")
    ended(runner, start)
    assert start.log.read_text() == f"out\nerr\n{start.work}\n"


def test_a_group_is_signalled_whole(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "sh", "-c", "sleep 600 & sleep 600 & echo $! > child; wait")
    child = eventually(lambda: _number_in(start.work / "child"))
    assert runner.signal(start.home, signal.SIGTERM)
    assert ended(runner, start).code == 143
    assert not psutil.pid_exists(child)


def test_what_left_the_group_ends_with_the_pod(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "sh", "-c", "setsid sh -c 'echo $$ > child; trap \"\" TERM; sleep 600' & sleep 0.3")
    child = eventually(lambda: _number_in(start.work / "child"))
    assert ended(runner, start).code == 0
    assert not psutil.pid_exists(child)


def test_the_pod_meets_default_signals(runner: ShimRunner, start: Start) -> None:
    run(runner, start, sys.executable, "-S", "-c", "print(open('/proc/self/status').read())")
    ended(runner, start)
    status = dict(line.split(":\t", 1) for line in start.log.read_text().splitlines() if ":\t" in line)
    ignored = {number for number in range(1, 32) if int(status["SigIgn"], 16) >> (number - 1) & 1}
    # Python itself ignores these two.
    assert ignored <= {signal.SIGPIPE, signal.SIGXFSZ}
    assert int(status["SigBlk"], 16) == 0


def test_a_second_start_starts_nothing(runner: ShimRunner, start: Start) -> None:
    for _ in range(2):
        run(runner, start, "sh", "-c", "echo once; sleep 600")
        eventually(lambda: is_running(runner, start))
    assert eventually(lambda: start.log.read_text()) == "once\n"


def test_another_runner_finds_the_process_again(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "sleep", "600")
    eventually(lambda: is_running(runner, start))
    later = ShimRunner()
    assert not later.void(start.home)
    assert later.look(start.home) == runner.look(start.home)
    assert later.signal(start.home, signal.SIGTERM)
    assert ended(later, start).code == 143


def test_a_void_start_never_begins(runner: ShimRunner, start: Start) -> None:
    assert runner.void(start.home)
    assert runner.look(start.home).stage is Stage.VOID
    # The shim of a sandbox that was killed comes late: the start it was made for is void.
    shim.main(str(start.home), "1", "1000", "sh", "-c", "touch began")
    assert not (start.work / "began").exists()
    run(runner, start, "sh", "-c", "touch began")
    assert ended(runner, start).code == 0


def test_a_process_whose_shim_was_killed_is_ended(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "sleep", "600")
    eventually(lambda: is_running(runner, start))
    parent, pid = (int((start.home / name).read_text().split()[0]) for name in ("claim-1", "started"))
    os.kill(parent, signal.SIGKILL)
    assert ended(runner, start).stage is Stage.VANISHED
    assert shim.born(pid) is None


def test_a_stranger_with_its_number_is_left_alone(runner: ShimRunner, start: Start) -> None:
    mine = os.getpid()
    (start.home / "claim-1").write_text(f"{mine} otherboot:1")
    (start.home / "started").write_text(f"{mine} otherboot:1 1000")
    assert runner.look(start.home).stage is Stage.VANISHED
    assert not runner.signal(start.home, signal.SIGTERM)


def test_a_log_keeps_its_newest_half(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("a+b", buffering=0) as log:
        for number in range(1000):
            log.write(b"line %03d\n" % number)
        shim.trim_log(log.fileno(), 10_000)
        assert path.stat().st_size == 9000
        shim.trim_log(log.fileno(), 8999)
        log.write(b"next\n")
    lines = path.read_text().splitlines()
    assert lines[0].startswith("[older lines were dropped")
    assert lines[-2:] == ["line 999", "next"]
    assert path.stat().st_size < 4700


def test_a_log_is_kept_small_while_the_pod_writes(start: Start) -> None:
    runner = ShimRunner(log_cap=10_000)
    run(runner, start, "sh", "-c", "seq 100000 120000; sleep 600")
    eventually(lambda: start.log.exists() and start.log.stat().st_size > 10_000)
    eventually(lambda: start.log.stat().st_size < 10_000)
    assert start.log.read_text().endswith("\n119999\n120000\n")
    runner.signal(start.home, signal.SIGKILL)
    ended(runner, start)


def test_no_zombie_stays(runner: ShimRunner, start: Start) -> None:
    run(runner, start, "true")
    ended(runner, start)
    shim_pid = int((start.home / "claim-1").read_text().split()[0])

    def is_gone() -> bool:
        runner.reap()
        return not psutil.pid_exists(shim_pid)

    eventually(is_gone)


def _number_in(path: Path) -> int | None:
    return int(path.read_text() or 0) if path.exists() else None
