"""Files of events: what is read, and how each mistake is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpufleet.errors import Invalid
from gpufleet.formats.events import event_of_row, load_events, read_events
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, QuotaMark, Released

AT = datetime(2026, 3, 10, 10, tzinfo=UTC)
HEAD = {"id": "e", "at": "2026-03-10T10:00:00Z", "node": "n"}
HELD = {**HEAD, "job": "j", "attempt": 1, "gpu": 0}
ALLOCATED = {**HELD, "event": "allocated", "team": "t", "project": "p"}
NODE_UP = {**HEAD, "event": "node-up", "model": "T4-16", "gpus": 1, "capacity": "owned"}


def one(event: Any) -> Any:
    text = event if isinstance(event, str) else json.dumps(event)
    (found,) = read_events(text.encode(), "f.jsonl")
    return found


def test_every_kind_of_event_is_read() -> None:
    assert one(ALLOCATED) == Allocated("e", AT, "n", "j", 1, "t", "p", 0)
    assert one({**HELD, "event": "released", "start": 4}) == Released("e", AT, "n", "j", 1, 0, 4)
    assert one({**HELD, "event": "heartbeat"}) == Heartbeat("e", AT, "n", ("j", 1, 0))
    assert one({**HEAD, "event": "heartbeat"}) == Heartbeat("e", AT, "n")
    assert one({**NODE_UP, "region": ""}) == NodeUp("e", AT, "n", "T4-16", 1, "owned", None, "")
    assert one({**HEAD, "event": "node-down"}) == NodeDown("e", AT, "n")


def test_numbers_and_instants_are_equal_by_value() -> None:
    plain = one({**ALLOCATED, "fraction": "0.50", "priority": 10, "quota": "over-quota"})
    other = one(
        {**ALLOCATED, "fraction": 0.5, "priority": 10.0, "quota": "over-quota", "at": "2026-03-10t15:30:00.000+05:30"}
    )
    assert plain == other
    assert (plain.fraction, plain.quota) == (Fraction(1, 2), QuotaMark.OVER_QUOTA)


def test_a_fraction_is_read_exactly() -> None:
    line = json.dumps({**ALLOCATED, "fraction": "X"}).replace('"X"', "0.1")
    assert one(line).fraction == Fraction(1, 10)


def test_blank_lines_and_a_byte_order_mark_are_no_events() -> None:
    data = b"\xef\xbb\xbf" + json.dumps(ALLOCATED).encode() + b"\r\n\n  \n"
    assert len(list(read_events(data, "f"))) == 1


WRONG = {
    "not JSON": ("{", "not JSON"),
    "not an object": ("[]", "must be one JSON object"),
    "two documents": ("{} {}", "not JSON"),
    "a key twice": ('{"id": "a", "id": "b"}', "appears twice"),
    "not a number": (json.dumps({**HELD, "event": "released", "start": float("nan")}), "NaN is not a number"),
    "unknown event": ({**HEAD, "event": "alocated"}, "event: 'alocated' is not known"),
    "unknown key": ({**ALLOCATED, "teem": "x"}, "unknown key 'teem'"),
    "a key of another kind": ({**HELD, "event": "released", "team": "t"}, "unknown key 'team'"),
    "missing key": ({k: v for k, v in ALLOCATED.items() if k != "gpu"}, "the key 'gpu' is missing"),
    "half a heartbeat": ({**HEAD, "event": "heartbeat", "gpu": 1}, "the key 'job' is missing"),
    "text for a number": ({**ALLOCATED, "gpu": "0"}, "gpu: must be a whole number"),
    "true for a number": ({**ALLOCATED, "attempt": True}, "attempt: must be a whole number"),
    "a broken number": ({**ALLOCATED, "gpu": 0.5}, "gpu: must be a whole number"),
    "null": ({**ALLOCATED, "team": None}, "team: must be text"),
    "no name": ({**ALLOCATED, "team": ""}, "team: must be text"),
    "half a character": ({**ALLOCATED, "team": "\ud800"}, "team: must be text"),
    "attempt 0": ({**ALLOCATED, "attempt": 0}, "attempt: must be from 1"),
    "gpu -1": ({**ALLOCATED, "gpu": -1}, "gpu: must be from 0"),
    "far too many": ({**NODE_UP, "gpus": 10**12}, "gpus: must be from 0"),
    "no zone": ({**ALLOCATED, "at": "2026-03-10T10:00:00"}, "at: '2026-03-10T10:00:00' is not an instant with a zone"),
    "seven digits": ({**ALLOCATED, "at": "2026-03-10T10:00:00.1234567Z"}, "at: "),
    "a day": ({**ALLOCATED, "at": "2026-03-10"}, "at: "),
    "30 February": ({**ALLOCATED, "at": "2026-02-30T10:00:00Z"}, "no such date"),
    "before the calendar": ({**ALLOCATED, "at": "0001-01-01T00:00:00+14:00"}, "no such date"),
    "profile alone": ({**ALLOCATED, "profile": "1g.10gb"}, "profile: needs the key 'start'"),
    "start alone": ({**ALLOCATED, "start": 0}, "start: needs the key 'profile'"),
    "slice and share": (
        {**ALLOCATED, "profile": "1g.10gb", "start": 0, "fraction": "0.5"},
        "fraction: and profile exclude",
    ),
    "fraction 0": ({**ALLOCATED, "fraction": 0}, "fraction: must be more than 0"),
    "fraction 1.5": ({**ALLOCATED, "fraction": "1.5"}, "fraction: must be more than 0 and at most 1"),
    "fraction 1e-9": ({**ALLOCATED, "fraction": "1e-9"}, "fraction: "),
    "unknown mark": ({**ALLOCATED, "quota": "borrowed"}, "quota: 'borrowed' is not known"),
    "unknown model": ({**NODE_UP, "model": "H100"}, "model: 'H100' is not in the catalogue"),
}


@pytest.mark.parametrize(("event", "says"), WRONG.values(), ids=WRONG)
def test_bad_form_is_named_with_file_line_and_key(event: Any, says: str) -> None:
    text = event if isinstance(event, str) else json.dumps(event)
    with pytest.raises(Invalid) as caught:
        list(read_events(f"{json.dumps(NODE_UP)}\n{text}\n".encode(), "f.jsonl"))
    assert str(caught.value).startswith("f.jsonl, line 2: ")
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"none\.jsonl cannot be read: No such file"):
        load_events(tmp_path / "none.jsonl")


def test_bytes_that_are_no_text_are_named_with_their_line() -> None:
    with pytest.raises(Invalid, match="f, line 1: not JSON"):
        list(read_events(b"\xff\xfe{}", "f"))


def test_a_row_of_the_ledger_is_the_same_event() -> None:
    row = SimpleNamespace(
        id="e", at=AT, event="allocated", job="j", attempt=1, node="n", gpu=0, team="t", project="p",
        facts={"quota": "guaranteed", "priority": 50, "fraction": "0.25"},
    )  # fmt: skip
    assert event_of_row(row) == one({**ALLOCATED, "quota": "guaranteed", "priority": 50, "fraction": 0.25})


def test_a_row_that_is_wrong_is_named() -> None:
    row = SimpleNamespace(
        id="e", at=AT, event="node-up", job=None, attempt=None, node="n", gpu=None, team=None, project=None,
        facts={"model": "H100-80", "gpus": 8},
    )  # fmt: skip
    with pytest.raises(Invalid, match="ledger, usage event e: the key 'capacity' is missing"):
        event_of_row(row)
