"""A value of a YAML file that knows where it stands, so every error can name file, line and path.

Instants stay text and numbers stay exact: nothing is read in YAML's own float or timestamp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from fractions import Fraction
from typing import Any, TypeVar

import yaml

from gpufleet.errors import Invalid
from gpufleet.units import MIB_PER_GIB, duration

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=Enum)

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEPTH = 30
"""Deeper nesting than any file of ours has."""


class Cell:
    """One value with its place. Readers turn it into a fact or raise Invalid."""

    __slots__ = ("file", "line", "path", "raw", "tag")

    def __init__(self, file: str, path: str, line: int, raw: Any, tag: str) -> None:
        self.file, self.path, self.line, self.raw, self.tag = file, path, line, raw, tag

    def wrong(self, what: str) -> Invalid:
        """The error to raise about this value."""
        where = f"{self.path}: " if self.path else ""
        return Invalid(f"{self.file}, line {self.line}: {where}{what}")

    @property
    def is_empty(self) -> bool:
        return self.tag == "null"

    def text(self) -> str:
        """A non-empty word; a number may serve as a name."""
        if self.tag in ("map", "list", "null") or not str(self.raw):
            raise self.wrong("must be text.")
        return str(self.raw)

    def boolean(self) -> bool:
        if self.tag != "bool":
            raise self.wrong(f"must be true or false, not '{self.raw}'.")
        return str(self.raw).lower() in ("true", "yes", "on")

    def number(self, least: int = 0) -> Fraction:
        """An exact number, at least `least`."""
        if self.tag not in ("int", "float", "str"):
            raise self.wrong("must be a number.")
        try:
            found = Fraction(str(self.raw))
        except (ValueError, ZeroDivisionError):
            raise self.wrong(f"'{self.raw}' is not a number.") from None
        if found < least:
            raise self.wrong(f"must be at least {least}, not {self.raw}.")
        return found

    def integer(self, least: int = 0) -> int:
        found = self.number(least)
        if found.denominator != 1 or self.tag != "int":
            raise self.wrong(f"must be a whole number, not '{self.raw}'.")
        return int(found)

    def mib(self) -> int:
        """GiB in the file, MiB in the model; rounded up, so a need never shrinks."""
        exact = self.number() * MIB_PER_GIB
        return -(-exact.numerator // exact.denominator)

    def instant(self) -> datetime:
        """An RFC 3339 instant with a zone, as UTC."""
        try:
            found = datetime.fromisoformat(self.text().replace("Z", "+00:00"))
        except ValueError:
            raise self.wrong(f"'{self.raw}' is not an instant; write it as 2026-01-01T00:00:00Z.") from None
        if found.tzinfo is None:
            raise self.wrong(f"'{self.raw}' has no time zone; write it as 2026-01-01T00:00:00Z.")
        return found.astimezone(UTC)

    def span(self) -> timedelta:
        try:
            return duration(self.text())
        except Invalid as why:
            raise self.wrong(str(why)) from None

    def choice(self, kind: type[E]) -> E:
        """One of an enumeration's words."""
        try:
            return kind(self.text())
        except ValueError:
            known = ", ".join(str(k.value) for k in kind)
            raise self.wrong(f"'{self.raw}' is not known; it is one of {known}.") from None

    def cells(self) -> list[Cell]:
        if self.tag != "list":
            raise self.wrong("must be a list.")
        return list(self.raw)

    def pairs(self) -> list[tuple[Cell, Cell]]:
        """Keys and values of a mapping with free keys."""
        if self.tag != "map":
            raise self.wrong("must be a mapping.")
        return list(self.raw.values())

    def fields(self, known: Iterable[str]) -> Fields:
        """A mapping with these keys and no others."""
        allowed = set(known)
        for key, value in self.pairs():
            if key.text() not in allowed:
                raise value.wrong(f"unknown key '{key.raw}'; known are {', '.join(sorted(allowed))}.")
        return Fields(self)


class Fields:
    """The values of a mapping by key."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self._values: dict[str, Cell] = {name: value for name, (_, value) in cell.raw.items() if not value.is_empty}

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Cell:
        """The value; raises Invalid that names the missing key."""
        if key not in self._values:
            raise self.cell.wrong(f"the key '{key}' is missing.")
        return self._values[key]

    def get(self, key: str, read: Callable[[Cell], T], default: D) -> T | D:
        """The value as `read` makes it, or the default where the key is absent."""
        return read(self._values[key]) if key in self._values else default

    def cells(self, key: str) -> list[Cell]:
        """The list under the key; none where it is absent."""
        return self._values[key].cells() if key in self._values else []


def names(cell: Cell) -> tuple[str, ...]:
    """A list of words."""
    return tuple(c.text() for c in cell.cells())


def unique(cells: Sequence[tuple[str, Cell]], what: str) -> None:
    """Raise Invalid at the second of two equal names."""
    seen: set[str] = set()
    for name, cell in cells:
        if name in seen:
            raise cell.wrong(f"{what} '{name}' appears twice.")
        seen.add(name)


# ---------------------------------------------------------------- reading a file


def read(text: str, file: str) -> Cell:
    """The document of a YAML (or JSON) text."""
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as why:
        line = getattr(getattr(why, "problem_mark", None), "line", 0) + 1
        problem = getattr(why, "problem", None) or str(why)
        raise Invalid(f"{file}, line {line}: not YAML: {problem}.") from None
    if root is None:
        raise Invalid(f"{file}: the file is empty.")
    return _cell(root, file, "", 0)


def _cell(node: Any, file: str, path: str, depth: int) -> Cell:
    line = node.start_mark.line + 1
    if depth > DEPTH:
        raise Invalid(f"{file}, line {line}: {path}: nested too deeply.")
    if isinstance(node, yaml.MappingNode):
        return Cell(file, path, line, _mapping(node, file, path, depth), "map")
    if isinstance(node, yaml.SequenceNode):
        inner = [_cell(v, file, f"{path}[{i}]", depth + 1) for i, v in enumerate(node.value)]
        return Cell(file, path, line, inner, "list")
    return Cell(file, path, line, node.value, node.tag.rsplit(":", 1)[-1])


def _mapping(node: Any, file: str, path: str, depth: int) -> dict[str, tuple[Cell, Cell]]:
    found: dict[str, tuple[Cell, Cell]] = {}
    for key_node, value_node in node.value:
        key = _cell(key_node, file, path, depth + 1)
        name = key.text()
        if name in found:
            raise key.wrong(f"the key '{name}' appears twice.")
        found[name] = (key, _cell(value_node, file, f"{path}.{name}" if path else name, depth + 1))
    return found
