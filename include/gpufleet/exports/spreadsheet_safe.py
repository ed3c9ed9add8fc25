"""Names that a spreadsheet would run as formulas."""

from __future__ import annotations

from typing import Final

FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def tame(cell: str) -> str:
    """The text with an apostrophe in front where a spreadsheet would run it; not for numbers, which may be below 0."""
    return f"'{cell}" if cell.startswith(FORMULA) else cell
