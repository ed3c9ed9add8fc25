"""The files that job and orchestrator share: what is written is read back, and what was changed is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gpufleet.training import manifest as files
from gpufleet.training.manifest import (
    Base,
    Control,
    LastSave,
    Manifest,
    Marker,
    Progress,
    SaveRef,
    Shard,
    Skipped,
    State,
)

quick = settings(deadline=None, max_examples=60)

texts = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
jobs = texts.filter(lambda text: text not in {"", ".", ".."} and not set(text) & {"/", "\\", "\0"})
instants = some.datetimes(timezones=some.just(UTC))
refs = some.builds(SaveRef, some.integers(1, 999), some.integers(0, 10**12 - 1))
hashes = some.binary(max_size=8).map(files.sha256_of)
skips = some.lists(some.builds(Skipped, texts, texts), max_size=2).map(tuple)
counts = some.integers(0, 10**9)


@some.composite
def shards(draw: some.DrawFn) -> tuple[Shard, ...]:
    ranks = range(draw(some.integers(1, 4)))
    return tuple(Shard(rank, files.shard_name(rank), draw(hashes), draw(counts)) for rank in ranks)


manifests = some.builds(Manifest, jobs, refs, shards(), instants)
markers = some.builds(Marker, jobs, refs, shards().map(lambda all_: all_[-1]), counts, some.none() | texts)
bases = some.one_of(
    some.builds(Base, jobs, some.integers(1, 99), refs, hashes, instants, skips),
    some.builds(Base, jobs, some.integers(1, 99), some.none(), some.none(), instants, skips),
)
metrics = some.dictionaries(texts, some.none() | texts | some.floats(allow_nan=False, allow_infinity=False), max_size=3)
last_saves = some.builds(LastSave, counts, instants, some.floats(0, 1e9), counts)
progresses = some.builds(
    Progress, jobs, some.integers(1, 99), counts, some.none() | counts, instants, instants, metrics, some.none() | refs,
    some.none() | last_saves, some.none() | texts, skips, some.sampled_from(State), counts, some.none() | counts,
)  # fmt: skip
controls = some.builds(Control, counts, some.none() | instants)

KINDS: dict[str, tuple[some.SearchStrategy[Any], Callable[[Any], bytes], Callable[[bytes, str], Any]]] = {
    "manifest": (manifests, files.dump_manifest, files.parse_manifest),
    "marker": (markers, files.dump_marker, files.parse_marker),
    "base": (bases, files.dump_base, files.parse_base),
    "progress": (progresses, files.dump_progress, files.parse_progress),
    "control file": (controls, files.dump_control, files.parse_control),
}


@pytest.mark.parametrize(("facts", "dump", "parse"), KINDS.values(), ids=KINDS)
def test_what_is_written_is_read_back(facts: Any, dump: Any, parse: Any) -> None:
    @quick
    @given(facts)
    def check(fact: Any) -> None:
        assert parse(dump(fact), "here") == fact

    check()


@pytest.mark.parametrize(("facts", "dump", "parse"), KINDS.values(), ids=KINDS)
def test_no_damage_makes_parsing_raise_anything_but_a_value_error_that_names_the_file(
    facts: Any, dump: Any, parse: Any
) -> None:
    @quick
    @given(facts, some.data())
    def check(fact: Any, data: some.DataObject) -> None:
        whole = dump(fact)
        at = data.draw(some.integers(0, len(whole) - 1))
        damaged = data.draw(
            some.sampled_from([whole[:at], whole[:at] + data.draw(some.binary(max_size=4)) + whole[at:]])
        )
        try:
            parse(damaged, "folder/file.json")
        except ValueError as error:
            assert str(error).startswith("folder/file.json")

    check()


def test_a_number_alone_is_a_request_to_save_and_an_empty_file_is_none() -> None:
    assert files.parse_control(b"3\n", "control") == Control(save=3)
    for nothing in (b"", b"-1", b"9" * 5000, b"three"):
        with pytest.raises(ValueError, match="control"):
            files.parse_control(nothing, "control")


@quick
@given(manifests, some.data())
def test_any_changed_byte_of_a_manifest_is_detected(manifest: Manifest, data: some.DataObject) -> None:
    whole = files.dump_manifest(manifest)
    at = data.draw(some.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(some.integers(1, 255))]) + whole[at + 1 :]
    with pytest.raises(ValueError, match="here"):
        files.parse_manifest(changed, "here")


@quick
@given(manifests, some.data())
def test_any_truncation_of_a_manifest_is_detected(manifest: Manifest, data: some.DataObject) -> None:
    whole = files.dump_manifest(manifest)
    with pytest.raises(ValueError, match="here"):
        files.parse_manifest(whole[: data.draw(some.integers(0, len(whole) - 1))], "here")


def test_the_manifest_has_the_agreed_keys() -> None:
    shard = Shard(0, "rank-0.bin", files.sha256_of(b"x"), 1)
    manifest = Manifest("job-a", SaveRef(2, 7), (shard,), datetime(2026, 1, 1, tzinfo=UTC))
    rest = (
        b'"job":"job-a","ranks":[{"bytes":1,"file":"rank-0.bin","rank":0,"sha256":"%s"}],"step":7,"version":1,'
        b'"world_size":1}\n' % shard.sha256.encode()
    )
    digest = files.sha256_of(b'{"attempt":2,"created_at":"2026-01-01T00:00:00.000000Z",' + rest)
    want = b'{"attempt":2,"created_at":"2026-01-01T00:00:00.000000Z","digest":"%s",' % digest.encode() + rest
    assert files.dump_manifest(manifest) == want


COMPLAINTS = {
    "no object": (b"[]", "f.json is not a JSON object."),
    "a later version": (b'{"version": 2}', "f.json has version 2; this release reads version 1."),
    "a missing key": (b'{"version": 1}', "f.json: 'job' must be a text; it is missing."),
    "a number for a text": (b'{"version": 1, "job": 5}', "f.json: 'job' must be a text; it is 5."),
    "a truth value for a number": (
        b'{"version": 1, "job": "a", "attempt": true}',
        "f.json: 'attempt' must be a whole number of at least 1; it is true.",
    ),
    "an instant without a zone": (
        b'{"version": 1, "job": "a", "attempt": 1, "step": 0, "started_at": "2026-01-01T00:00:00"}',
        "f.json: 'started_at' must be an ISO 8601 instant with a time zone; it is \"2026-01-01T00:00:00\".",
    ),
}


@pytest.mark.parametrize(("data", "want"), COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_complaint_is_one_sentence_with_file_and_key(data: bytes, want: str) -> None:
    with pytest.raises(ValueError, match=r"^f\.json") as caught:
        files.parse_progress(data, "f.json")
    assert str(caught.value) == want


def test_a_manifest_cannot_point_outside_its_folder() -> None:
    shard = Shard(0, "../../other/rank-0.bin", files.sha256_of(b""), 0)
    manifest = Manifest("job-a", SaveRef(1, 1), (shard,), datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match=r"the file of rank 0 must be 'rank-0\.bin'"):
        files.parse_manifest(files.dump_manifest(manifest), "here")


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "../a", "a\\b", "a\0b"])
def test_a_job_id_that_leads_out_of_the_store_is_refused(job: str) -> None:
    with pytest.raises(ValueError, match="cannot name a folder"):
        files.progress_path(job, 1)


def test_the_shared_definition_needs_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import gpufleet.training.manifest as m;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    paths = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=paths, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['gpufleet']"
