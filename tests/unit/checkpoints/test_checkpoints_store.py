"""What the orchestrator sees of a job's saves."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from gpufleet.checkpoints import list_saves, newest_complete, read_base, read_progress, sizes
from gpufleet.checkpoints.files import StoreFiles
from gpufleet.errors import Invalid, Permanent, Temporary
from gpufleet.training import Run
from gpufleet.training.environment import Environment
from gpufleet.training.manifest import SaveRef
from gpufleet.training.watching import StopFlag

if TYPE_CHECKING:
    from conftest import Depot


def test_saves_are_listed_newest_first_with_verdict_and_reason(depot: Depot) -> None:
    depot.save(1, 10)
    depot.save(1, 20, damage="cut")
    depot.save(2, 5, damage="unfinished")
    found = [
        (save.attempt, save.step, save.is_complete, save.why, save.size) for save in list_saves(depot.url, "job-a")
    ]
    assert found[0][:4] == (2, 5, False, "job-a/2/000000000005 has no manifest.json: it was never finished.")
    assert found[1][:4] == (1, 20, False, "job-a/1/000000000020/rank-1.bin has 1 bytes; its manifest says 3.")
    assert found[2][:4] == (1, 10, True, "")
    assert found[0][4] == 6
    whole = list_saves(depot.url, "job-a")[2]
    assert (whole.world_size, whole.created_at) == (2, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_job_that_never_saved_has_nothing(depot: Depot) -> None:
    assert list_saves(depot.url, "job-a") == ()
    assert newest_complete(depot.url, "job-a") is None
    assert read_progress(depot.url, "job-a", 1) is None
    assert read_base(depot.url, "job-a", 1) is None
    assert sizes(depot.url, "job-a") == {}


def test_the_newest_complete_save_is_what_an_attempt_would_resume_from(depot: Depot) -> None:
    depot.save(1, 10)
    depot.save(1, 20)
    depot.save(2, 5, damage="flipped")
    verified, trusted = newest_complete(depot.url, "job-a"), newest_complete(depot.url, "job-a", verify=False)
    assert verified is not None
    assert trusted is not None
    assert (verified.ref, trusted.ref) == (SaveRef(1, 20), SaveRef(2, 5))
    below = newest_complete(depot.url, "job-a", below=1)
    assert below is None


def test_what_a_job_wrote_is_what_the_orchestrator_reads(depot: Depot) -> None:
    place = Environment("job-a", 1, 0, 1, depot.url)
    run = Run(place, StopFlag(), total_steps=50)
    run.save(7, b"seven")
    run.finish(8)
    progress, base = read_progress(depot.url, "job-a", 1), read_base(depot.url, "job-a", 1)
    assert progress is not None
    assert base is not None
    assert (progress.step, progress.total_steps, progress.last_save and progress.last_save.step) == (8, 50, 7)
    assert base.base is None
    newest = newest_complete(depot.url, "job-a")
    assert newest is not None
    assert newest.ref == SaveRef(1, 7)


def test_sizes_count_all_that_lies_there(depot: Depot) -> None:
    depot.put("1/progress.json", b"12345")
    depot.save(1, 10, damage="unfinished")
    depot.save(2, 10, damage="unfinished")
    assert sizes(depot.url, "job-a") == {2: 6, 1: 11}


def test_a_damaged_file_is_named(depot: Depot) -> None:
    depot.put("1/progress.json", b"{")
    with pytest.raises(Invalid, match=r"job-a/1/progress\.json is not valid JSON"):
        read_progress(depot.url, "job-a", 1)


def test_bad_names_and_stores_are_refused() -> None:
    with pytest.raises(Invalid, match="cannot name a folder"):
        list_saves("memory://x", "../other")
    with pytest.raises(Invalid, match="cannot be reached from here"):
        list_saves("no-such://x", "job-a")


TROUBLES = {
    "access is denied": (PermissionError("denied"), Permanent, "No access to job-a in the checkpoint store memory://x"),
    "the network is down": (OSError("unreachable"), Temporary, "cannot be reached now: OSError: unreachable"),
    "the SDK has an error of its own": (
        type("SlowDown", (Exception,), {})("503"),
        Temporary,
        "cannot be reached now: SlowDown: 503",
    ),
}


@pytest.mark.parametrize(("trouble", "kind", "words"), TROUBLES.values(), ids=TROUBLES)
def test_trouble_is_told_as_ours_and_never_as_a_missing_save(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception, kind: type[Exception], words: str
) -> None:
    from fsspec.implementations.memory import MemoryFileSystem

    def refuse(*_: Any, **__: Any) -> None:
        raise trouble

    monkeypatch.setattr(MemoryFileSystem, "ls", refuse)
    with pytest.raises(kind, match=words):
        newest_complete("memory://x", "job-a")


def test_a_listing_is_taken_once_a_call(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    depot.save(1, 10)
    asked: list[str] = []
    real = StoreFiles._list
    monkeypatch.setattr(StoreFiles, "_list", lambda files, folder: (asked.append(folder), real(files, folder))[1])
    list_saves(depot.url, "job-a", verify=True)
    assert sorted(asked) == ["job-a", "job-a/1", "job-a/1/000000000010"]


def test_importing_the_room_costs_no_fsspec() -> None:
    code = "import sys, gpufleet.checkpoints; print('fsspec' in sys.modules)"
    paths = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
