"""Ceilings of the openb workloads, as a linear program gave them (docs/benchmarks.md, section 1)."""

from typing import Final

CEILINGS: Final = {
    "default": 96.450,
    "cpu050": 96.448,
    "gpushare40": 95.114,
    "gpushare100": 88.614,
    "multigpu50": 98.072,
}
"""GPU allocation in percent at 130 % of arrivals, for rules that accept what ours accepts until its first refusal."""
