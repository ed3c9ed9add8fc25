"""JSON read with its types: every error is one sentence that names the file and what is wrong with it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NoReturn

VERSION: Final = 1
"""Of all four files. A reader refuses a version it does not know rather than guess."""


def dump_object(values: Mapping[str, object]) -> bytes:
    """The one spelling of *values*: sorted keys, no spaces, plain ASCII, a newline at the end."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{text}\n".encode()


def instant_text(at: datetime) -> str:
    """An aware instant in UTC, always with microseconds, so that equal instants are equal bytes."""
    if at.tzinfo is None:
        raise ValueError(f"The instant {at.isoformat()} has no time zone.")
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _instant(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _is_metric(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


LARGEST: Final = 2**63 - 1
"""What every database and language can hold; a larger step or size is damage, not a number."""


class Fields:
    """The keys of one JSON object; *where* names the file, and the place in it, in every complaint."""

    def __init__(self, where: str, values: object) -> None:
        if not isinstance(values, dict):
            raise ValueError(f"{where} is not a JSON object.")
        self._where = where
        self._values: dict[str, object] = values

    @classmethod
    def parse(cls, data: bytes, where: str) -> Fields:
        try:
            values = json.loads(data.decode(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{where} is not valid JSON: {error}.") from error
        return cls(where, values)

    def known_version(self) -> Fields:
        version = self.whole("version")
        if version != VERSION:
            raise ValueError(f"{self._where} has version {version}; this release reads version {VERSION}.")
        return self

    def has(self, key: str) -> bool:
        """Whether *key* is there and not null."""
        return self._values.get(key) is not None

    def text(self, key: str) -> str:
        value = self._values.get(key)
        return value if isinstance(value, str) else self._wrong(key, "a text")

    def text_or_none(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def whole(self, key: str, *, least: int = 0) -> int:
        value = self._values.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            self._wrong(key, f"a whole number of at least {least}")
        if value > LARGEST:
            self._wrong(key, f"a whole number of at most {LARGEST}")
        return value

    def whole_or_none(self, key: str, *, least: int = 0) -> int | None:
        return self.whole(key, least=least) if self.has(key) else None

    def number(self, key: str) -> float:
        """A finite number of at least zero."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.float_info.max:
            self._wrong(key, "a number of at least 0")
        return float(value)

    def instant(self, key: str) -> datetime:
        try:
            at = _instant(self.text(key))
            if at is None:
                self._wrong(key, "an ISO 8601 instant with a time zone")
            return at.astimezone(UTC)
        except OverflowError:  # the first or last hours of the calendar, in another zone
            self._wrong(key, "an instant between the years 1 and 9999")

    def instant_or_none(self, key: str) -> datetime | None:
        return self.instant(key) if self.has(key) else None

    def group(self, key: str) -> Fields:
        return Fields(f"{self._where}, '{key}',", self._values.get(key))

    def groups(self, key: str) -> tuple[Fields, ...]:
        values = self._values.get(key, [])
        if not isinstance(values, list):
            self._wrong(key, "a list")
        return tuple(Fields(f"{self._where}, '{key}' {at},", value) for at, value in enumerate(values))

    def metrics(self, key: str) -> dict[str, float | str | None]:
        """A flat object of numbers, texts and nulls; absent is empty."""
        values = self._values.get(key, {})
        if not isinstance(values, dict) or not all(map(_is_metric, values.values())):
            self._wrong(key, "a flat object of finite numbers and texts")
        return values

    def _wrong(self, key: str, want: str) -> NoReturn:
        got = json.dumps(self._values[key])[:60] if key in self._values else "missing"
        raise ValueError(f"{self._where}: '{key}' must be {want}; it is {got}.")
