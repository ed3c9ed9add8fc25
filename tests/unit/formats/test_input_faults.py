"""Files that no sane person writes and that arrive all the same: one sentence, exit status 2, at once.

Each kind once: the edges of the calendar, absurd numbers, absurd sizes, files that are no text, nesting and aliases
that stand for more than was written, values of another kind than the key's.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpufleet.commands import offline
from gpufleet.formats.cell import MOST_BYTES

SECONDS = 5.0
"""Below one on a free machine; an answer that hangs takes minutes."""

HEAD = "version: 1\nat: 2026-01-01T00:00:00Z\nlevels: [leaf]\n"
NODE = "nodes: [{name: n1, model: H100-80, gpus: 8}]\n"
QUEUE = "queues: [{name: a, deserved: {'*': 8}}]\n"


def at(instant: str) -> str:
    return HEAD.replace("2026-01-01T00:00:00Z", instant) + NODE


def node(more: str) -> str:
    return HEAD + f"nodes: [{{name: 'n{{}}', model: H100-80, {more}}}]\n"


def queue(more: str) -> str:
    return HEAD + NODE + f"queues: [{{name: a, {more}}}]\n"


def waits(more: str, pods: str = "{gpus: 1}") -> str:
    return HEAD + NODE + QUEUE + f"pending: [{{job: j, queue: a, pods: [{pods}]{more}}}]\n"


def runs(more: str, pods: str = "{node: n1, gpus: 1}") -> str:
    return HEAD + NODE + QUEUE + f"running: [{{job: r, queue: a, pods: [{pods}]{more}}}]\n"


def policy(more: str) -> str:
    return HEAD + NODE + f"policy: {{{more}}}\n"


def bomb(levels: int = 12) -> str:
    """Every line ten times the one before."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


def chain(length: int) -> str:
    """Queues each inside the one before."""
    inner = ", ".join(f"{{name: q{i}, parent: {f'q{i - 1}' if i else 'root'}}}" for i in range(length))
    return HEAD + NODE + f"queues: [{inner}]\n"


def templates(count: int) -> str:
    """Each as large as one may be."""
    rows = [f"  - {{name: 'n{i}-{{}}', model: H100-80, gpus: 0, count: 100000}}" for i in range(count)]
    return HEAD + "\n".join(["nodes:", *rows])


