"""Charts of the results (Vega-Altair, drawn by vl-convert without a browser): the same results give the same pictures.

Colours are those of Okabe and Ito, told apart by colour-blind eyes; ours is blue in every chart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import altair as alt

from benchmarks.ceilings import CEILINGS
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
        .configure_axis(labelFontSize=11, titleFontSize=12, titleFontWeight="normal", gridColor="#E6E6E6")
        .configure_axis(domainColor="#888888", tickColor="#888888", labelColor="#333333", titleColor="#333333")
        .configure_view(stroke=None)
        .configure_header(labelFontSize=12, labelFontWeight="bold", labelColor=BLACK)
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolStrokeWidth=3, labelLimit=400)
    )


# ---------------------------------------------------------------- openb

LINES: Final = {"gpufleet": ("known", BLUE), "FGD": ("fgd", ORANGE), "best fit": ("bestfit", GREEN)}
FROM: Final = 80
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
    colour = alt.Scale(domain=list(LINES), range=[c for _, c in LINES.values()])
    x = alt.X("arrived:Q", title="asked for, % of all GPUs", scale=alt.Scale(domain=[FROM, 130], nice=False))
    y = alt.Y("given:Q", title="given out, %", scale=alt.Scale(zero=False, nice=True))
    paint = alt.Color("policy:N", scale=colour, title=None, legend=alt.Legend(orient="bottom"))
    line = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(x, y, paint)
    last = [{**r, "text": f"{r['given']:.1f}"} for r in rows if r["arrived"] == 130]
    end = alt.Chart(alt.Data(values=last)).mark_text(align="left", dx=4, fontSize=11).encode(x, y, paint, text="text:N")
    layers = [line, end]
    if workload in CEILINGS:
        top = alt.Chart(alt.Data(values=[{"given": CEILINGS[workload]}]))
        layers.append(top.mark_rule(strokeDash=[4, 3], color=GREY, strokeWidth=1.3).encode(y=y))
    return alt.layer(*layers).properties(
        width=205, height=165, title=alt.TitleParams(workload, fontSize=12, anchor="start")
    )


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
    base = alt.Chart().encode(alt.Y("policy:N", sort=_names(known), title=None))
    x = alt.X("mean:Q", title="GPU-hours of finished training over GPUs x time", scale=alt.Scale(domain=[0, 1.05]))
    layers = [
        base.mark_bar(height=15, opacity=0.85).encode(x, color=_own()),
        base.mark_rule(color=BLACK, strokeWidth=1.4).encode(alt.X("low:Q"), alt.X2("high:Q")),
        base.mark_text(align="left", dx=4, x=4, color="white", fontSize=11).encode(text="text:N"),
    ]
    if any("bound" in r for r in rows):
        tick = base.transform_filter("isValid(datum.bound)").mark_tick(color=ORANGE, thickness=2.5, size=19)
        layers.append(tick.encode(alt.X("bound:Q")))
    chart = (
        alt.layer(*layers, data=alt.Data(values=rows))
        .properties(width=WIDE - 60, height=alt.Step(22))
        .facet(row=alt.Row("group:N", title=None, sort=known.groups("fleet"), header=_above()), spacing=14)
        .resolve_scale(y="independent")
    )
    return styled(
        chart,
        "Effective throughput of a simulated fleet, by policy",
        "Bars: mean over seeds; lines: 95 % interval; orange ticks: the bound of any schedule, where it was computed.",
    )


def _above() -> Any:
    return alt.Header(orient="top", labelAnchor="start", labelAngle=0)


def _names(known: Known) -> list[str]:
    return list(dict.fromkeys(e.name for e in known.listed if e.kind == "fleet"))


def waits(known: Known) -> Any:
    """How long each class waited: half of them less than the dot, one in a hundred longer than the ring."""

    def row(result: dict[str, Any]) -> list[Row]:
        return [
            {"class": kind.replace("_", " "), "mark": mark, "hours": max(told[mark] / HOUR, LEAST)}
            for kind, told in result["wait_seconds"].items()
            if told.get("p99")
            for mark in ("p50", "p99")
        ]

    rows = _fleet_rows(known, row)
    shape = alt.Shape(
        "mark:N",
        scale=alt.Scale(domain=["p50", "p99"], range=["circle", "diamond"]),
        title=None,
        legend=alt.Legend(orient="bottom"),
    )
    base = alt.Chart().encode(alt.Y("policy:N", sort=_names(known), title=None))
    x = alt.X("hours:Q", scale=alt.Scale(type="log"), title="hours until the first start (log scale)")
    line = base.mark_line(strokeWidth=1.2, opacity=0.5).encode(x, detail="policy:N", color=_own())
    dots = base.mark_point(filled=True, size=70, opacity=0.9).encode(x, shape=shape, color=_own())
    chart = (
        alt.layer(line, dots, data=alt.Data(values=rows))
        .properties(width=WIDE // 2 - 60, height=alt.Step(22))
        .facet(
            row=alt.Row(
                "group:N", title=None, sort=known.groups("fleet"), header=alt.Header(labelAngle=0, labelAlign="left")
            ),
            column=alt.Column("class:N", title=None, sort=["training", "largest gangs", "inference"]),
        )
        .resolve_scale(y="independent", x="independent")
    )
    return styled(
        chart, "Waits by class and policy", "Who never started has waited until the last arrival. Blue: gpufleet."
    )


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
    x = alt.X("wait:Q", title="p99 wait of replicas, seconds (log scale)", scale=alt.Scale(type="log"))
    base = alt.Chart(alt.Data(values=rows)).encode(x, y)
    dots = base.mark_point(filled=True, size=80).encode(color=_own(), shape=alt.Shape("group:N", title="work"))
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
        told = f"{value:.2g} s" if value >= 1 else f"{1000 * value:.2g} ms"
        rows.append({"figure": WORDS[timed["name"]], "times": timed["times"], "most": its and its.most, "text": told})
    base = alt.Chart(alt.Data(values=rows)).encode(
        alt.Y("figure:N", sort=list(WORDS.values()), title=None, axis=alt.Axis(labelLimit=330))
    )
    x = alt.X("times:Q", scale=alt.Scale(type="log"), title="multiples of the fixed work (log scale)")
    dots = base.mark_point(filled=True, size=90, color=BLUE).encode(x)
    words = base.mark_text(align="right", dx=-9, fontSize=11, color=BLUE).encode(x, text="text:N")
    most = (
        base.transform_filter("isValid(datum.most)")
        .mark_tick(color=ORANGE, thickness=2.5, size=16)
        .encode(alt.X("most:Q"))
    )
    return styled(
        alt.layer(dots, words, most).properties(width=WIDE - 340, height=alt.Step(30)),
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
