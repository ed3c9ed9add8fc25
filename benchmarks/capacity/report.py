"""The month as lines for a person, as the table and the picture of docs/portfolio.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from benchmarks.markers import rewritten

PAGE, PICTURE = "docs/portfolio.md", "docs/pictures/capacity-month.png"
HEAD: Final = (
    "way to buy", "committed GPUs", "cost, USD", "against on demand", "inference short, GPU-hours", "replicas lost",
    "training: spot losses", "done again, GPU-hours", "training late, hours",
)  # fmt: skip


def lines(found: dict[str, Any]) -> list[str]:
    """The plan, then the table."""
    return [*found["plan"], "", *table(found).splitlines()]


def table(found: dict[str, Any]) -> str:
    """Markdown."""
    rows = [HEAD, ("---",) * len(HEAD), *map(_row, found["months"])]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(month: dict[str, Any]) -> tuple[str, ...]:
    late = month["mean_late_hours"]
    return (
        month["way"],
        str(month["committed_gpus"]),
        f"{month['cost']:,.0f}",
        f"{100 * (month['against_on_demand'] - 1):+.1f} %" if month["against_on_demand"] != 1 else "",
        f"{month['service_short_gpu_hours']:,.0f}",
        f"{month['replicas_lost']:,}",
        f"{month['preemptions']:,}",
        f"{month['redone_gpu_hours']:,.0f}",
        "-" if late is None else f"{late:.2f}",
    )


def pages(found: dict[str, Any], root: Path) -> None:
    """Table, plan and picture of the page anew; the same result gives the same bytes."""
    import vl_convert

    from benchmarks.png import squeezed

    page = root / PAGE
    plan = "\n".join(["```text", *found["plan"], "```"])
    page.write_text(rewritten(page.read_text(), {"month": table(found), "plan": plan}, PAGE))
    picture = vl_convert.vegalite_to_png(chart(found).to_dict(), scale=2)
    (root / PICTURE).write_bytes(squeezed(picture))


def chart(found: dict[str, Any]) -> Any:
    """Cost of each way, and beside it the inference promise."""
    import altair as alt

    from benchmarks.look import BLUE, GREY, ORANGE, WIDE, styled

    rows = [
        {
            "way": month["way"],
            "cost": month["cost"] / 1000,
            "kind": "ours" if month["way"].startswith("our") else "others",
            "text": f"{month['cost'] / 1000:,.0f}{_beside(month)}",
            "broken": _broken(month),
        }
        for month in found["months"]
    ]
    order = [row["way"] for row in rows]
    y = alt.Y("way:N", sort=order, title=None, axis=alt.Axis(labelLimit=330))
    x = alt.X("cost:Q", title="thousands of USD in 28 days", scale=alt.Scale(domain=[0, 1300]))
    paint = alt.Color("kind:N", scale=alt.Scale(domain=["ours", "others"], range=[BLUE, GREY]), legend=None)
    base = alt.Chart(alt.Data(values=rows)).encode(x, y)
    bars = base.mark_bar(height=20).encode(color=paint)
    words = base.mark_text(align="left", dx=6, fontSize=12, dy=-6).encode(text="text:N")
    broken = base.mark_text(align="left", dx=6, fontSize=11, dy=8, color=ORANGE).encode(text="broken:N")
    return styled(
        alt.layer(bars, words, broken).properties(width=WIDE - 330, height=alt.Step(44)),
        "A month on bought capacity",
        "Inference of 48 to 80 GPUs with a daily curve, training of 120 GPUs on average, H100; spot as it really was on GCP.",
    )


def _beside(month: dict[str, Any]) -> str:
    share = month["against_on_demand"]
    return "" if share == 1 else f"  ({100 * (share - 1):+.0f} %)"


def _broken(month: dict[str, Any]) -> str:
    short = month["service_short_gpu_hours"]
    return f"inference without {short:,.0f} of its GPU-hours" if short else ""
