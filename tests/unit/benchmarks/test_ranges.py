"""Ranges: every figure has one, a figure outside is named with the reason, a file that says nothing clear is refused."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest
from benchmarks import speed
from benchmarks.experiments import PROFILES, experiments
from benchmarks.ranges import Range, range_of, read_ranges, wrong

from gpufleet.errors import Invalid

WIDE = Range("fleet.*.useful", 0.3, 1.0, "no more is useful than there is")
NARROW = Range("fleet.big.useful", 0.8, 1.0, "measured .85")


def test_a_figure_inside_says_nothing() -> None:
    assert wrong({"fleet.big.useful": 0.8, "fleet.small.useful": 1.0}, [WIDE, NARROW]) == []


@pytest.mark.parametrize("value", [0.79, 1.01, math.nan])
def test_a_figure_outside_is_named_with_its_range_and_the_reason(value: float) -> None:
    (sentence,) = wrong({"fleet.big.useful": value}, [NARROW])
    assert "fleet.big.useful" in sentence and "(0.8 to 1)" in sentence and "measured .85" in sentence


def test_the_very_name_counts_before_a_pattern_wherever_it_stands() -> None:
    assert range_of("fleet.big.useful", [WIDE, NARROW]) is NARROW
    assert range_of("fleet.other.useful", [WIDE, NARROW]) is WIDE


def test_a_figure_without_a_range_is_a_complaint() -> None:
    assert "has no range" in wrong({"speed.new": 1.0}, [WIDE])[0]


def test_a_range_of_a_name_that_nobody_measures_is_a_complaint() -> None:
    assert "nothing of that name" in wrong({}, [WIDE, NARROW])[0]


def test_one_sided_ranges_are_told_in_words() -> None:
    assert (Range("a", 1, math.inf, "").shown, Range("a", -math.inf, 2, "").shown) == ("at least 1", "at most 2")


REFUSED = {
    "no reason": "quick:\n  a: {least: 1}\n",
    "no bound": "quick:\n  a: {why: because}\n",
    "a bound in words": "quick:\n  a: {least: low, why: because}\n",
    "bounds that cross": "quick:\n  a: {least: 2, most: 1, why: because}\n",
    "a key nobody knows": "quick:\n  a: {least: 2, mots: 1, why: because}\n",
    "no such profile": "full: {}\n",
    "no YAML": "quick:\nNOTE\nfull: {}\n",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ranges.yaml"
    path.write_text(text)
    with pytest.raises(Invalid, match=r"ranges\.yaml: "):
        read_ranges("quick", path)


@pytest.mark.parametrize("profile", PROFILES)
def test_our_own_file_speaks_only_of_experiments_there_are(profile: str) -> None:
    labels = [e.label for e in experiments(profile)]
    named = [r.figure for r in read_ranges(profile) if "*" not in r.figure]
    assert named and [figure for figure in named if not any(figure.startswith(label) for label in labels)] == []


def test_every_speed_that_is_measured_is_bounded() -> None:
    """Names from the source: the figures themselves take half a minute."""
    tree = ast.parse(Path(speed.__file__).read_text())
    tables = [n for n in ast.walk(tree) if isinstance(n, ast.Dict)]
    names = {k.value for table in tables for k in table.keys if isinstance(k, ast.Constant)}
    ranges = read_ranges("quick")
    assert names and [n for n in names if range_of(f"speed.{n}", ranges) is None] == []
