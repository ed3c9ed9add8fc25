"""The picture of the spot benchmark: what each policy pays, and the least that knowing the future allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import altair as alt

from benchmarks.look import BLACK, BLUE, GREEN, GREY, ORANGE, WIDE, styled

if TYPE_CHECKING:
    from benchmarks.spot import Line

PAINT: Final = {"gpufleet": BLUE, "greedy": ORANGE, "uniform-progress": GREEN, "spot": GREY}
SHAPES: Final = {"gpufleet": "circle", "greedy": "triangle-right", "uniform-progress": "diamond", "spot": "cross"}
KNOWING: Final = "future known"


def chart(lines: list[Line]) -> Any:
    """A row for each case; a number over a mark counts the deadlines missed."""
    rows = [
        {"case": _case(line), "policy": line.policy, "cost": line.mean, "missed": line.missed}
        for line in lines
        if line.policy in (*PAINT, KNOWING) and line.mean == line.mean
    ]
    order = list(dict.fromkeys(_case(line) for line in lines))
    names = list(PAINT)
    legend = alt.Legend(orient="bottom", columns=len(names))
    y = alt.Y("case:N", sort=order, title=None, axis=alt.Axis(grid=True, labelFontSize=12, tickBand="center"))
    tens = alt.Axis(values=[n / 10 for n in range(11)], format=".1f")
    x = alt.X("cost:Q", title="cost, on-demand only = 1", scale=alt.Scale(domain=[0, 1.05], nice=False), axis=tens)
    color = alt.Color("policy:N", title=None, scale=alt.Scale(domain=names, range=list(PAINT.values())), legend=legend)
    shape = alt.Shape("policy:N", title=None, scale=alt.Scale(domain=names, range=list(SHAPES.values())), legend=legend)
    known = f"datum.policy === '{KNOWING}'"
    base = alt.Chart(alt.Data(values=rows))
    marks = base.transform_filter(f"!({known})").mark_point(size=110, filled=True, opacity=0.9)
    least = base.transform_filter(known).mark_tick(thickness=3, size=26, color=BLACK)
    missed = base.transform_filter("datum.missed > 0").mark_text(dy=-13, fontSize=10, color=GREY)
    layers = [
        least.encode(x=x, y=y),
        marks.encode(x=x, y=y, color=color, shape=shape),
        missed.encode(x=x, y=y, text=alt.Text("missed:Q", format="d")),
    ]
    return styled(
        alt.layer(*layers).properties(width=WIDE, height=46 * len(order)),
        "What a deadline gang pays on spot, against on-demand only",
        "48 h of work, 60 h deadline, saves every 10 minutes, on the recorded H100 market; mean of thirty starts.\n"
        "Black stroke: the least with the future known. Grey numbers: deadlines missed of thirty; all others missed none.",
    )


def _case(line: Line) -> str:
    return f"{line.zones}, gang of {line.gang}"
