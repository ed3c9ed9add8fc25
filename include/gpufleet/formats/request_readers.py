"""One reader for each kind of value in a request. Each takes the key and the value, and refuses with one sentence."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.workload import Kind, Workload
from gpufleet.units import duration, mib

PRIORITIES: Final = range(0, 1001)
MOST: Final = 100_000_000
"""No count or MiB of a request is larger; far above any fleet, far below what a column holds."""
LONGEST_TEXT: Final = 10_000


def text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{key} must be text, not {short(value)}.")
    return clean(key, value.strip())


def clean(key: str, text: str) -> str:
    """Text that every database, file system and process takes."""
    if len(text) > LONGEST_TEXT or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
        raise Invalid(f"{key} must be plain text of at most {LONGEST_TEXT} characters, without NUL or half characters.")
    return text


def short(value: Any) -> str:
    """A wrong value as it may be shown: never a page of it, never a character a terminal cannot print."""
    return ascii(value)[:60]


def positive(key: str, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST:
        raise Invalid(f"{key} must be a whole number above 0 and at most {MOST}, not {short(value)}.")
    return value


def priority(key: str, value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value.strip(), re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid(f"{key} must be a whole number, not {short(value)}.")
    if value not in PRIORITIES:
        raise Invalid(f"{key} must be from 0 to 1000, not {short(value)}.")
    return value


def flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(f"{key} must be true or false, not {short(value)}.")
    return value


def memory(key: str, value: Any) -> int:
    try:
        need = mib(value)
    except (ValueError, ZeroDivisionError, TypeError):
        raise Invalid(f"{key} must be a number of GiB, not {short(value)}.") from None
    if not 0 < need <= MOST or isinstance(value, bool):
        raise Invalid(f"{key} must be above 0 GiB and no more than there is, not {short(value)}.")
    return need


def words(key: str, value: Any) -> tuple[str, ...]:
    words = [w.strip() for w in value.split(",")] if isinstance(value, str) else value
    if not isinstance(words, list | tuple) or not all(isinstance(w, str) and w for w in words):
        raise Invalid(f"{key} must be a list of names, not {short(value)}.")
    return tuple(clean(key, w) for w in words)


def command(key: str, value: Any) -> tuple[str, ...]:
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as e:
        raise Invalid(f"{key} cannot be read as a command line: {e}.") from None
    if not isinstance(words, list | tuple) or not words or not all(isinstance(w, str) for w in words) or not words[0]:
        raise Invalid(f"{key} must be a command line or a list of words, not {short(value)}.")
    return tuple(clean(key, w) for w in words)


def env(key: str, value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{key} must map names to values, not {short(value)}.")
    for name, content in value.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise Invalid(f"{key} has '{short(name)[1:-1]}', which is not the name of an environment variable.")
        if not isinstance(content, str | int | float) or isinstance(content, bool):
            raise Invalid(f"{key}: the value of {name} must be text or a number, not {short(content)}.")
    return tuple(sorted((name, clean(key, str(content))) for name, content in value.items()))


def kind(key: str, value: Any) -> Kind:
    if not isinstance(value, str) or value not in set(Kind):
        raise Invalid(f"{key} must be one of {', '.join(Kind)}, not {short(value)}.")
    return Kind(value)


def capacity(key: str, value: Any) -> tuple[CapacityType, ...]:
    asked = words(key, value)
    for word in asked:
        if word not in set(CapacityType):
            raise Invalid(f"{key} must be among {', '.join(CapacityType)}, not {short(word)}.")
    return tuple(CapacityType(w) for w in asked)


def models(key: str, value: Any) -> tuple[str, ...]:
    return tuple(gpu_model(name).name for name in words(key, value))


def length(key: str, value: Any) -> timedelta:
    try:
        length = duration(f"{value}s" if isinstance(value, int | float) and not isinstance(value, bool) else str(value))
    except Invalid as e:
        raise Invalid(f"{key}: {e}") from None
    if length <= timedelta(0):
        raise Invalid(f"{key} must be longer than 0, not {short(value)}.")
    return length


def instant(key: str, value: Any) -> datetime:
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise Invalid(f"{key} must be an instant such as 2026-03-10T18:00:00Z, not {short(value)}.") from None
    if at.tzinfo is None:
        raise Invalid(f"{key} must say its zone, such as 2026-03-10T18:00:00Z, not {short(value)}.")
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise Invalid(f"{key} is beyond the calendar: {short(value)}.") from None


WORKLOAD_KEYS: Final = ("workload", "batch", "sequence")
LONGEST_NAME: Final = 200
"""What the store keeps of a workload's name."""


def workload(key: str, value: Any) -> Workload:
    """`{workload: NAME, batch: 2, sequence: 2048}`, or in one line `NAME; batch 2; sequence 2048`."""
    if isinstance(value, str):
        value = _workload_words(value)
    if not isinstance(value, Mapping):
        raise Invalid(f"{key} must name a workload with its batch and sequence, not {short(value)}.")
    unknown = sorted(str(k) for k in value if k not in WORKLOAD_KEYS)
    if unknown:
        raise Invalid(f"{key} has the key {short(unknown[0])}; known are {', '.join(WORKLOAD_KEYS)}.")
    name = text(f"{key}.workload", value.get("workload", ""))
    if not 0 < len(name) <= LONGEST_NAME:
        raise Invalid(f"{key}.workload must name the workload in at most {LONGEST_NAME} characters.")
    batch, sequence = (positive(f"{key}.{size}", value.get(size, 1)) for size in WORKLOAD_KEYS[1:])
    return Workload(name, batch, sequence)


def _workload_words(line: str) -> dict[str, str]:
    name, *sizes = (part.strip() for part in line.split(";"))
    return {"workload": name} | {size.partition(" ")[0]: size.partition(" ")[2] for size in sizes}
