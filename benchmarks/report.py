"""The pages: PNG pictures for the documentation, one HTML page that needs nothing else, and the parts of Markdown pages."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from benchmarks import tables
from benchmarks.charts import CHARTS
from benchmarks.experiments import PROJECT
from benchmarks.known import Known
from benchmarks.markers import rewritten
from benchmarks.png import squeezed

HTML: Final = "docs/benchmarks.html"
PICTURES: Final = "docs/pictures"
PAGES: Final = ("docs/benchmarks.md", "README.md")
"""Markdown pages with parts of ours."""
SCALE: Final = 2
"""Picture points per pixel."""

TABLES: Final[dict[str, Callable[[Known], str]]] = {
    "measured": tables.measured,
    "goals": tables.goals_met,
    "openb": tables.openb,
    "ceilings": tables.ceilings,
    "rules": tables.rules,
    "fleets": tables.fleets,
    "speed": tables.speed,
}


def write(known: Known, root: Path = PROJECT) -> list[Path]:
    """Everything anew; the same results give the same bytes. Raises Invalid where a result or a marker is missing."""
    parts = {name: make(known) for name, make in TABLES.items()} | tables.words(known)
    pages = {root / page: rewritten((root / page).read_text(), parts, page) for page in PAGES}
    charts = {name: chart.to_dict() for name, make in CHARTS.items() if (chart := make(known)) is not None}
    for path, text in pages.items():
        path.write_text(text)
    pictures = [_picture(root, name, chart) for name, chart in charts.items()]
    page = root / HTML
    page.write_text(html({name: _svg(chart) for name, chart in charts.items()}, parts))
    return [*pages, *pictures, page]


def _picture(root: Path, name: str, chart: dict[str, Any]) -> Path:
    path = root / PICTURES / f"bench-{name}.png"
    path.write_bytes(squeezed(vl_convert.vegalite_to_png(chart, scale=SCALE)))
    return path


def _svg(chart: dict[str, Any]) -> str:
    """As an address of its own: charts cannot mix up each other's names."""
    drawn = vl_convert.vegalite_to_svg(chart)
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"


def html(charts: dict[str, str], parts: dict[str, str]) -> str:
    """One page with pictures and tables inside; it asks nothing of any other place."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    rows = {name: [list(map(_cells, block.splitlines())) for block in _blocks(text)] for name, text in parts.items()}
    return environment.get_template("report.html").render(charts=charts, tables=rows, parts=parts)


def _blocks(text: str) -> list[str]:
    """Tables of a part, without the line under the head."""
    lines = (line for line in text.splitlines() if not line.startswith("| ---"))
    return [block for block in "\n".join(lines).split("\n\n") if block]


def _cells(line: str) -> list[str]:
    """Of one row; a line that is no row is one cell, its emphasis taken off."""
    line = line.replace("+-", "±")
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else [line.strip("*")]
