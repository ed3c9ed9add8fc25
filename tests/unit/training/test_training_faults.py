"""A store in trouble never ends training, and says so; a save is complete or it is none."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from gpufleet.training import CheckpointError, Wish
from gpufleet.training.manifest import Control, SaveRef, choose, dump_control
from gpufleet.training.stores import LocalStore, ObjectStore, Store, open_store

if TYPE_CHECKING:
    from conftest import Rig


class Brittle(MemoryFileSystem):
    """An object store that refuses what it is told to, with the errors of a full or closed one."""

    protocol = "brittle"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    refuses: ClassVar[dict[str, Exception]] = {}

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        for part, error in self.refuses.items():
            if part in path:
                raise error
        super().pipe_file(path, value, mode=mode)


FULL = OSError(errno.ENOSPC, "No space left on device")
TROUBLES = {
    "the disk is full": FULL,
    "access was withdrawn": PermissionError(errno.EACCES, "Permission denied"),
    "the SDK has an error of its own": type("SlowDown", (Exception,), {})("503 Slow Down"),
}


@pytest.fixture
def brittle(rig: Rig) -> Iterator[Rig]:
    fsspec.register_implementation("brittle", Brittle, clobber=True)
    rig.url = "brittle://store"
    yield rig
    Brittle.store.clear()
    Brittle.pseudo_dirs[:] = [""]
    Brittle.refuses.clear()


def progress_of(rig: Rig) -> bytes:
    return open_store(rig.url).read("job-a/1/progress.json") or b""


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
@pytest.mark.parametrize("at", ["rank-0.bin", "rank-0.json", "manifest.json"])
def test_a_failed_save_is_reported_removed_and_tried_again(brittle: Rig, trouble: Exception, at: str) -> None:
    run = brittle.open(interval=60.0)
    Brittle.refuses[at] = trouble
    assert run.save(1, b"x" * 100) is False
    assert str(trouble).encode() in progress_of(brittle)
    assert not [path for path in Brittle.store if path.endswith(".bin")]
    assert run.wish() is Wish.NOTHING
    brittle.clock.passed += 60
    assert run.wish() is Wish.SAVE
    Brittle.refuses.clear()
    assert run.save(2, b"x" * 100) is True
    assert b'"save_error":null' in progress_of(brittle)
    assert brittle.open(attempt=2).first_step == 2


def test_a_manifest_that_landed_though_its_put_failed_is_taken_back(
    brittle: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Brittle.pipe_file

    def land_and_fail(self: Brittle, path: str, value: bytes, mode: str = "overwrite", **options: object) -> None:
        put(self, path, value, mode=mode)
        if "manifest" in path:
            raise TimeoutError("no answer")

    run = brittle.open()
    monkeypatch.setattr(Brittle, "pipe_file", land_and_fail)
    assert run.save(1, b"x") is False
    assert open_store(brittle.url).names("job-a/1/000000000001") == []


def test_a_failed_request_waits_for_the_interval_but_a_new_one_is_tried_at_once(brittle: Rig, tmp_path: Path) -> None:
    control = tmp_path / "control.json"
    control.write_bytes(dump_control(Control(1)))
    run = brittle.open(control_file=control)
    Brittle.refuses["rank-0.bin"] = FULL
    assert run.wish() is Wish.SAVE
    run.save(1, b"x")
    brittle.clock.passed += 1
    assert run.wish() is Wish.NOTHING
    control.write_bytes(dump_control(Control(2)))
    brittle.clock.passed += 1
    assert run.wish() is Wish.SAVE
    assert b'"request_done":0' in progress_of(brittle)


def test_training_goes_on_when_even_progress_cannot_be_written(
    brittle: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    run = brittle.open(progress_interval=0.0)
    Brittle.refuses["job-a"] = FULL
    run.progress(1)
    assert run.save(1, b"x") is False
    run.finish(2)
    assert "could not write progress.json: OSError: [Errno 28] No space left on device" in capsys.readouterr().err


def test_old_saves_that_cannot_be_removed_do_not_fail_the_new_one(
    brittle: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Brittle, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    run = brittle.open(keep=1)
    run.save(1, b"x")
    monkeypatch.setattr(Brittle, "rm", refuse)
    assert run.save(2, b"x") is True


def test_rank_0_hears_at_once_of_a_rank_that_could_not_write(brittle: Rig) -> None:
    zero, one = brittle.open(world_size=2), brittle.open(rank=1, world_size=2)
    Brittle.refuses["rank-1.bin"] = FULL
    assert one.save(1, b"x") is False
    before = brittle.clock.passed
    assert zero.save(1, b"x") is False
    assert brittle.clock.passed == before
    assert b"Rank 1 could not write its part: OSError: [Errno 28] No space left" in progress_of(brittle)


def test_rank_0_waits_no_longer_than_its_bound(rig: Rig) -> None:
    zero = rig.open(world_size=3)
    rig.open(rank=2, world_size=3).save(1, b"x")
    assert zero.save(1, b"x") is False
    assert rig.progress()["save_error"] == "The part of rank 1 was not there after 5 s."
    assert not rig.path("1/000000000001/rank-0.bin").exists()


def test_rank_0_does_not_wait_for_a_process_that_is_gone(rig: Rig) -> None:
    zero = rig.open(world_size=3)
    rig.open(rank=1, world_size=3).save(1, b"x")
    before = rig.clock.passed
    # Rank 1 is gone too, as after a stop, but its part is there.
    assert zero.save(1, b"x", peer_alive=lambda rank: False) is False
    assert rig.clock.passed == before
    assert rig.progress()["save_error"] == "The part of rank 2 did not come: the process is gone."


def test_parts_of_a_save_that_failed_are_gone_after_the_next(rig: Rig) -> None:
    zero, one, two = (rig.open(rank=rank, world_size=3) for rank in range(3))
    one.save(1, b"x")
    assert zero.save(1, b"x") is False
    assert rig.path("1/000000000001/rank-1.bin").exists()
    for run in (one, two, zero):
        run.save(2, b"x")
    assert rig.steps() == [2]


def test_a_marker_half_written_is_looked_at_again(brittle: Rig) -> None:
    zero, one = brittle.open(world_size=2), brittle.open(rank=1, world_size=2)
    store = open_store(brittle.url)
    store.write("job-a/1/000000000001/rank-1.json", b'{"version": 1')

    class Late:
        """The peer's part arrives while rank 0 waits."""

        looks = 0

        def __call__(self, rank: int) -> bool:
            self.looks += 1
            if self.looks == 2:
                one.save(1, b"of one")
            return True

    assert zero.save(1, b"of zero", peer_alive=Late()) is True


