"""The break-even drawn: both lines month by month, and what one changed input does to the month they cross in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.procurement.break_even import BreakEven, Ownership
from gpufleet.procurement.sensitivity import CLAIM, Turned

BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#767676", "#222222"
"""Of Okabe and Ito: eyes that see no colour difference tell them apart."""
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDE, HIGH = 720, 250
SCALE: Final = 2
"""Picture points per pixel."""


def draw_break_even(asked: Ownership, found: BreakEven, turned: Iterable[Turned], path: Path) -> None:
    """Write a PNG; the same answer gives the same picture. Raises Invalid where the drawing libraries are missing or
    the file cannot be written."""
    try:
        import vl_convert
    except ImportError:
        raise Invalid("--chart needs altair and vl-convert: install the extra 'bench' (make setup-bench).") from None
    picture = vl_convert.vegalite_to_png(chart(asked, found, turned).to_dict(), scale=SCALE)
    try:
        path.write_bytes(picture)
    except OSError as why:
        raise Invalid(f"--chart: {path} cannot be written: {why.strerror}.") from None


def chart(asked: Ownership, found: BreakEven, turned: Iterable[Turned]) -> Any:
    """The whole sheet."""
    import altair as alt

    when = "not within the horizon" if found.months is None else f"after {float(found.months):.1f} months"
    head = alt.TitleParams(
        f"Owned against cloud: paid back {when}",
        subtitle=[
            f"{asked.hardware.gpus} GPUs, {float(asked.utilisation):.0%} of the hours used, thousands of {asked.currency}"
            f"{', present values' if asked.discount else ''}; the band is the claim of {CLAIM[0]} to {CLAIM[1]} months."
        ],
        anchor="start",
        offset=12,
    )
    both = alt.vconcat(_lines(asked, found), _ranges(asked, turned), spacing=22)
    return (
        both.properties(title=head, background="white", padding=14)
        .configure(font=FONT)
        .configure_title(fontSize=16, subtitleFontSize=12, subtitleColor="#555555", subtitlePadding=5, color=BLACK)
        .configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#E6E6E6")
        .configure_view(stroke=None)
    )


def _band(asked: Ownership) -> Any:
    import altair as alt

    ends = {"from": CLAIM[0], "to": min(CLAIM[1], asked.horizon)}
    rows = [ends] if asked.horizon > CLAIM[0] else []
    return alt.Chart(alt.Data(values=rows)).mark_rect(color="#F3E9C6", opacity=0.7).encode(x="from:Q", x2="to:Q")


def _lines(asked: Ownership, found: BreakEven) -> Any:
    """Cumulative cost of both, and where they cross."""
    import altair as alt

    rows = [
        {"month": m.number, "cost": float(cost) / 1000, "of": name}
        for m in found.curve
        for name, cost in (("owned", m.own_present), ("cloud", m.cloud_present))
    ]
    x = alt.X("month:Q", title="month", scale=alt.Scale(domain=[0, asked.horizon], nice=False))
    y = alt.Y("cost:Q", title=f"so far, thousands of {asked.currency}")
    paint = alt.Color("of:N", scale=alt.Scale(domain=["owned", "cloud"], range=[BLUE, ORANGE]), legend=None)
    line = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.5).encode(x, y, paint)
    ends = alt.Data(values=[r for r in rows if r["month"] == asked.horizon])
    names = (
        alt.Chart(ends).mark_text(align="left", dx=6, fontSize=12, fontWeight="bold").encode(x, y, paint, text="of:N")
    )
    layers = [_band(asked), line, names]
    if found.months is not None:
        layers.append(alt.Chart().mark_rule(color=GREY, strokeDash=[4, 3]).encode(x=alt.datum(float(found.months))))
    return alt.layer(*layers).properties(width=WIDE, height=HIGH)


def _ranges(asked: Ownership, turned: Iterable[Turned]) -> Any:
    """For each input the months its values give; what is not paid back within the horizon stands at its edge."""
    import altair as alt

    rows = [row for name, group in groupby(turned, lambda t: t.input) for row in _points(name, list(group), asked)]
    order = list(dict.fromkeys(str(row["input"]) for row in rows))
    x = alt.X(
        "months:Q", title="months to break-even, one input changed at a time (at the edge: not within the horizon)"
    )
    x.scale = alt.Scale(domain=[0, asked.horizon], nice=False)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x, alt.Y("input:N", sort=order, title=None, axis=alt.Axis(labelLimit=300))
    )
    spread = base.mark_line(color="#BBBBBB", strokeWidth=2).encode(detail="input:N")
    dots = base.transform_filter("!datum.given").mark_point(filled=True, size=55, opacity=1, color=BLUE)
    given = base.transform_filter("datum.given").mark_point(
        filled=True, size=75, opacity=1, color=BLACK, shape="diamond"
    )
    words = (
        base.transform_filter("datum.label != ''")
        .mark_text(dy=-10, fontSize=10, color="#444444")
        .encode(text="label:N")
    )
    return alt.layer(_band(asked), spread, dots, given, words).properties(width=WIDE, height=alt.Step(34))


def _points(name: str, group: list[Turned], asked: Ownership) -> list[dict[str, object]]:
    """A point each; the first and the last carry their value as a word."""
    return [
        {
            "input": name,
            "months": float(asked.horizon if one.months is None else one.months),
            "given": one.is_given,
            "label": f"{float(one.value):g}" if one in (group[0], group[-1]) else "",
        }
        for one in group
    ]
