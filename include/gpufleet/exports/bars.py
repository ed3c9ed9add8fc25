"""Small charts as inline SVG: bars stacked by kind for each day, and a line of the month so far against a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH, HEIGHT, LEFT, BELOW, ABOVE = 760, 220, 64, 26, 12
COLOURS: Final = {
    "usage": "#2f6f8f",
    "commitment": "#7fb2c9",
    "idle": "#e0a458",
    "shared": "#9a8fb0",
    "adjustment": "#777777",
    "credit": "#5f9e6e",
}


@dataclass(frozen=True, slots=True)
class _Scale:
    top: float

    def y(self, value: float) -> float:
        return HEIGHT - BELOW - (HEIGHT - BELOW - ABOVE) * value / self.top


def stacked(days: Sequence[str], parts: Mapping[str, Sequence[float]], unit: str) -> str:
    """A bar for each day, its kinds stacked; amounts below nothing are left to the tables."""
    totals = [sum(max(0.0, values[i]) for values in parts.values()) for i in range(len(days))]
    scale = _Scale(_round_up(max(totals, default=0.0)))
    step = (WIDTH - LEFT) / max(1, len(days))
    bars = []
    for i, day in enumerate(days):
        base = 0.0
        for kind, values in parts.items():
            value = max(0.0, values[i])
            if value:
                x, y, h = LEFT + i * step + step * 0.15, scale.y(base + value), scale.y(base) - scale.y(base + value)
                title = f"<title>{escape(day)}: {escape(kind)} {value:,.2f} {escape(unit)}</title>"
                bars.append(_rect(x, y, step * 0.7, h, COLOURS[kind], title))
            base += value
    return _svg("Cost of each day by kind", [*_grid(scale), *bars, *_labels(days, step)])


def burn_up(
    days: Sequence[str], so_far: Sequence[float], budget: float | None, forecast: float, month_days: int
) -> str:
    """The month so far, where it is heading, and the budget."""
    scale = _Scale(_round_up(max(budget or 0.0, forecast, *so_far, 0.0)))
    step = (WIDTH - LEFT) / max(1, month_days)
    points = [(LEFT + (i + 1) * step, scale.y(value)) for i, value in enumerate(so_far)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(LEFT, scale.y(0)), *points])
    drawn = [f'<polyline points="{path}" fill="none" stroke="#2f6f8f" stroke-width="2.5"/>']
    if points and len(days) < month_days:
        x, y = points[-1]
        drawn.append(
            _dashed((x, y, LEFT + month_days * step, scale.y(forecast)), "#2f6f8f", f"forecast {forecast:,.0f}", WIDTH)
        )
    if budget is not None:
        line = (LEFT, scale.y(budget), WIDTH, scale.y(budget))
        drawn.append(_dashed(line, "#b3413b", f"budget {budget:,.0f}", LEFT + 90))
    return _svg("The month so far", [*_grid(scale), *drawn, *_labels(days, step)])


def _round_up(value: float) -> float:
    """The next of 1, 2 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1)
    return next(m * power for m in (1, 2, 5, 10) if m * power >= value)


def _grid(scale: _Scale) -> list[str]:
    lines = []
    for part in (0.0, 0.5, 1.0):
        y, value = scale.y(scale.top * part), scale.top * part
        lines.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d8dee2"/>')
        lines.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
    return lines


def _labels(days: Sequence[str], step: float) -> list[str]:
    every = max(1, len(days) // 8)
    return [
        f'<text x="{LEFT + (i + 0.5) * step:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(day[8:])}</text>'
        for i, day in enumerate(days)
        if i % every == 0
    ]


def _rect(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {size} fill="{colour}">{title}</rect>'


def _dashed(line: tuple[float, float, float, float], colour: str, label: str, label_ends: float) -> str:
    x1, y1, x2, y2 = line
    drawn = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-dasharray="6 5"/>'
    place = f'x="{label_ends - 6:.1f}" y="{y2 - 6:.1f}" text-anchor="end"'
    return f'{drawn}<text {place} style="fill: {colour}">{escape(label)}</text>'


def _svg(title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
    return head + "".join(parts) + "</svg>"
