"""Real processes: interrupted or killed at any point, training ends with the same bits; nobody hangs on a dead peer."""

from __future__ import annotations

import resource
import signal
import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpufleet.training.examples.model import parse_weights

if TYPE_CHECKING:
    from conftest import Processes

Until = Callable[[Callable[[], bool]], None]

# Runs the example, and stands still where a file is about to take its place: the temporary file is whole, the
# file is not there. What kills the process there kills it in the midst of a save.
HALTING = textwrap.dedent("""
    import os, pathlib, signal, sys
    from gpufleet.training.examples.digits import main

    replace = pathlib.Path.replace

    def halt(self, target):
        if str(target).endswith(os.environ["HALT_AT"]):
            pathlib.Path(os.environ["HALTED"]).touch()
            while True:
                signal.pause()
        return replace(self, target)

    pathlib.Path.replace = halt
    sys.exit(main(sys.argv[1:]))
""")


def outcome(ranks: list[subprocess.Popen[str]]) -> tuple[list[int], str, str]:
    """Exit statuses, what rank 0 printed, and all that was complained of."""
    said = [process.communicate(timeout=30) for process in ranks]
    return [process.returncode for process in ranks], said[0][0], "".join(errors for _, errors in said)


def weights_line(out: str) -> str:
    return next(line for line in out.splitlines() if line.startswith("weights sha256="))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The weights of a run that nobody disturbed, two ranks without any gpufleet environment."""
    out = tmp_path_factory.mktemp("undisturbed") / "weights.bin"
    return lambda processes: _undisturbed(processes, out)


def _undisturbed(processes: Processes, out: Path) -> str:
    if not out.exists():
        ranks = processes.digits(
            attempt=1, GPUFLEET_JOB="", GPUFLEET_CHECKPOINT_URL="", OPTIONS=f"--steps 30 --seed 5 --out {out}"
        )
        statuses, said, _ = outcome(ranks)
        assert statuses == [0, 0]
        out.with_suffix(".line").write_text(weights_line(said))
    return out.with_suffix(".line").read_text()


def test_a_run_without_gpufleet_trains_and_leaves_nothing(processes: Processes, undisturbed: Any) -> None:
    assert undisturbed(processes).startswith("weights sha256=")
    assert not processes.root.exists()


def test_interrupted_by_sigterm_and_resumed_it_ends_with_the_same_bits(
    processes: Processes, undisturbed: Any, until: Until
) -> None:
    ranks = processes.digits(attempt=1, OPTIONS="--steps 30 --seed 5 --step-seconds 0.03")
    until(lambda: processes.progress(1)["step"] >= 5)
    ranks[1].send_signal(signal.SIGTERM)
    statuses, _, _ = outcome(ranks)
    stopped = processes.progress(1)
    assert (statuses, stopped["state"]) == ([143, 143], "stopped")
    assert 5 <= stopped["last_save"]["step"] == stopped["step"] < 30

    statuses, said, _ = outcome(processes.digits(attempt=2))
    finished = processes.progress(2)
    assert statuses == [0, 0]
    assert finished["base"] == {"attempt": 1, "step": stopped["step"]}
    assert (finished["state"], finished["step"]) == ("finished", 30)
    assert weights_line(said) == undisturbed(processes)
    assert len(parse_weights((processes.root / "job-a/weights.bin").read_bytes())) == 2410
    assert float(said.rpartition("accuracy=")[2]) > 0.5


@pytest.mark.parametrize("halted", ["rank-1.bin", "rank-1.json", "manifest.json"])
def test_killed_in_the_midst_of_a_save_it_ends_with_the_same_bits(
    processes: Processes, undisturbed: Any, until: Until, tmp_path: Path, halted: str
) -> None:
    ranks = processes.digits(
        attempt=1,
        program=["-c", HALTING],
        GPUFLEET_CHECKPOINT_INTERVAL=0,
        HALT_AT=f"000000000012/{halted}",
        HALTED=tmp_path / "halted",
    )
    until((tmp_path / "halted").exists)
    victim = 0 if halted == "manifest.json" else 1
    ranks[victim].kill()
    statuses, _, complaints = outcome(ranks)
    assert statuses[1 - victim] == 75
    assert f"rank {1 - victim}: rank {victim} is gone" in complaints

    statuses, said, complaints = outcome(processes.digits(attempt=2))
    assert statuses == [0, 0]
    assert processes.progress(2)["base"] == {"attempt": 1, "step": 11}
    assert "skipped a save: job-a/1/000000000012 has no manifest.json" in complaints
    assert weights_line(said) == undisturbed(processes)


def test_a_request_in_the_control_file_is_answered(processes: Processes, until: Until, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    options = "--steps 5000 --seed 5 --step-seconds 0.01"
    ranks = processes.digits(attempt=1, world_size=1, GPUFLEET_CONTROL_FILE=control, OPTIONS=options)
    until(lambda: processes.progress(1)["step"] >= 1)
    control.write_text('{"save": 3, "by": "2030-01-01T00:00:00Z"}')
    until(lambda: processes.progress(1)["request_done"] == 3)
    ranks[0].terminate()
    assert outcome(ranks)[0] == [143]


def test_a_save_larger_than_the_disk_lets_be_does_not_end_training(processes: Processes) -> None:
    # The state of this example has 38 kB and its weights 19 kB: only the saves are over the limit.
    command = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, {resource.RLIM_INFINITY}));"
    program = ["-c", f"{command} from gpufleet.training.examples.digits import main; raise SystemExit(main())"]
    ranks = processes.digits(attempt=1, world_size=1, program=program, GPUFLEET_CHECKPOINT_INTERVAL=0)
    statuses, said, complaints = outcome(ranks)
    told = processes.progress(1)
    assert (statuses, told["state"], told["last_save"]) == ([0], "finished", None)
    assert told["save_error"] == "OSError: [Errno 27] File too large"
    assert "the save of step 30 failed: OSError: [Errno 27] File too large" in complaints
    assert weights_line(said)
    assert not list(processes.root.rglob("*rank*"))


def test_a_rank_waits_for_the_others_only_so_long(processes: Processes) -> None:
    ranks = processes.digits(attempt=1, OPTIONS="--steps 3 --join-seconds 1")
    ranks[1].kill()
    statuses, _, complaints = outcome(ranks)
    assert statuses[0] == 75
    assert "rank 0: rank 1 did not come; leaving, so that a new attempt can start" in complaints


def test_stopped_before_the_others_came_it_leaves_with_143(processes: Processes, until: Until) -> None:
    ranks = processes.digits(attempt=1, world_size=2)
    ranks[1].kill()
    until(lambda: processes.progress(1)["step"] == 0)
    ranks[0].terminate()
    assert outcome(ranks)[0][0] == 143