FAULTS: dict[str, tuple[str | bytes, str]] = {
    "the first year there is": (at("0001-01-01T00:00:00Z"), "1970"),
    "the first year, and a zone that leaves it": (at("0001-01-01T00:00:00+14:00"), "1970"),
    "the last year there is": (at("9999-12-31T23:59:59Z"), "2999"),
    "the last year, and a zone that leaves it": (at("9999-12-31T23:59:59-14:00"), "2999"),
    "a year of five digits": (at("12026-01-01T00:00:00Z"), "instant"),
    "the thirteenth month": (at("2026-13-01T00:00:00Z"), "instant"),
    "a start before all calendars": (runs(", started: 0001-01-01T00:00:00Z"), "1970"),
    "a save at the end of time": (runs(", last_checkpoint: 9999-12-31T00:00:00Z"), "2999"),
    "a job that has waited since the year one": (waits(", submitted: 0001-01-02T00:00:00Z"), "1970"),
    "a runtime longer than any calendar": (waits(", runtime: 9999999999d"), "duration"),
    "a runtime of a million digits": (waits(f", runtime: {'9' * 1_000_000}d"), "duration"),
    "a bound of ageing that overflows": (policy("ageing_bound: 99999999999999h"), "duration"),
    "a negative duration": (policy("ageing_bound: -1h"), "-1h"),
    "a number with four hundred zeros": (waits(", priority: 1e400"), "priority"),
    "a number with a thousand million zeros": (waits("", "{slice: {memory_gib: 1e999999999}}"), "memory_gib"),
    "a number as small as that": (queue("weight: 1e-999999999"), "weight"),
    "a number of a million digits": (waits(f", priority: {'9' * 1_000_000}"), "priority"),
    "more than a million millions": (waits("", "{share: {fraction: '0.5', memory_gib: 9999999999999}}"), "largest"),
    "not a number": (queue("weight: .nan"), "weight"),
    "infinitely many": (queue("weight: .inf"), "weight"),
    "less than nothing without end": (queue("weight: -.inf"), "weight"),
    "one third, divided by nothing": (queue("weight: 1/0"), "weight"),
    "ten thousand million GPUs in a node": (node("gpus: 10000000000"), "gpus"),
    "a thousand million nodes": (node("gpus: 8, count: 1000000000"), "count"),
    "six million GPUs in all": (node("gpus: 64, count: 100000"), "GPUs in all"),
    "more GPUs on a node than any machine has": (node("gpus: 65"), "64"),
    "ten times a hundred thousand nodes": (templates(10), "nodes in all"),
    "a thousand million pods": (waits("", "{count: 1000000000, gpus: 1}"), "pods"),
    "a million pods that ask for no GPU": (waits("", "{count: 1000000, gpus: 0}"), "without a GPU"),
    "more GPUs held than anybody has": (runs("", "{node: n1, gpus: 10000000000}"), "n1"),
    "a GPU index of twenty digits": (runs("", "{node: n1, gpus: [10000000000000000000]}"), "gpus"),
    "an instance that starts at a superscript": (node("gpus: 8, layout: {0: ['1g.10gb@²']}, count: 1"), "@²"),
    "an instance that starts far outside": (node("gpus: 8, layout: {0: ['1g.10gb@99999999999']}, count: 1"), "layout"),
    "queues a thousand levels deep": (chain(1000), "levels deep"),
    "lists in lists without end": ("[" * 200_000, "nest"),
    "mappings in mappings": ("{a: " * 100_000 + "}" * 100_000, "nest"),
    "lists written below each other": ("- " * 100_000 + "a\n", "nest"),
    "forty levels, which YAML allows": ("a: " + "[" * 40 + "]" * 40, "nested too deeply"),
    "aliases of aliases": (bomb(), "aliases"),
    "an alias inside itself": ("a: &a [*a, *a, *a]\n", "nested too deeply"),
    "an alias of nothing": ("version: *gone\n", "alias"),
    "bytes": (bytes(range(256)) * 100, "UTF-8"),
    "a zero byte in text": (b"version: 1\0\n", "YAML"),
    "UTF-16": (HEAD.encode("utf-16"), "UTF-8"),
    "nothing": (b"", "empty"),
    "a comment": ("# nothing here\n", "empty"),
    "two documents": ("version: 1\n---\nversion: 1\n", "another document"),
    "one word": ("scenario\n", "mapping"),
    "a list": ("[1, 2]\n", "mapping"),
    "an object of Python": ("!!python/object/apply:os.system ['true']\n", "mapping"),
    "a number as a key of the file": ("1: 2\n", "'1'"),
    "a list as a key": ("? [a, b]\n: 1\n", "text"),
    "nothing as a key": ("~: 1\n", "text"),
    "a mapping for the version": ("version: {a: 1}\n", "version"),
    "a list for the instant": ("version: 1\nat: [2026]\n", "at"),
    "a word for the nodes": (HEAD + "nodes: many\n", "nodes"),
    "words among the nodes": (HEAD + "nodes: [n1, n2]\n", "nodes[0]"),
    "a list for a name": (HEAD + "nodes: [{name: [n1], model: H100-80, gpus: 8}]\n", "name"),
    "a list inside a path": (node("gpus: 8, count: 1, path: [[l1]]"), "path"),
    "a list for yes or no": (node("gpus: 8, count: 1, sharing: [true]"), "a list"),
    "a mapping for GPUs": (waits("", "{gpus: {count: 1}}"), "gpus"),
    "half a GPU": (waits("", "{gpus: 0.5}"), "gpus"),
    "a word for amounts": (queue("deserved: lots"), "deserved"),
    "a list for a duration": (policy("ageing_bound: [1h]"), "ageing_bound"),
    "a word for the policy": (HEAD + "policy: default\n", "policy"),
    "a key of sixty thousand letters": (HEAD + f"? {'k' * 60_000}\n: 1\n", "..."),
}


@pytest.mark.parametrize(("content", "word"), FAULTS.values(), ids=FAULTS)
def test_one_sentence_and_status_two(
    content: str | bytes, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fault.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    began = time.monotonic()
    assert offline.plan(str(path), as_json=True) == 2
    assert time.monotonic() - began < SECONDS
    told = capsys.readouterr()
    assert told.out == ""
    sentence = told.err.removesuffix("\n")
    assert "fault.yaml" in sentence and word in sentence, sentence[:500]
    assert "\n" not in sentence and len(sentence) < 1000 and "Cell object" not in sentence


def test_a_folder_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert offline.plan(str(tmp_path), as_json=True) == 2
    assert "directory" in capsys.readouterr().err


def test_a_file_without_end_is_not_read_to_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert offline.plan("/dev/zero", as_json=True) == 2
    assert f"{MOST_BYTES >> 20} MiB" in capsys.readouterr().err


def test_a_name_that_no_file_can_have(capsys: pytest.CaptureFixture[str]) -> None:
    assert offline.plan("a\0b", as_json=True) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
