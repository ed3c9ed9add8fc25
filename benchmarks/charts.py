"""Charts of the results (Vega-Altair, drawn by vl-convert without a browser): the same results give the same pictures.

Colours are those of Okabe and Ito, told apart by colour-blind eyes; ours is blue in every chart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import altair as alt

from benchmarks.figures import OURS, bound_of, is_ours, openb_gain
from benchmarks.known import Known
from benchmarks.ranges import range_of, read_ranges
from benchmarks.tables import HOUR, WORDS

BLUE, ORANGE, GREEN, GREY, SKY, BLACK = "#0072B2", "#D55E00", "#009E73", "#767676", "#56B4E9", "#222222"
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDE: Final = 760
"""Pixels of a chart's plot; pictures are twice as fine."""

Row = dict[str, Any]


def styled(chart: Any, title: str, subtitle: str) -> Any:
    """The house's look: a white sheet, thin grey lines, a title that says what is seen."""
    head = alt.TitleParams(title, subtitle=subtitle.split("\n"), anchor="start", offset=14)
    return (
        chart.properties(title=head, background="white", padding=14)
        .configure(font=FONT)
        .configure_title(fontSize=16, subtitleFontSize=12, subtitleColor="#555555", subtitlePadding=5, color=BLACK)
        .configure_axis(
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor="#E6E6E6",
            domainColor="#888888",
            tickColor="#888888",
            labelColor="#333333",
            titleColor="#333333",
        )
        .configure_view(stroke=None)
        .configure_header(labelFontSize=12, labelFontWeight="bold", labelColor=BLACK)
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolStrokeWidth=3, labelLimit=400)
    )


def _title(words: str) -> Any:
    """Of one panel among several."""
    return alt.TitleParams(words, fontSize=12, anchor="start", frame="group", offset=6)


def _decades(channel: Any, field: str, title: str) -> Any:
    """A logarithmic axis with a line at every power of ten."""
    axis = alt.Axis(values=[10**power for power in range(-6, 7)], format="~g")
    return channel(field, title=title, scale=alt.Scale(type="log"), axis=axis)


# ---------------------------------------------------------------- openb

LINES: Final = {"gpufleet": ("known", BLUE), "FGD": ("fgd", ORANGE), "best fit": ("bestfit", GREEN)}
FROM: Final = 85
"""Percent of arrivals where policies begin to differ."""


def curves(known: Known) -> Any:
    """How much of the GPUs is given out as more is asked for, each workload on its own scale."""
    panels = [_curve(known, workload) for workload in known.groups("openb")]
    chart = alt.concat(*panels, columns=3, spacing=22).resolve_scale(color="shared")
    return styled(
        chart,
        "GPUs given out as pods arrive, openb, five workloads",
        "1,213 nodes, 6,212 GPUs, nothing departs or moves; mean of ten seeds. Dashed: the ceiling of a linear program\n"
        "for rules that accept what ours accepts until its first refusal. The mix is known to gpufleet, as it is to FGD.",
    )


def _curve(known: Known, workload: str) -> Any:
    rows = [
        {"arrived": int(share), "given": value, "policy": policy}
        for policy, (name, _) in LINES.items()
        for share, value in known.result(f"openb.{workload}.{name}")["curve"].items()
        if int(share) >= FROM
    ]
    ceiling = known.result(f"ceiling.{workload}")["mean"]
    # the upper end is between two numbers, so that no label sticks out and panels stand in line
    ends = [math.floor(min(r["given"] for r in rows)), math.ceil(ceiling) + 0.4]
    colour = alt.Scale(domain=list(LINES), range=[c for _, c in LINES.values()])
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
    return alt.layer(*layers).properties(width=195, height=200, title=_title(workload))


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


# ---------------------------------------------------------------- fleets


def _fleet_rows(known: Known, row: Callable[[dict[str, Any]], list[Row]]) -> list[Row]:
    """Rows of every fleet experiment, with its group, policy and whose it is."""
    return [
        {"group": group, "policy": name, "ours": is_ours(result), **found}
        for group in known.groups("fleet")
        for name, result in known.group("fleet", group).items()
        for found in row(result)
    ]


def _own() -> Any:
    return alt.Color("ours:N", scale=alt.Scale(domain=[True, False], range=[BLUE, GREY]), legend=None)


def throughput(known: Known) -> Any:
    """Effective throughput with its interval, and the bound where the simulator states one."""

    def row(result: dict[str, Any]) -> list[Row]:
        told, top = result["effective_throughput"], bound_of(result)
        ends = {"low": told["mean"] - told["ci95"], "high": told["mean"] + told["ci95"], "text": f"{told['mean']:.3f}"}
        return [{"mean": told["mean"], **ends, **({"bound": top} if top else {})}]

    rows = _fleet_rows(known, row)
    panels = [_bars([r for r in rows if r["group"] == group]) for group in known.groups("fleet")]
    return styled(
        alt.vconcat(*panels, spacing=16),
        "Effective throughput of a simulated fleet, by policy",
        "Bars: mean over seeds; lines: 95 % interval; orange ticks: the bound of any schedule, where it was computed.",
    )


