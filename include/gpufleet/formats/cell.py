"""A value of a YAML file that knows where it stands, so every error can name file, line and path.

Instants stay text and numbers stay exact: nothing is read in YAML's own float or timestamp.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpufleet.errors import Invalid, NotFound
from gpufleet.units import MIB_PER_GIB, duration

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=Enum)

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DEPTH = 30
"""Deeper nesting than any file of ours has."""
MOST = 10**12
"""Larger numbers are typing errors, and arithmetic with them may never end."""
FIRST_YEAR, LAST_YEAR = 1970, 2999
"""Instants keep away from the calendar's edges, so that no sum of an instant and a duration falls off them."""
MOST_BYTES = 64 * 1024 * 1024
"""A larger file is not one that a person or a script of theirs wrote for us."""
SHOWN = 60
"""Characters of a wrong value that an error repeats."""


class Cell:
    """One value with its place. Readers turn it into a fact or raise Invalid."""

    __slots__ = ("file", "line", "path", "raw", "tag")

    def __init__(self, file: str, path: str, line: int, raw: Any, tag: str) -> None:
        self.file, self.path, self.line, self.raw, self.tag = file, path, line, raw, tag

    def wrong(self, what: str) -> Invalid:
        """The error to raise about this value."""
        where = f"{_short(self.path)}: " if self.path else ""
        return Invalid(" ".join(f"{self.file}, line {self.line}: {where}{what}".split()))

    @property
    def shown(self) -> str:
        """The value as an error repeats it: of a mapping or a list only what it is, and never more than fits a line."""
        return {"map": "a mapping", "list": "a list"}.get(self.tag) or f"'{_short(str(self.raw))}'"

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
            raise self.wrong(f"must be true or false, not {self.shown}.")
        return str(self.raw).lower() in ("true", "yes", "on")

    def number(self, least: int = 0) -> Fraction:
        """An exact number, at least `least`."""
        if self.tag not in ("int", "float", "str"):
            raise self.wrong("must be a number.")
        if _EXPONENT.search(str(self.raw)):  # it may stand for a number that fills the memory
            raise self.wrong(f"{self.shown} is too large or too small a number.")
        try:
            found = Fraction(str(self.raw))
        except (ValueError, ZeroDivisionError):
            raise self.wrong(f"{self.shown} is not a number.") from None
        if found < least:
            raise self.wrong(f"must be at least {least}, not {_short(str(self.raw))}.")
        if found > MOST:
            raise self.wrong(f"{self.shown} is larger than {MOST}, the largest number there is here.")
        return found

    def integer(self, least: int = 0) -> int:
        found = self.number(least)
        if found.denominator != 1 or self.tag != "int":
            raise self.wrong(f"must be a whole number, not {self.shown}.")
        return int(found)

    def at_most(self, most: int, least: int = 0) -> int:
        """A whole number between two bounds."""
        found = self.integer(least)
        if found > most:
            raise self.wrong(f"must be at most {most}, not {self.raw}.")
        return found

    def mib(self) -> int:
        """GiB in the file, MiB in the model; rounded up, so a need never shrinks."""
        exact = self.number() * MIB_PER_GIB
        return -(-exact.numerator // exact.denominator)

    def instant(self) -> datetime:
        """An RFC 3339 instant with a zone, as UTC."""
        try:
            found = datetime.fromisoformat(self.text().replace("Z", "+00:00"))
        except ValueError:
            raise self.wrong(f"{self.shown} is not an instant; write it as 2026-01-01T00:00:00Z.") from None
        if found.tzinfo is None:
            raise self.wrong(f"{self.shown} has no time zone; write it as 2026-01-01T00:00:00Z.")
        if not FIRST_YEAR <= found.year <= LAST_YEAR:
            raise self.wrong(f"{self.shown} is outside the years {FIRST_YEAR} to {LAST_YEAR}.")
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
            raise self.wrong(f"{self.shown} is not known; it is one of {known}.") from None

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
                raise value.wrong(f"unknown key {key.shown}; known are {', '.join(sorted(allowed))}.")
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
            raise cell.wrong(f"{what} '{_short(name)}' appears twice.")
        seen.add(name)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


_EXPONENT = re.compile(r"[eE][+-]?\d{3,}")


# ---------------------------------------------------------------- reading a file


def read_text(source: Path) -> str:
    """The text of a file; raises NotFound or Invalid that name it. A file without end is not read to its end."""
    try:
        with source.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise Invalid(f"{source}: is larger than {MOST_BYTES >> 20} MiB.")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        raise NotFound(f"{source}: there is no such file.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{source}: cannot be read: it is not text in UTF-8.") from None
    except (OSError, ValueError) as why:
        raise Invalid(f"{source}: cannot be read: {getattr(why, 'strerror', None) or why}.") from None


def read(text: str, file: str) -> Cell:
    """The document of a YAML (or JSON) text."""
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.YAMLError as why:
        line = getattr(getattr(why, "problem_mark", None), "line", 0) + 1
        problem = getattr(why, "problem", None) or str(why)
        raise Invalid(f"{file}, line {line}: not YAML: {' '.join(problem.split())}.") from None
    except RecursionError:
        raise Invalid(f"{file}: nested too deeply.") from None
    if root is None:
        raise Invalid(f"{file}: the file is empty.")
    return _Reader(file, len(text)).cell(root, "", 0)


class _Reader:
    """Nodes to cells. Aliases are written out, but never to much more than was written (an alias bomb doubles)."""

    def __init__(self, file: str, characters: int) -> None:
        self.file = file
        self._left = 100_000 + 2 * characters

    def cell(self, node: Any, path: str, depth: int) -> Cell:
        line = node.start_mark.line + 1
        self._left -= 1
        if depth > DEPTH or self._left < 0:
            what = "nested too deeply" if depth > DEPTH else "its aliases (*) stand for too much"
            raise Invalid(f"{self.file}, line {line}: {_short(path)}: {what}.")
        if isinstance(node, yaml.MappingNode):
            return Cell(self.file, path, line, self._mapping(node, path, depth), "map")
        if isinstance(node, yaml.SequenceNode):
            inner = [self.cell(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(node.value)]
            return Cell(self.file, path, line, inner, "list")
        return Cell(self.file, path, line, node.value, node.tag.rsplit(":", 1)[-1])

    def _mapping(self, node: Any, path: str, depth: int) -> dict[str, tuple[Cell, Cell]]:
        found: dict[str, tuple[Cell, Cell]] = {}
        for key_node, value_node in node.value:
            key = self.cell(key_node, path, depth + 1)
            name = key.text()
            if name in found:
                raise key.wrong(f"the key '{_short(name)}' appears twice.")
            found[name] = (key, self.cell(value_node, f"{path}.{name}" if path else name, depth + 1))
        return found
