"""Charts of the results, drawn by vl-convert without a browser: the same results give the same pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import altair as alt

from benchmarks.figures import OURS, by_seed, openb_gain
from benchmarks.fleet_charts import serving, throughput, waits
from benchmarks.known import Known
from benchmarks.look import BLACK, BLUE, GREEN, GREY, ORANGE, WIDE, Row, decades, panel_title, styled
from benchmarks.published import mean_curve
from benchmarks.ranges import range_of, read_ranges
from benchmarks.tables import WORDS, time_of

LINES: Final = {"gpufleet": BLUE, "FGD": ORANGE, "best fit": GREEN}
PUBLISHED: Final = {"FGD": "fgd", "best fit": "bestfit"}
FROM: Final = 85
"""Percent of arrivals where policies begin to differ."""


def curves(known: Known) -> Any:
    """How much of the GPUs is given out as more is asked for, each workload on its own scale."""
    panels = [_curve(known, workload) for workload in known.groups("openb")]
    chart = alt.concat(*panels, columns=3, spacing=22).resolve_scale(color="shared")
    return styled(
        chart,
        "GPUs given out as pods arrive, openb, five workloads",
        "1,213 nodes, 6,212 GPUs, nothing departs or moves; mean of ten seeds; FGD and best fit as published, the mix known.\n"
        "Dashed: the ceiling (a linear program) for rules that accept what gpufleet accepts until it first refuses.",
    )


def _curve(known: Known, workload: str) -> Any:
    told = known.result(f"openb.{workload}.known")
    lines = {name: mean_curve(workload, rule, by_seed(told, "1.3")) for name, rule in PUBLISHED.items()}
    lines["gpufleet"] = {int(share): value for share, value in told["curve"].items()}
    rows: list[Row] = [
        {"arrived": share, "given": value, "policy": policy}
        for policy, line in lines.items()
        for share, value in line.items()
        if share >= FROM
    ]
    ceiling = known.result(f"ceiling.{workload}")["mean"]
    # the upper end is between two numbers, so that no label sticks out and panels stand in line
    ends = [math.floor(min(r["given"] for r in rows)), math.ceil(ceiling) + 0.4]
    colour = alt.Scale(domain=list(LINES), range=list(LINES.values()))
    span, few = alt.Scale(domain=[FROM, 130], nice=False), alt.Axis(tickCount=5)
    x = alt.X("arrived:Q", title="asked for, % of all GPUs", scale=span, axis=few)
    y = alt.Y("given:Q", title="given out, %", scale=alt.Scale(domain=ends, nice=False), axis=alt.Axis(tickCount=6))
    paint = alt.Color("policy:N", scale=colour, title=None, legend=alt.Legend(orient="bottom", symbolType="stroke"))
    line = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(x, y, paint)
    last = [{**r, "text": f"{r['given']:.1f}"} for r in rows if r["arrived"] == 130]
    end = alt.Chart(alt.Data(values=last)).mark_text(align="left", dx=4, fontSize=11).encode(x, y, paint, text="text:N")
    layers = [line, end]
    top = alt.Chart(alt.Data(values=[{"given": ceiling}]))
    layers.append(top.mark_rule(strokeDash=[4, 3], color=GREY, strokeWidth=1.3).encode(y=y))
    return alt.layer(*layers).properties(width=195, height=200, title=panel_title(workload))


def gains(known: Known) -> Any:
    """Every seed's lead over FGD on the same arrivals."""
    rows = [
        {"workload": w, "mix": f"mix {name}", "asked": f"at {mark} % of arrivals", "gain": value, "seed": seed}
        for w in known.groups("openb")
        for name in OURS
        for mark in (100, 130)
        for seed, value in openb_gain(w, known.result(f"openb.{w}.{name}"), mark).by_seed.items()
    ]
    order = known.groups("openb")
    paint = alt.Color(
        "mix:N",
        scale=alt.Scale(domain=[f"mix {n}" for n in OURS], range=[BLUE, ORANGE]),
        title=None,
        legend=alt.Legend(orient="bottom", symbolType="circle"),
    )
    y = alt.Y("workload:N", sort=order, title=None)
    offset = alt.YOffset("mix:N", sort=[f"mix {n}" for n in OURS])
    base = alt.Chart().encode(y, yOffset=offset)
    x = alt.X("gain:Q", title="percentage points of all GPUs over FGD on the same arrivals")
    dots = base.mark_circle(size=42, opacity=0.6).encode(x, color=paint)
    mean = base.mark_tick(thickness=2.5, size=17).encode(alt.X("mean(gain):Q"), color=paint)
    zero = alt.Chart().mark_rule(color=BLACK, strokeWidth=1).encode(x=alt.datum(0))
    panels = (
        alt.layer(zero, dots, mean, data=alt.Data(values=rows))
        .properties(width=WIDE // 2 - 20, height=alt.Step(17))
        .facet(column=alt.Column("asked:N", title=None, sort=["at 100 % of arrivals", "at 130 % of arrivals"]))
    )
    return styled(
        panels,
        "What gpufleet gives out more than FGD, seed by seed",
        "openb, seeds 42 to 51; a dot is one seed, a tick the mean. Right of the black line gpufleet gives out more.",
    )


# ---------------------------------------------------------------- speed


def speed(known: Known) -> Any:
    """Each figure as a multiple of the fixed work, and the bound that `make bench` holds it to."""
    ranges = read_ranges("full")
    rows = []
    for timed in known.result("speed")["figures"]:
        its, told = range_of(f"speed.{timed['name']}", ranges), time_of(timed["seconds"])
        rows.append({"figure": WORDS[timed["name"]], "times": timed["times"], "most": its and its.most, "text": told})
    base = alt.Chart(alt.Data(values=rows)).encode(
        alt.Y("figure:N", sort=list(WORDS.values()), title=None, axis=alt.Axis(labelLimit=480))
    )
    x = decades(alt.X, "times:Q", "multiples of the fixed work (log scale)")
    x.scale = alt.Scale(type="log", domain=[3e-5, 100], nice=False)  # room for words left of the quickest
    dots = base.mark_point(filled=True, size=90, opacity=1, color=BLUE).encode(x)
    words = base.mark_text(align="right", dx=-9, fontSize=11, color=BLUE).encode(x, text="text:N")
    most = (
        base.transform_filter("isValid(datum.most)")
        .mark_tick(color=ORANGE, thickness=2.5, size=16)
        .encode(alt.X("most:Q"))
    )
    return styled(
        alt.layer(dots, words, most).properties(width=WIDE - 410, height=alt.Step(30)),
        "How fast the engine decides",
        "Words: processor time as measured. Dots: the same as multiples of a fixed piece of work. Orange: the bound.",
    )


CHARTS: Final[dict[str, Callable[[Known], Any]]] = {
    "curves": curves,
    "gains": gains,
    "throughput": throughput,
    "waits": waits,
    "serving": serving,
    "speed": speed,
}
"""By the name of their picture."""
