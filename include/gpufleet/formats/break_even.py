"""The answer of `gpufleet break-even` as JSON, and as tables for a person."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from typing import Any

from gpufleet.procurement.break_even import BreakEven, Month, Ownership
from gpufleet.procurement.sensitivity import CLAIM, Claim, Turned


def decimals(value: Fraction, places: int = 2) -> str:
    """A decimal number, rounded half up (away from zero)."""
    units, sign = int(abs(value) * 10**places + Fraction(1, 2)), "-" if value < 0 else ""
    whole, rest = divmod(units, 10**places)
    return f"{sign if units else ''}{whole}.{rest:0{places}d}"


def to_json(asked: Ownership, found: BreakEven, told: Claim, turned: Iterable[Turned]) -> dict[str, Any]:
    """Money and months as decimal strings with two decimals, rounded half up; None where the horizon ends first."""
    return {
        "currency": asked.currency,
        "break_even_month": found.month,
        "break_even_months": _months(found.months),
        "capital": decimals(found.capital),
        "own_per_month": decimals(found.own_per_month),
        "cloud_per_month": decimals(found.cloud_per_month),
        "claim": {
            "months": list(CLAIM),
            "holds": told.holds,
            "utilisation_for": {
                str(CLAIM[0]): _share(told.utilisation_for_first),
                str(CLAIM[1]): _share(told.utilisation_for_last),
            },
        },
        "curves": [_month(month) for month in found.curve],
        "sensitivity": [_turned(one) for one in turned],
    }


def _month(month: Month) -> dict[str, Any]:
    return {
        "month": month.number,
        "own": decimals(month.own),
        "cloud": decimals(month.cloud),
        "own_present_value": decimals(month.own_present),
        "cloud_present_value": decimals(month.cloud_present),
    }


def _turned(one: Turned) -> dict[str, Any]:
    return {
        "input": one.input,
        "value": _plain(one.value),
        "given": one.is_given,
        "break_even_month": one.month,
        "break_even_months": _months(one.months),
    }


def _months(months: Fraction | None) -> str | None:
    return None if months is None else decimals(months)


def _share(value: Fraction | None) -> str | None:
    return None if value is None else decimals(value, 3)


def _plain(value: Fraction) -> str:
    """As a person would write it: 0.8, 1.125; what has no end is cut at six decimals."""
    return decimals(value, 6).rstrip("0").rstrip(".")


# ------------------------------------------------------------------ for a person


def break_even_lines(asked: Ownership, found: BreakEven, told: Claim, turned: Iterable[Turned]) -> list[str]:
    """The answer in a sentence, the amounts behind it, where both stand each half year, and what changes it."""
    return [
        _verdict(asked, found),
        "",
        *_amounts(asked, found),
        "",
        *_claim(told),
        "",
        *_years(found),
        "",
        *_turns(turned),
    ]


def _verdict(asked: Ownership, found: BreakEven) -> str:
    if found.months is None:
        return f"Owning is not paid back within {asked.horizon} months."
    return f"Owning is paid back after {decimals(found.months)} months: in month {found.month} of {asked.horizon}."


def _amounts(asked: Ownership, found: BreakEven) -> list[str]:
    parts = ", ".join(f"{_percent(p.share)} {p.name} at {_plain(p.per_gpu_hour)}" for p in asked.mix)
    rows = [
        ("capital, less salvage", decimals(found.capital), f"{asked.hardware.gpus} GPUs"),
        ("owned, each month", decimals(found.own_per_month), "colocation, power, support, staff, other"),
        ("cloud, in month 1", decimals(found.cloud_per_month), f"{_percent(asked.utilisation)} used; {parts}"),
    ]
    wide = max(len(amount) for _, amount, _ in rows)
    return [f"  {what:<22} {amount:>{wide}} {asked.currency}  ({why})" for what, amount, why in rows]


def _claim(told: Claim) -> list[str]:
    first, last = CLAIM
    verdict = "holds" if told.holds else "does not hold"
    needs = [_needed(first, told.utilisation_for_first), _needed(last, told.utilisation_for_last)]
    return [f"The claim of {first} to {last} months {verdict} here. By utilisation: {'; '.join(needs)}."]


def _needed(month: int, share: Fraction | None) -> str:
    return f"{month} months at {'none' if share is None else _percent(share) + ' of the hours'}"


def _percent(share: Fraction) -> str:
    return f"{_plain(Fraction(int(share * 1000 + Fraction(1, 2)), 10))} %"


def _years(found: BreakEven) -> list[str]:
    """Every half year, and the month of the break-even."""
    last = found.curve[-1].number
    shown = [m for m in found.curve if m.number % 6 == 0 or m.number in (found.month, last)]
    head = ("month", "owned so far", "cloud so far", "owned less cloud, present value")
    rows = [
        (
            f"{m.number}{' *' if m.number == found.month else ''}",
            decimals(m.own),
            decimals(m.cloud),
            decimals(m.own_present - m.cloud_present),
        )
        for m in shown
    ]
    return _columns([head, *rows])


def _turns(turned: Iterable[Turned]) -> list[str]:
    """An input a line, `value: months` side by side; the given value in brackets."""
    lines = ["Months to break-even with one input changed ([given], - = not within the horizon):"]
    for name, rows in groupby(turned, lambda one: one.input):
        group = list(rows)
        cells = [f"{_plain(one.value)}: {_months(one.months) or '-'}" for one in group]
        marked = [f"[{c}]" if one.is_given else c for c, one in zip(cells, group, strict=True)]
        lines.append(f"  {name:<30} {'  '.join(marked)}")
    return lines


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
