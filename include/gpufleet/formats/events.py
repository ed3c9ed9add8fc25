"""Usage events: a file of JSON lines, or rows of the ledger, to frozen facts. Errors name file, line and key (rule 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.model.catalogue import gpu_models
from gpufleet.model.usage import Allocated, Heartbeat, NodeDown, NodeUp, QuotaMark, Released, UsageEvent

INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
DECIMAL: Final = re.compile(r"\d{1,40}(\.\d{1,40})?", re.ASCII)
LARGEST: Final = 10**9
"""Far above any attempt, GPU index, GPU count or priority; keeps a slip of the keyboard from becoming arithmetic."""


def instant(text: str) -> datetime:
    """An RFC 3339 instant with a zone and at most six fractional digits, as UTC (rule 1)."""
    if not INSTANT.fullmatch(text):
        raise Invalid(f"'{text}' is not an instant with a zone; write it as 2026-03-10T23:30:00Z.")
    try:
        return datetime.fromisoformat(text.upper().replace("Z", "+00:00")).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Invalid(f"'{text}' is not an instant: there is no such date or time.") from None


class Told:
    """One event as it was told, with its place; every reader names the key it stumbles over."""

    __slots__ = ("_raw", "_where")

    def __init__(self, raw: Mapping[str, Any], where: str) -> None:
        self._raw, self._where = raw, where

    def __contains__(self, key: str) -> bool:
        return key in self._raw

    def wrong(self, key: str, what: str) -> Invalid:
        return Invalid(f"{self._where}: {key}: {what}")

    def only(self, known: frozenset[str]) -> None:
        """No other keys; raises Invalid that names the first other one."""
        if not self._raw.keys() <= known:
            key = next(k for k in self._raw if k not in known)
            raise Invalid(f"{self._where}: unknown key '{key}'; known are {', '.join(sorted(known))}.")

    def text(self, key: str, *, may_be_empty: bool = False) -> str:
        value = self._value(key)
        if isinstance(value, str) and (value or may_be_empty) and (value.isascii() or _is_unicode(value)):
            return value
        raise self.wrong(key, "must be text.")

    def number(self, key: str, least: int) -> int:
        """A whole number; 1.0 is one, "1" and true are none."""
        value = self._value(key)
        whole = isinstance(value, Decimal) and value.adjusted() < 10 and value == value.to_integral_value()
        if not whole and (not isinstance(value, int) or isinstance(value, bool)):
            raise self.wrong(key, "must be a whole number.")
        if not least <= value <= LARGEST:
            raise self.wrong(key, f"must be from {least} to {LARGEST}, not {value}.")
        return int(value)

    def fraction(self, key: str) -> Fraction:
        """More than 0, at most 1; exact, as text or as a number."""
        value = self._value(key)
        if isinstance(value, Decimal) and -40 < value.adjusted() < 40:
            value = f"{value:f}"
        text = str(value)
        if isinstance(value, bool) or not isinstance(value, int | str) or not DECIMAL.fullmatch(text):
            raise self.wrong(key, f"'{text[:60]}' is not a plain number; write it as \"0.25\".")
        if not 0 < Fraction(text) <= 1:
            raise self.wrong(key, f"must be more than 0 and at most 1, not {text}.")
        return Fraction(text)

    def instant(self, key: str) -> datetime:
        try:
            return instant(self.text(key))
        except Invalid as why:
            raise self.wrong(key, str(why)) from None

    def mark(self, key: str) -> QuotaMark:
        value = self._value(key)
        if value not in list(QuotaMark):
            raise self.wrong(key, f"'{value}' is not known; it is {' or '.join(QuotaMark)}.")
        return QuotaMark(value)

    def _value(self, key: str) -> Any:
        if key not in self._raw:
            raise Invalid(f"{self._where}: the key '{key}' is missing.")
        return self._raw[key]


def _is_unicode(text: str) -> bool:
    """JSON can spell half a character, which no file and no terminal can show."""
    return not any("\ud800" <= c <= "\udfff" for c in text)


# ---------------------------------------------------------------- one reader for each kind of event


def _allocated(told: Told) -> Allocated:
    for key, other in (("profile", "start"), ("start", "profile")):
        if key in told and other not in told:
            raise told.wrong(key, f"needs the key '{other}' beside it.")
    if "profile" in told and "fraction" in told:
        raise told.wrong("fraction", "and profile exclude each other: a share or a MIG slice.")
    return Allocated(
        *_head(told),
        told.text("job"),
        told.number("attempt", 1),
        told.text("team"),
        told.text("project", may_be_empty=True),
        told.number("gpu", 0),
        profile=told.text("profile") if "profile" in told else None,
        start=told.number("start", 0) if "start" in told else None,
        fraction=told.fraction("fraction") if "fraction" in told else None,
        quota=told.mark("quota") if "quota" in told else None,
        priority=told.number("priority", -LARGEST) if "priority" in told else None,
    )


def _released(told: Told) -> Released:
    start = told.number("start", 0) if "start" in told else None
    return Released(*_head(told), told.text("job"), told.number("attempt", 1), told.number("gpu", 0), start)


def _heartbeat(told: Told) -> Heartbeat:
    if not any(key in told for key in ("job", "attempt", "gpu")):
        return Heartbeat(*_head(told))
    return Heartbeat(*_head(told), (told.text("job"), told.number("attempt", 1), told.number("gpu", 0)))


def _node_up(told: Told) -> NodeUp:
    model = told.text("model")
    if model not in gpu_models():
        raise told.wrong("model", f"'{model}' is not in the catalogue; known are {', '.join(sorted(gpu_models()))}.")
    return NodeUp(
        *_head(told),
        model,
        told.number("gpus", 0),
        told.text("capacity"),
        provider=told.text("provider", may_be_empty=True) if "provider" in told else None,
        region=told.text("region", may_be_empty=True) if "region" in told else None,
    )


def _node_down(told: Told) -> NodeDown:
    return NodeDown(*_head(told))


def _head(told: Told) -> tuple[str, datetime, str]:
    return told.text("id"), told.instant("at"), told.text("node")


_ALL = "id at event node"
KINDS: Final[Mapping[str, tuple[Callable[[Told], UsageEvent], frozenset[str]]]] = {
    kind: (read, frozenset(f"{_ALL} {keys}".split()))
    for kind, read, keys in (
        ("allocated", _allocated, "job attempt team project gpu profile start fraction quota priority"),
        ("released", _released, "job attempt gpu start"),
        ("heartbeat", _heartbeat, "job attempt gpu"),
        ("node-up", _node_up, "model gpus capacity provider region"),
        ("node-down", _node_down, ""),
    )
}
"""What each kind of event is read by, and the keys it may have."""


def parse_event(raw: Mapping[str, Any], where: str) -> UsageEvent:
    """One event; `where` is its place for the error, such as `events.jsonl, line 3`."""
    told = Told(raw, where)
    kind = told.text("event")
    if kind not in KINDS:
        raise told.wrong("event", f"'{kind}' is not known; it is one of {', '.join(KINDS)}.")
    read, keys = KINDS[kind]
    told.only(keys)
    return read(told)


# ---------------------------------------------------------------- a file, a ledger


def load_events(path: Path) -> list[UsageEvent]:
    """The events of a file of JSON lines; raises Invalid that names file, line and key."""
    try:
        data = path.read_bytes()
    except OSError as why:
        raise Invalid(f"{path} cannot be read: {why.strerror}.") from None
    return list(read_events(data, str(path)))


def read_events(data: bytes, file: str) -> Iterator[UsageEvent]:
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if line.strip():
            where = f"{file}, line {number}"
            yield parse_event(_object(line, where), where)


def event_of_row(row: Any) -> UsageEvent:
    """A row of the ledger; what its kind does not have as a column stands in `facts`."""
    columns = {k: getattr(row, k) for k in ("id", "event", "job", "attempt", "node", "gpu", "team", "project")}
    told = {k: v for k, v in columns.items() if v is not None} | {"at": row.at.isoformat()} | dict(row.facts)
    return parse_event(told, f"ledger, usage event {row.id}")


def _object(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        value = _DECODER.decode(line.decode().strip())
    except (ValueError, RecursionError) as why:
        raise Invalid(f"{where}: not JSON: {why}.") from None
    if not isinstance(value, dict):
        raise Invalid(f"{where}: must be one JSON object.")
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"a key appears twice among {', '.join(sorted(k for k, _ in pairs))}")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a number")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_float=Decimal, parse_constant=_no_number)
