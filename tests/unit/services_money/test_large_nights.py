"""Nights with very many segments: no more memory for more of them, and files that an independent checker takes."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from benchmarks.ledger import DAY, fleet_of
from focus_data_toolkit.model.validator import lint_focus_1_4_structure

from gpufleet.exports.focus_files import CSV
from gpufleet.services.publish_night import check_day, publish_night
from gpufleet.services.settle_day import settle_day

SUPPORTED = ("SupportsMultiplePricingCategories", "SupportsUnitPricing")
AT_ONCE = 50_000


def peak(segments: int) -> int:
    """MiB of a process that settles so many segments of one day."""
    command = [sys.executable, "-m", "benchmarks.ledger", str(segments)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100).stdout
    found = re.search(r"peak (\d+) MiB", told)
    assert found, told
    return int(found[1])


def test_ten_times_the_segments_need_the_memory_of_one_slice_more() -> None:
    assert peak(30_000) - peak(3_000) < 40


def test_a_month_of_many_segments_is_checked_and_published(tmp_path: Path) -> None:
    check(tmp_path, 10_000)


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_a_month_of_a_million_segments_is_checked_and_published(tmp_path: Path) -> None:
    check(tmp_path, 1_000_000)


def check(home: Path, segments: int) -> None:
    day = f"{DAY:%Y-%m-%d}"
    fleet = fleet_of(home, segments, per_job=10)
    total = settle_day(fleet, day)["total"]
    looked_at = check_day(fleet, day)["charges"]
    told = publish_night(fleet, day)
    assert looked_at == told["charges"] > segments and told["total"] == total
    assert sum(_linted(Path(told["to"]) / told["published"] / CSV)) == told["charges"]


def _linted(path: Path) -> Iterator[int]:
    """How many rows were looked at; fails with what the checker says of any of them."""
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        while some := list(islice(rows, AT_ONCE)):
            report = lint_focus_1_4_structure("Cost and Usage", some, supported_conditions=SUPPORTED)
            assert report.messages() == []
            yield len(some)
