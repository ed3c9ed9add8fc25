"""The curves published with FGD (USENIX ATC'23): GPU allocation by percent of arrivals; data/fgd_expected/SOURCE.md."""

from __future__ import annotations

import csv
import gzip
import io
import statistics
from collections.abc import Iterable
from functools import cache
from typing import Final

from benchmarks.experiments import PROJECT

TABLE: Final = PROJECT / "benchmarks" / "data" / "fgd_expected" / "analysis_allo_discrete.csv.gz"
NAMES: Final = {
    "random": "01-Random",
    "dotprod": "02-DotProd",
    "gpuclustering": "03-GpuClustering",
    "gpupacking": "04-GpuPacking",
    "bestfit": "05-BestFit",
    "fgd": "06-FGD",
}
"""Our names of the rules, and the table's."""
LAST: Final = 130


@cache
def _rows() -> dict[tuple[str, str, int], dict[str, str]]:
    text = gzip.decompress(TABLE.read_bytes()).decode()
    return {(r["workload"], r["sc_policy"], int(r["seed"])): r for r in csv.DictReader(io.StringIO(text))}


def published(workload: str, rule: str, seed: int) -> dict[int, float]:
    """Allocation percent by percent of arrivals, 1 to 130."""
    row = _rows()[f"openb_pod_list_{workload}", NAMES[rule], seed]
    return {share: float(row[str(share)]) for share in range(1, LAST + 1)}


def mean_curve(workload: str, rule: str, seeds: Iterable[int]) -> dict[int, float]:
    """The mean over seeds of every column."""
    curves = [published(workload, rule, seed) for seed in seeds]
    return {share: statistics.fmean(c[share] for c in curves) for share in range(1, LAST + 1)}
