"""Charts of fleets in simulated time: throughput, waits, and how busy a fleet is that also serves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import altair as alt

from benchmarks.figures import bound_of, is_ours, replica_wait
from benchmarks.known import Known
from benchmarks.look import BLACK, BLUE, GREY, ORANGE, WIDE, Row, decades, panel_title, styled
from benchmarks.tables import HOUR


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
        low, high = max(told["mean"] - told["ci95"], 0.0), min(told["mean"] + told["ci95"], 1.0)
        ends = {"low": low, "high": high, "text": f"{told['mean']:.3f}"}
        return [{"mean": told["mean"], **ends, **({"bound": top} if top else {})}]

    rows = _fleet_rows(known, row)
    panels = [
        _bars([r for r in rows if r["group"] == group]).properties(title=panel_title(known.work(group)))
        for group in known.groups("fleet")
        if not _serves(known, group)
    ]
    return styled(
        alt.vconcat(*panels, spacing=16),
        "Effective throughput of a simulated fleet, by policy",
        "Bars: mean over seeds; lines: 95 % interval; orange ticks: the bound of any schedule, where it was computed.",
    )


def _serves(known: Known, group: str) -> bool:
    """Whether replicas wait there: then training alone tells little."""
    return any(map(replica_wait, known.group("fleet", group).values()))


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
    return alt.layer(*layers).properties(width=WIDE - 60, height=alt.Step(22))


def _policies(rows: list[Row]) -> Any:
    """In the order of the list, as far as they are there."""
    return alt.Y("policy:N", sort=list(dict.fromkeys(r["policy"] for r in rows)), title=None)


def waits(known: Known) -> Any:
    """How long each class waited: half of them less than the circle, one in a hundred longer than the diamond."""

    def row(result: dict[str, Any]) -> list[Row]:
        return [
            {"class": kind.replace("_", " "), "mark": mark, "wait": max(told[mark] / unit, LEAST), "unit": name}
            for kind, told in result["wait_seconds"].items()
            for unit, name in [(1.0, "seconds") if kind == "inference" else (HOUR, "hours")]
            for mark in ("p50", "p99")
            if told.get("p99") and mark in told
        ]

    rows = _fleet_rows(known, row)
    full = [g for g in known.groups("fleet") if len(known.group("fleet", g)) > FEW_POLICIES]
    pairs = dict.fromkeys((r["group"], r["class"]) for r in rows if r["group"] in full or r["class"] == "inference")
    panels = [_dots([r for r in rows if (r["group"], r["class"]) == pair]) for pair in pairs]
    return styled(
        alt.concat(*panels, columns=2, spacing=26),
        "How long jobs waited for their first start, by class and policy",
        "Circle: half of them waited less; diamond: one in a hundred waited longer. Who never started has waited until the\n"
        f"last arrival. Blue: gpufleet. Each panel has its own logarithmic scale; less than {LEAST:g} is drawn as {LEAST:g}.",
    )


FEW_POLICIES: Final = 3
"""Works of no more policies are left out, or nobody would look at so many panels; the table has them."""
LEAST: Final = 0.1
"""Hours, or seconds of replicas: a logarithm has no zero."""


def _dots(rows: list[Row]) -> Any:
    """One class of one group."""
    shape = alt.Shape("mark:N", scale=alt.Scale(domain=["p50", "p99"], range=["circle", "diamond"]), legend=None)
    base = alt.Chart(alt.Data(values=rows)).encode(_policies(rows), decades(alt.X, "wait:Q", rows[0]["unit"]))
    line = base.mark_line(strokeWidth=1.2, opacity=0.5).encode(detail="policy:N", color=_own())
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(shape=shape, color=_own())
    title = panel_title(f"{rows[0]['group']}: {rows[0]['class']}")
    return alt.layer(line, dots).properties(width=WIDE // 2 - 75, height=alt.Step(22), title=title)


def serving(known: Known) -> Any | None:
    """Useful utilisation against the p99 wait of replicas; nothing where no experiment has services."""

    def row(result: dict[str, Any]) -> list[Row]:
        return [{"wait": max(replica_wait(result), 1.0), "useful": result["useful_utilisation"]["mean"]}]

    rows = [r for r in _fleet_rows(known, row) if _serves(known, r["group"])]
    if not rows:
        return None
    y = alt.Y("useful:Q", title="useful utilisation", scale=alt.Scale(domain=[0, 1]))
    x = decades(alt.X, "wait:Q", "p99 wait of replicas, seconds (log scale)")
    base = alt.Chart(alt.Data(values=rows)).encode(x, y)
    dots = base.mark_point(filled=True, size=80, opacity=1).encode(
        color=_own(), shape=alt.Shape("group:N", title="work")
    )
    minute = alt.Chart(alt.Data(values=[{"wait": 60}])).mark_rule(color=ORANGE, strokeDash=[4, 3]).encode(x=x)
    chart = alt.layer(minute, dots).properties(width=WIDE - 160, height=300)
    return styled(
        chart,
        "Training and services on one fleet: how busy, and how long replicas wait",
        "Upper left is better. Dashed: one minute. Blue: gpufleet, grey: a whole card for every replica (hold).",
    )