def test_a_store_that_cannot_be_read_at_the_start_is_no_reason_to_start_afresh(
    brittle: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Brittle, path: str, **options: object) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Brittle, "cat_file", refuse)
    with pytest.raises(CheckpointError, match="The checkpoint store brittle://store cannot be used: PermissionError"):
        brittle.open()


def test_a_store_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ValueError, match="The checkpoint store no-such://bucket/x cannot be reached from here"):
        open_store("no-such://bucket/x")


@pytest.fixture(params=["folder", "file URL", "object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path, brittle: Rig) -> Store:
    return {
        "folder": LocalStore(tmp_path / "s"),
        "file URL": open_store(f"file://{tmp_path}/s"),
        "object store": ObjectStore("brittle://s"),
    }[request.param]


def test_every_store_says_what_is_there_and_what_is_not(store: Store) -> None:
    assert (store.read("j/1/f"), store.size("j/1/f"), store.sha256("j/1/f"), store.names("j/1")) == (
        None,
        None,
        None,
        [],
    )
    store.write("j/1/f", b"old")
    store.write("j/1/f", b"new")
    assert (store.read("j/1/f"), store.size("j/1/f"), store.names("j/1"), store.names("j")) == (b"new", 3, ["f"], ["1"])
    assert (store.size("j/1"), store.read("j/1")) == (None, None)
    assert store.create("j/1/f", b"newer") is False
    assert store.create("j/1/g", b"g") is True
    store.remove("j/1/g")
    store.remove("j/1/g")
    assert store.names("j/1") == ["f"]


def test_every_store_removes_a_save_as_a_whole_and_twice(store: Store) -> None:
    store.write("j/1/000000000001/manifest.json", b"{}")
    store.write("j/1/000000000001/rank-0.bin", b"x")
    store.remove_save("j/1/000000000001")
    store.remove_save("j/1/000000000001")
    assert store.names("j/1/000000000001") == []


def test_a_folder_without_hard_links_still_makes_a_file_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    store = LocalStore(tmp_path)
    assert (store.create("f", b"first"), store.create("f", b"second"), store.read("f")) == (True, False, b"first")
    assert store.names("") == ["f"]


def test_a_job_saves_to_an_object_store_and_resumes_from_it(brittle: Rig) -> None:
    zero, one = brittle.open(world_size=2), brittle.open(rank=1, world_size=2)
    for step in range(1, 6):
        one.save(step, b"one %d" % step)
        zero.save(step, b"zero %d" % step)
    assert brittle.open(attempt=2, world_size=2).restore() == b"zero 5"
    found, _ = choose(open_store(brittle.url), "job-a", below=2, verify=True)
    assert found is not None
    assert found.ref == SaveRef(1, 5)
