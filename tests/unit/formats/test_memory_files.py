"""Measured runs in a scenario file: the examples of docs/formats-memory.md, and every way to say it wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpufleet.commands import offline
from gpufleet.errors import Invalid
from gpufleet.formats.scenario import loads
from gpufleet.model.workload import Share, Slice

DOCUMENT = (Path(__file__).parents[3] / "docs" / "formats-memory.md").read_text()
FILES = dict(re.findall(r"<!-- file: (\S+) -->\n```yaml\n(.*?)```", DOCUMENT, re.S))
RUNS = re.findall(r"<!-- run: gpufleet (.*?) -->\n```json\n(.*?)```", DOCUMENT, re.S)
REFUSED = re.findall(r"<!-- refused: gpufleet plan (.*?) -->\n```\n(.*?)```", DOCUMENT, re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("command", "answer"), RUNS, ids=[command for command, _ in RUNS])
def test_the_examples_answer_as_shown(
    command: str, answer: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offline.main(command.split()) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(answer)


@pytest.mark.parametrize(("file", "sentence"), REFUSED, ids=[file for file, _ in REFUSED])
def test_the_refusals_are_those_shown(
    file: str, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offline.plan(file, as_json=True) == 2
    told = capsys.readouterr()
    assert (told.out, sentence.strip() in told.err) == ("", True), told.err


HEAD = """\
version: 1
at: 2026-01-01T00:00:00Z
nodes: [{name: n1, model: H100-80, gpus: 1}]
queues: [{name: a, deserved: {"*": 1}}]
"""
POINT = "memory_points: [{workload: w, batch: 2, sequence: 2048, peak_gib: 10, measured: device}]\n"
LIKE = "like: {workload: w, batch: 2, sequence: 2048}"


def scenario(pod: str, points: str = POINT, more: str = "") -> str:
    return f"{HEAD}{points}pending: [{{job: j, queue: a, pods: [{{{pod}}}]{more}}}]\n"


def test_a_slice_and_a_share_carry_need_and_reason() -> None:
    for pod, demand in (
        (f"slice: {{{LIKE}, compute: 2}}", Slice(11_978, 2)),
        (f"share: {{fraction: '0.5', {LIKE}}}", Share(500, 11_978)),
    ):
        (pending,) = loads(scenario(pod), "s.yaml")[0].pending
        assert pending.job.pod_sets[0].demand == demand
        assert pending.job.pod_sets[0].derived.startswith("11.7 GiB like 'w' with batch 2 x sequence 2048: 10.0 GiB")


def test_a_need_that_is_asked_for_stays_as_it_stands() -> None:
    (pending,) = loads(scenario("slice: {memory_gib: 10}"), "s.yaml")[0].pending
    assert (pending.job.pod_sets[0].demand, pending.job.pod_sets[0].derived) == (Slice(10_240), "")


def test_a_replica_gets_the_wider_margin() -> None:
    twenty = POINT.replace(
        "[{", "[" + "{workload: w, batch: 2, sequence: 2048, peak_gib: 10, measured: device}, " * 60 + "{"
    )
    needs = [
        loads(scenario(f"slice: {{{LIKE}}}", twenty, f", kind: {kind}"), "s.yaml")[0].pending[0].job.pod_sets[0].demand
        for kind in ("training", "inference")
    ]
    assert needs == [Slice(10_752), Slice(11_264)]


WRONG = {
    "nothing was measured": (
        scenario(f"slice: {{{LIKE}}}", ""), "line 5: pending[0].pods[0].slice.like", "nothing was measured of 'w'"),
    "both ways at once": (
        scenario(f"slice: {{memory_gib: 9, {LIKE}}}"), "slice.like", "memory_gib and like exclude each other"),
    "a like without a name": (scenario("slice: {like: {batch: 2}}"), "slice.like", "the key 'workload' is missing"),
    "a misspelt size": (scenario("slice: {like: {workload: w, batches: 2}}"), "like.batches", "unknown key 'batches'"),
    "a batch of nothing": (scenario("slice: {like: {workload: w, batch: 0}}"), "like.batch", "at least 1"),
    "a point without a peak": (scenario("gpus: 1", "memory_points: [{workload: w}]\n"), "memory_points[0]", "peak_gib"),
    "a peak of nothing": (
        scenario("gpus: 1", "memory_points: [{workload: w, peak_gib: 0}]\n"), "memory_points[0].peak_gib", "more than 0 GiB"),
    "measured in some other way": (
        scenario("gpus: 1", "memory_points: [{workload: w, peak_gib: 1, measured: guessed}]\n"),
        "memory_points[0].measured", "allocator"),
    "a key of a point nobody knows": (
        scenario("gpus: 1", "memory_points: [{workload: w, peak_gib: 1, model: H100-80}]\n"),
        "memory_points[0].model", "unknown key"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "where", "what"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named_with_its_place(text: str, where: str, what: str) -> None:
    with pytest.raises(Invalid) as refused:
        loads(text, "s.yaml")
    assert "s.yaml, line" in str(refused.value) and where in str(refused.value) and what in str(refused.value)


def test_an_explanation_says_how_the_need_came_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.yaml").write_text(
        "version: 1\nat: 2026-01-01T00:00:00Z\nnodes: [{name: n, model: H100-80, gpus: 1}]\nqueues: [{name: a}]\n"
        "memory_points: [{workload: w, batch: 1, peak_gib: 8}]\n"
        "pending: [{job: j, queue: a, pods: [{count: 9, slice: {like: {workload: w, batch: 1}}}]}]\n"
    )
    assert offline.explain(str(tmp_path / "fleet.yaml"), "j", as_json=True) == 0
    (derived,) = json.loads(capsys.readouterr().out)["memory"]
    assert "w" in derived and "margin" in derived
