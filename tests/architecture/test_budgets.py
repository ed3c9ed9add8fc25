"""Budgets of the house: short files, short functions, a docstring for every package, nothing named for nothing."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
ROOTS = ("include", "plugins", "dags", "tools", "benchmarks")
FILE_LINES, FUNCTION_LINES, MEDIAN_LINES, DAG_LINES, PLUGIN_LINES = 300, 40, 10, 60, 40
NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc"}

FILES = sorted(p for root in ROOTS for p in (PROJECT / root).rglob("*.py") if "versions" not in p.parts)
"""All our source; migrations are written by Alembic."""


def functions(path: Path) -> list[tuple[str, int]]:
    tree = ast.parse(path.read_text())
    found = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    return [(f.name, (f.end_lineno or f.lineno) - f.lineno + 1) for f in found]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PROJECT)))
def test_file(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= FILE_LINES, f"{lines} lines"
    assert [f"{name}: {n} lines" for name, n in functions(path) if n > FUNCTION_LINES] == []
    assert path.stem not in NAMELESS


def test_functions_are_short_as_a_rule() -> None:
    assert statistics.median(n for path in FILES for _, n in functions(path)) <= MEDIAN_LINES


def test_dags_are_tables_of_contents_and_the_plugin_is_small() -> None:
    long = {p.name: len(p.read_text().splitlines()) for p in (PROJECT / "dags").glob("*.py")}
    assert {name: n for name, n in long.items() if n > DAG_LINES} == {}
    assert len((PROJECT / "plugins" / "gpufleet_plugin.py").read_text().splitlines()) <= PLUGIN_LINES


def test_airflow_loads_one_file_of_the_plugins_folder() -> None:
    folder = PROJECT / "plugins"
    assert [p.name for p in folder.glob("*.py")] == ["gpufleet_plugin.py"]
    assert (folder / ".airflowignore").read_text().split() == ["gpufleet_airflow/"]


@pytest.mark.parametrize(
    "package", sorted((PROJECT / "include" / "gpufleet").glob("*/__init__.py")), ids=lambda p: p.parent.name
)
def test_every_room_says_what_belongs_in_it(package: Path) -> None:
    docstring = ast.get_docstring(ast.parse(package.read_text()))
    assert docstring and "ever" in docstring, "say what belongs here, and what never does"
