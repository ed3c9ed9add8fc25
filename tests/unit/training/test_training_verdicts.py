"""Choosing what to resume from: never an incomplete save, always the newest complete one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gpufleet.training import manifest as m
from gpufleet.training.manifest import Manifest, SaveRef, Shard

quick = settings(deadline=None, max_examples=60)

AT = datetime(2026, 1, 1, tzinfo=UTC)
DAMAGES = ("none", "no manifest", "manifest cut", "part missing", "part cut", "part flipped", "of another save")


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/"
        return sorted({path[len(prefix) :].partition("/")[0] for path in self.content if path.startswith(prefix)})

    def read(self, path: str) -> bytes | None:
        return self.content.get(path)

    def size(self, path: str) -> int | None:
        return len(self.content[path]) if path in self.content else None

    def sha256(self, path: str) -> str | None:
        return m.sha256_of(self.content[path]) if path in self.content else None

    def put(self, ref: SaveRef, damage: str = "none", ranks: int = 2) -> None:
        parts = [f"{ref} {rank}".encode() for rank in range(ranks)]
        shards = tuple(Shard(r, m.shard_name(r), m.sha256_of(part), len(part)) for r, part in enumerate(parts))
        folder = m.save_folder("job-a", ref)
        self.content |= {f"{folder}/{m.shard_name(r)}": part for r, part in enumerate(parts)}
        named = SaveRef(ref.attempt, ref.step + 1) if damage == "of another save" else ref
        whole = m.dump_manifest(Manifest("job-a", named, shards, AT))
        self.content[f"{folder}/manifest.json"] = whole
        hurt = f"{folder}/{m.shard_name(ranks - 1)}"
        match damage:
            case "no manifest":
                del self.content[f"{folder}/manifest.json"]
            case "manifest cut":
                self.content[f"{folder}/manifest.json"] = whole[:-9]
            case "part missing":
                del self.content[hurt]
            case "part cut":
                self.content[hurt] = parts[-1][:-1]
            case "part flipped":
                self.content[hurt] = bytes([parts[-1][0] ^ 1]) + parts[-1][1:]


refs = some.builds(SaveRef, some.integers(1, 4), some.integers(0, 5))


@quick
@given(some.dictionaries(refs, some.sampled_from(DAMAGES), max_size=8), some.integers(1, 6))
def test_the_base_is_the_newest_undamaged_save_of_earlier_attempts(saves: dict[SaveRef, str], below: int) -> None:
    shelf = Shelf()
    for ref, damage in saves.items():
        shelf.put(ref, damage)
    earlier = [ref for ref in saves if ref.attempt < below]
    want = max((ref for ref in earlier if saves[ref] == "none"), default=None)
    found, skipped = m.choose(shelf, "job-a", below=below, verify=True)
    assert (found.ref if found else None) == want
    newer = sorted((ref for ref in earlier if want is None or ref > want), reverse=True)
    assert [skip.path for skip in skipped] == [m.save_folder("job-a", ref) for ref in newer]


@quick
@given(some.data())
def test_any_change_to_a_part_is_detected(data: some.DataObject) -> None:
    shelf, ref = Shelf(), SaveRef(1, 1)
    shelf.put(ref)
    path = f"{m.save_folder('job-a', ref)}/rank-1.bin"
    whole = shelf.content[path]
    at, flip = data.draw(some.integers(0, len(whole) - 1)), data.draw(some.integers(1, 255))
    changed = data.draw(some.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]]))
    shelf.content[path] = changed
    assert m.judge(shelf, "job-a", ref, verify=True).manifest is None


WHY = {
    "no manifest": "job-a/1/000000000007 has no manifest.json: it was never finished.",
    "part missing": "job-a/1/000000000007/rank-1.bin is missing.",
    "part cut": "job-a/1/000000000007/rank-1.bin has 27 bytes; its manifest says 28.",
    "part flipped": "job-a/1/000000000007/rank-1.bin does not match its sha256: it was damaged after it was written.",
    "of another save": "job-a/1/000000000007/manifest.json is that of another save.",
}


@pytest.mark.parametrize(("damage", "want"), WHY.items(), ids=WHY)
def test_the_verdict_says_what_is_wrong(damage: str, want: str) -> None:
    shelf = Shelf()
    shelf.put(SaveRef(1, 7), damage)
    assert m.judge(shelf, "job-a", SaveRef(1, 7), verify=True).why == want


def test_trouble_with_the_store_is_not_taken_for_a_missing_save() -> None:
    shelf = Shelf()
    shelf.put(SaveRef(1, 7))
    shelf.put(SaveRef(1, 8))

    def refuse(path: str) -> str | None:
        raise PermissionError(path)

    shelf.sha256 = refuse  # type: ignore[method-assign]
    with pytest.raises(PermissionError):
        m.choose(shelf, "job-a", below=2, verify=True)
