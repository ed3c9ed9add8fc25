"""A bill as a story of a few lines: who took what when, what it costs, what the statement says.

    09:00 up n1 H100-80 8 reserved
    10:00 j1 takes n1:0 for vision/seg priority=50
    10:30 j1 lives on n1:0
    11:00 j1 leaves n1:0

Times are of 2026-03-10 UTC, `+1d 09:00` is the day after, `-1d 09:00` the day before. `attempt=2`, `slice=3g.20gb@4`,
`fraction=0.5`, `quota=over-quota` and `id=e7` may follow; without an id the line's number is it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from gpufleet.chargeback import bill
from gpufleet.formats.bill import to_json
from gpufleet.formats.events import parse_event
from gpufleet.formats.rates import rates_of
from gpufleet.model.usage import UsageEvent

LINE = re.compile(r"(?:(?P<days>[+-]\d)d )?(?P<time>\d\d:\d\d(?::\d\d)?) (?P<rest>.+)")
COLUMNS = {
    "hours": "gpu_hours",
    "over": "over_quota_gpu_hours",
    "usage": "usage_cost",
    "idle": "idle_cost",
    "commitment": "commitment_cost",
    "shared": "shared_cost",
    "total": "total",
}
DAY = date(2026, 3, 10)


@dataclass(frozen=True)
class Story:
    """One golden bill."""

    name: str
    events: list[UsageEvent]
    rates: dict[str, Any]
    days: int
    exact: bool
    by: tuple[str, ...]
    want: dict[str, Any]

    def told(self) -> dict[str, Any]:
        """The bill, as JSON."""
        end = date.fromordinal(DAY.toordinal() + self.days)
        return to_json(bill(self.events, rates_of(self.rates, "rates"), DAY, end, by=self.by, exact=self.exact))


def read_stories(folder: Path) -> Iterator[Story]:
    for path in sorted(folder.glob("*.yaml")):
        for name, story in yaml.safe_load(path.read_text()).items():
            known = {"why", "events", "rates", "days", "exact", "by", "want"}
            assert story.keys() <= known, f"{path.name}, {name}: {story.keys() - known}"
            rates = {"version": 1, "currency": "USD", "prices": [{"per_gpu_hour": "1"}], **story.get("rates", {})}
            by = tuple(story.get("by", "team,project").split(","))
            events = events_of(story.get("events", ""))
            yield Story(name, events, rates, story.get("days", 1), story.get("exact", False), by, story["want"])


def events_of(text: str) -> list[UsageEvent]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [parse_event(_event(line, f"e{n:02}"), line) for n, line in enumerate(lines, 1)]


def _event(line: str, id: str) -> dict[str, Any]:
    found = LINE.fullmatch(line)
    assert found, f"not a line of a story: {line}"
    day = date.fromordinal(DAY.toordinal() + int(found["days"] or 0))
    words = found["rest"].split()
    options = dict(w.split("=", 1) for w in words if "=" in w)
    event = {"id": id, "at": f"{day}T{found['time']}{'' if found['time'].count(':') == 2 else ':00'}Z"}
    return event | _what([w for w in words if "=" not in w]) | _options(options)


def _what(words: list[str]) -> dict[str, Any]:
    match words:
        case ["up", node, model, gpus, capacity]:
            return {"event": "node-up", "node": node, "model": model, "gpus": int(gpus), "capacity": capacity}
        case ["down", node]:
            return {"event": "node-down", "node": node}
        case [job, "takes", place, "for", payer]:
            team, _, project = payer.partition("/")
            return {"event": "allocated", **_held(job, place), "team": team, "project": project}
        case [job, "leaves", place]:
            return {"event": "released", **_held(job, place)}
        case [job, "lives", "on", place]:
            return {"event": "heartbeat", **_held(job, place)}
        case [node, "lives"]:
            return {"event": "heartbeat", "node": node}
        case _:
            raise AssertionError(f"not a story: {words}")


def _held(job: str, place: str) -> dict[str, Any]:
    node, _, gpu = place.partition(":")
    return {"job": job, "attempt": 1, "node": node, "gpu": int(gpu)}


def _options(options: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = dict(options)
    for name in ("attempt", "priority", "start"):
        if name in found:
            found[name] = int(found[name])
    if "slice" in found:
        profile, _, start = found.pop("slice").partition("@")
        found |= {"profile": profile, "start": int(start)}
    return found


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer in the words of `want`: what is nothing is left out."""
    lines = {
        line["team"] + ("" if line["project"] is None else f"/{line['project']}"): {
            word: line[key] for word, key in COLUMNS.items() if float(line[key])
        }
        for line in answer["lines"]
    }
    rest = {
        name: {w: answer[name][k] for w, k in (("hours", "gpu_hours"), ("cost", "cost"))}
        for name in ("idle", "unused_commitment")
    }
    found: dict[str, Any] = {"lines": lines, "total": answer["total"]}
    found |= {
        name: {w: v for w, v in part.items() if float(v)}
        for name, part in rest.items()
        if any(map(float, part.values()))
    }
    if answer["quarantined"]:
        found["aside"] = [q["id"] for q in answer["quarantined"]]
    return found


def as_bytes(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode()
