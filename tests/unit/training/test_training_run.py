"""One rank at a time: resume, save, report, and what each file says afterwards."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gpufleet.training import CheckpointError, Wish, WorldSizeChanged, start
from gpufleet.training.environment import read_environment
from gpufleet.training.manifest import Control, SaveRef, dump_control
from gpufleet.training.watching import StopFlag

if TYPE_CHECKING:
    from conftest import Rig


def test_outside_of_gpufleet_it_is_a_plain_local_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPUFLEET_JOB", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(StopFlag, "install", lambda flag: flag)
    run = start(total_steps=3)
    assert (run.restore(), run.first_step, run.wish(), run.save(1, b"x")) == (None, 0, Wish.NOTHING, False)
    run.progress(1, loss=1.0)
    run.finish(3)
    assert not list(tmp_path.iterdir())


def test_the_next_attempt_resumes_from_the_newest_save(rig: Rig) -> None:
    first = rig.open()
    assert (first.restore(), first.first_step) == (None, 0)
    assert first.save(10, b"ten")
    assert first.save(20, b"twenty")
    second = rig.open(attempt=2)
    assert (second.restore(), second.first_step, second.base) == (b"twenty", 20, SaveRef(1, 20))


def test_each_rank_gets_its_own_part_back(rig: Rig) -> None:
    zero = rig.open(rank=0, world_size=2)
    one = rig.open(rank=1, world_size=2)
    assert one.save(5, b"of one")
    assert zero.save(5, b"of zero")
    assert rig.open(attempt=2, rank=0, world_size=2).restore() == b"of zero"
    assert rig.open(attempt=2, rank=1, world_size=2).restore() == b"of one"


def test_a_damaged_save_is_skipped_for_the_one_before_and_named(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    first = rig.open()
    first.save(10, b"ten")
    first.save(20, b"twenty")
    rig.path("1/000000000020/rank-0.bin").write_bytes(b"TWENTY")
    second = rig.open(attempt=2)
    want = "job-a/1/000000000020/rank-0.bin does not match its sha256: it was damaged after it was written."
    assert second.restore() == b"ten"
    assert rig.progress(2)["skipped"] == [{"path": "job-a/1/000000000020", "why": want}]
    assert f"skipped a save: {want}" in capsys.readouterr().err


def test_a_restart_within_the_attempt_resumes_from_the_same_base(rig: Rig) -> None:
    rig.open().save(10, b"ten")
    second = rig.open(attempt=2)
    second.save(15, b"fifteen")
    rig.open(attempt=1).save(12, b"of a process left over")
    again = rig.open(attempt=2)
    assert (again.first_step, again.restore()) == (10, b"ten")
    assert rig.open(attempt=3).first_step == 15


def test_a_restart_knows_the_saves_it_has_made(rig: Rig) -> None:
    rig.open().save(10, b"ten")
    rig.open()
    assert rig.progress()["last_save"]["step"] == 10


def test_a_rank_waits_for_rank_0_to_choose_the_base(rig: Rig) -> None:
    with pytest.raises(CheckpointError, match=r"Rank 0 did not write .*/job-a/1/base\.json in time"):
        rig.open(rank=1, world_size=2)


def test_a_rank_that_is_stopped_while_it_waits_leaves_with_143(rig: Rig) -> None:
    flag = StopFlag()
    flag.is_raised = True
    with pytest.raises(SystemExit) as left:
        rig.open(rank=1, world_size=2, stop=flag)
    assert left.value.code == 143


def test_a_base_that_was_damaged_is_not_chosen_anew(rig: Rig) -> None:
    rig.open()
    rig.path("1/base.json").write_bytes(b"{")
    with pytest.raises(CheckpointError, match="start a new attempt"):
        rig.open()


def test_a_base_that_is_gone_is_an_error_and_not_a_fresh_start(rig: Rig) -> None:
    rig.open().save(10, b"ten")
    second = rig.open(attempt=2)
    rig.path("1/000000000010/manifest.json").unlink()
    with pytest.raises(CheckpointError, match="removed or replaced"):
        second.restore()


def test_another_number_of_ranks_is_refused_and_any_part_can_be_read(rig: Rig) -> None:
    zero = rig.open(rank=0, world_size=2)
    rig.open(rank=1, world_size=2).save(5, b"of one")
    zero.save(5, b"of zero")
    alone = rig.open(attempt=2)
    with pytest.raises(WorldSizeChanged, match="is of 2 ranks and this attempt has 1"):
        alone.restore()
    assert (alone.restore(rank=0), alone.restore(rank=1), alone.saved_world_size) == (b"of zero", b"of one", 2)
    with pytest.raises(ValueError, match="ranks 0 to 1"):
        alone.restore(rank=2)


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_saves_of_the_attempt_are_kept_and_so_is_its_base(rig: Rig, keep: int) -> None:
    rig.open().save(1, b"base")
    run = rig.open(attempt=2, keep=keep)
    for step in range(2, 8):
        run.save(step, b"x")
        assert len(rig.steps(2)) <= keep
    assert rig.steps(2) == list(range(8 - keep, 8))
    assert rig.steps(1) == [1]


def test_what_a_rank_left_half_done_is_cleared_before_it_starts(rig: Rig) -> None:
    rig.open(rank=0, world_size=2)
    rig.open(rank=1, world_size=2).save(5, b"before the restart")
    rig.path("1/000000000005/.rank-1.bin.4711").write_bytes(b"half")
    rig.open(rank=0, world_size=2)
    rig.open(rank=1, world_size=2)
    assert rig.steps() == []


def test_a_step_saved_before_a_restart_is_left_as_it_is(rig: Rig) -> None:
    rig.open().save(5, b"before the restart")
    assert rig.open().save(5, b"after it")
    assert rig.open(attempt=2).restore() == b"before the restart"


def test_the_interval_asks_for_a_save(rig: Rig) -> None:
    run = rig.open(interval=60.0)
    rig.clock.passed += 59
    assert run.wish() is Wish.NOTHING
    rig.clock.passed += 1
    assert run.wish() is Wish.SAVE
    run.save(1, b"x")
    assert run.wish() is Wish.NOTHING


def test_a_request_is_answered_once_and_its_number_reported(rig: Rig, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    run = rig.open(control_file=control)
    assert run.wish() is Wish.NOTHING
    for damaged in (b"", b'{"save": 4', b"[]", b'{"save": -1}', b"\xff", b"[" * 60_000):
        control.write_bytes(damaged)
        rig.clock.passed += 1
        assert run.wish() is Wish.NOTHING
    control.write_bytes(dump_control(Control(4, datetime(2026, 1, 1, tzinfo=UTC))))
    rig.clock.passed += 1
    assert run.wish() is Wish.SAVE
    run.save(1, b"x")
    rig.clock.passed += 1
    assert (run.wish(), rig.progress()["request_done"]) == (Wish.NOTHING, 4)


def test_a_request_that_another_rank_saw_first_is_answered_for_all(rig: Rig, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_bytes(dump_control(Control(4)))
    zero = rig.open(rank=0, world_size=2)
    one = rig.open(rank=1, world_size=2, control_file=control)
    assert (zero.wish(), one.wish()) == (Wish.NOTHING, Wish.SAVE)
    one.save(1, b"x")
    zero.save(1, b"x")
    assert rig.progress()["request_done"] == 4


def test_sigterm_asks_to_stop_and_the_run_leaves_with_143(rig: Rig) -> None:
    flag = StopFlag()
    run = rig.open(stop=flag)
    flag.is_raised = True
    assert run.wish() is Wish.STOP
    run.save(7, b"x")
    with pytest.raises(SystemExit) as left:
        run.stopped()
    assert (left.value.code, rig.progress()["state"], rig.progress()["step"]) == (143, "stopped", 7)


def test_progress_is_written_at_start_at_most_every_interval_at_a_save_and_at_the_end(rig: Rig) -> None:
    run = rig.open(progress_interval=5.0)
    seen = [rig.progress()["step"]]
    for step in range(1, 8):
        rig.clock.passed += 1
        run.progress(step, loss=1 / step)
        seen.append(rig.progress()["step"])
    assert seen == [0, 0, 0, 0, 0, 5, 5, 5]
    run.save(8, b"x")
    assert rig.progress()["step"] == 8
    run.finish(9)
    assert (rig.progress()["step"], rig.progress()["state"]) == (9, "finished")


def test_progress_has_the_agreed_keys(rig: Rig) -> None:
    run = rig.open()
    run.progress(1, loss=0.5)
    run.save(1, b"xyz")
    assert rig.progress() == {
        "version": 1, "job": "job-a", "attempt": 1, "step": 1, "total_steps": 100, "metrics": {"loss": 0.5},
        "started_at": "2026-01-01T00:00:00.000000Z", "at": "2026-01-01T00:00:00.000000Z", "base": None,
        "last_save": {"step": 1, "at": "2026-01-01T00:00:00.000000Z", "seconds": 0.0, "bytes": 3},
        "save_error": None, "skipped": [], "state": "running", "request_done": 0,
    }  # fmt: skip


def test_metrics_of_any_library_are_plain_numbers_and_no_number_is_null(rig: Rig) -> None:
    run = rig.open(progress_interval=0.0)
    run.progress(1, loss=np.float32(0.5), nan=float("nan"), array=np.zeros(3), name="warm-up", steps=np.int64(7))
    assert rig.progress()["metrics"] == {"loss": 0.5, "nan": None, "array": None, "name": "warm-up", "steps": 7.0}


def test_memory_is_said_once_it_is_known_and_only_grows(rig: Rig) -> None:
    run = rig.open(progress_interval=0.0)
    run.progress(1)
    assert "peak_memory_mib" not in rig.progress()
    for mib in (16589.2, 900, 0):
        run.memory(mib)
    run.progress(2)
    assert rig.progress()["peak_memory_mib"] == 16590
    rig.open().progress(3)
    assert rig.progress()["peak_memory_mib"] == 16590, "a restart inside the attempt keeps it"
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="A peak of memory is a number of MiB"):
            run.memory(wrong)


def test_only_rank_0_reports(rig: Rig) -> None:
    rig.open(rank=0, world_size=2)
    before = rig.path("1/progress.json").read_bytes()
    one = rig.open(rank=1, world_size=2, progress_interval=0.0)
    one.progress(50)
    one.finish(50)
    assert rig.path("1/progress.json").read_bytes() == before


def test_a_result_lies_beside_the_attempts(rig: Rig) -> None:
    assert rig.open().publish("weights.bin", b"w") == str(rig.path("weights.bin"))
    assert rig.path("weights.bin").read_bytes() == b"w"


@pytest.mark.parametrize("name", ["", "7", "../weights.bin", "a/b"])
def test_a_result_cannot_be_put_elsewhere(rig: Rig, name: str) -> None:
    with pytest.raises(ValueError, match="A result is one file beside the attempts"):
        rig.open().publish(name, b"w")


def test_no_temporary_file_is_left(rig: Rig) -> None:
    run = rig.open()
    run.save(1, b"x")
    run.finish(1)
    assert not [path for path in Path(rig.url).rglob("*") if path.name.startswith(".")]


def test_the_base_file_says_what_was_chosen(rig: Rig) -> None:
    rig.open().save(3, b"x")
    rig.open(attempt=2)
    values = json.loads(rig.path("2/base.json").read_bytes())
    manifest = json.loads(rig.path("1/000000000003/manifest.json").read_bytes())
    assert (values["base"], values["digest"]) == ({"attempt": 1, "step": 3}, manifest["digest"])


WRONG = {
    "no attempt": ({}, "GPUFLEET_ATTEMPT must be a whole number of at least 1; it is ''."),
    "attempt zero": ({"GPUFLEET_ATTEMPT": "0"}, "GPUFLEET_ATTEMPT must be a whole number of at least 1; it is '0'."),
    "a rank too many": ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK is 2, but WORLD_SIZE is 2: ranks count from 0."),
    "keep nothing": (
        {"GPUFLEET_ATTEMPT": "1", "GPUFLEET_CHECKPOINT_KEEP": "0"},
        "GPUFLEET_CHECKPOINT_KEEP must be a whole number of at least 1; it is '0'.",
    ),
    "no number": (
        {"GPUFLEET_ATTEMPT": "1", "GPUFLEET_CHECKPOINT_INTERVAL": "10m"},
        "GPUFLEET_CHECKPOINT_INTERVAL must be a number of seconds of at least 0; it is '10m'.",
    ),
    "never": (
        {"GPUFLEET_ATTEMPT": "1", "GPUFLEET_CHECKPOINT_INTERVAL": "nan"},
        "GPUFLEET_CHECKPOINT_INTERVAL must be a number of seconds of at least 0; it is 'nan'.",
    ),
    "a path for a job": ({"GPUFLEET_JOB": "../b", "GPUFLEET_ATTEMPT": "1"}, "The job id '../b' cannot name a folder"),
}


@pytest.mark.parametrize(("environ", "want"), WRONG.values(), ids=WRONG)
def test_a_wrong_environment_is_refused_with_the_variables_name(environ: dict[str, str], want: str) -> None:
    with pytest.raises(ValueError, match=r"^\w+") as caught:
        read_environment({"GPUFLEET_JOB": "job-a", **environ})
    assert str(caught.value).startswith(want)


def test_the_environment_has_the_agreed_defaults() -> None:
    place = read_environment({"GPUFLEET_JOB": "job-a", "GPUFLEET_ATTEMPT": "1", "GPUFLEET_CHECKPOINT_URL": "/store"})
    assert place is not None
    assert (place.rank, place.world_size, place.interval, place.keep) == (0, 1, 600.0, 3)
    assert (place.control_file, place.progress_interval) == (None, 5.0)