def _bars(rows: list[Row]) -> Any:
    """One group of policies; the axis is the same in all."""
    base = alt.Chart(alt.Data(values=rows)).encode(_policies(rows))
    scale, axis = alt.Scale(domain=[0, 1], nice=False), alt.Axis(tickCount=6, format=".1f")
    x = alt.X("mean:Q", title="GPU-hours of finished training over GPUs x time", scale=scale, axis=axis)
    layers = [
        base.mark_bar(height=15).encode(x, color=_own()),
        base.mark_rule(color=BLACK, strokeWidth=1.4).encode(alt.X("low:Q"), alt.X2("high:Q")),
        base.mark_text(align="left", x=6, color="white", fontSize=11).encode(text="text:N"),
    ]
    if any("bound" in r for r in rows):
        layers.append(base.mark_tick(color=ORANGE, thickness=2.5, size=19).encode(alt.X("bound:Q")))
    return alt.layer(*layers).properties(width=WIDE - 60, height=alt.Step(22), title=_title(rows[0]["group"]))


def _policies(rows: list[Row]) -> Any:
    """In the order of the list, as far as they are there."""
    return alt.Y("policy:N", sort=list(dict.fromkeys(r["policy"] for r in rows)), title=None)


def waits(known: Known) -> Any:
    """How long each class waited: half of them less than the dot, one in a hundred longer than the ring."""

    def row(result: dict[str, Any]) -> list[Row]:
        return [
            {"class": kind.replace("_", " "), "mark": mark, "hours": max(told[mark] / HOUR, LEAST)}
            for kind, told in result["wait_seconds"].items()
            for mark in ("p50", "p99")
            if told.get("p99") and mark in told
        ]

    rows = _fleet_rows(known, row)
    pairs = dict.fromkeys((r["group"], r["class"]) for r in rows)
    panels = [_dots([r for r in rows if (r["group"], r["class"]) == pair]) for pair in pairs]
    return styled(
        alt.concat(*panels, columns=2, spacing=26),
        "How long jobs waited for their first start, by class and policy",
        "Circle: half of them waited less; diamond: one in a hundred waited longer. Who never started has waited until the\n"
        "last arrival. Blue: gpufleet. Each panel has its own logarithmic scale.",
    )


def _dots(rows: list[Row]) -> Any:
    """One class of one group."""
    shape = alt.Shape("mark:N", scale=alt.Scale(domain=["p50", "p99"], range=["circle", "diamond"]), legend=None)
    base = alt.Chart(alt.Data(values=rows)).encode(_policies(rows), _decades(alt.X, "hours:Q", "hours"))
    line = base.mark_line(strokeWidth=1.2, opacity=0.5).encode(detail="policy:N", color=_own())
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(shape=shape, color=_own())
    title = _title(f"{rows[0]['group']}: {rows[0]['class']}")
    return alt.layer(line, dots).properties(width=WIDE // 2 - 75, height=alt.Step(22), title=title)


LEAST: Final = 1 / 3600
"""A logarithm has no zero: shorter waits are drawn as one second."""


def serving(known: Known) -> Any | None:
    """Useful utilisation against the p99 wait of replicas; nothing where no experiment has services."""

    def row(result: dict[str, Any]) -> list[Row]:
        return [{"wait": max(_replica_wait(result), 1.0), "useful": result["useful_utilisation"]["mean"]}]

    served = [g for g in known.groups("fleet") if any(map(_replica_wait, known.group("fleet", g).values()))]
    rows = [r for r in _fleet_rows(known, row) if r["group"] in served]
    if not rows:
        return None
    y = alt.Y("useful:Q", title="useful utilisation", scale=alt.Scale(domain=[0, 1]))
    x = _decades(alt.X, "wait:Q", "p99 wait of replicas, seconds (log scale)")
    base = alt.Chart(alt.Data(values=rows)).encode(x, y)
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        color=_own(), shape=alt.Shape("group:N", title="work")
    )
    words = base.mark_text(align="left", dx=8, fontSize=11).encode(text="policy:N", color=_own())
    minute = alt.Chart(alt.Data(values=[{"wait": 60}])).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(x=x)
    chart = alt.layer(minute, dots, words).properties(width=WIDE - 160, height=300)
    return styled(
        chart,
        "Training and services on one fleet: how busy, and how long replicas wait",
        "Upper left is better. Dashed: one minute. Blue: gpufleet; shorter waits are drawn as one second.",
    )


def _replica_wait(result: dict[str, Any]) -> float:
    """p99 in seconds; 0 where nobody waited, or nothing served."""
    return float(result["wait_seconds"].get("inference", {}).get("p99", 0))


# ---------------------------------------------------------------- speed


def speed(known: Known) -> Any:
    """Each figure as a multiple of the fixed work, and the bound that `make bench` holds it to."""
    ranges = read_ranges("full")
    rows = []
    for timed in known.result("speed")["figures"]:
        its, value = range_of(f"speed.{timed['name']}", ranges), timed["seconds"]
        told = f"{value:.2f} s" if value >= 1 else f"{1000 * value:.3g} ms"
        rows.append({"figure": WORDS[timed["name"]], "times": timed["times"], "most": its and its.most, "text": told})
    base = alt.Chart(alt.Data(values=rows)).encode(
        alt.Y("figure:N", sort=list(WORDS.values()), title=None, axis=alt.Axis(labelLimit=480))
    )
    x = _decades(alt.X, "times:Q", "multiples of the fixed work (log scale)")
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
