"""`gpufleet simulate spot`: a gang with a deadline on a recorded spot market, under one policy, from many starts."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.formats.spot_trace import load_prices, load_trace
from gpufleet.procurement.spot.terms import Terms
from gpufleet.simulation.spot.market import Market, market
from gpufleet.simulation.spot.optimum import optimum
from gpufleet.simulation.spot.study import DEFINED, POLICIES, Study, average, ratio, study
from gpufleet.units import duration

UNIT_SECONDS: Final = 120
"""Everything is counted in units of two minutes: a tick is five, the delay of a new set of machines six."""
LONGEST: Final = 40 * 24 * 30
"""Forty days, in units: a deadline beyond that is a slip, and would be simulated three times over."""
BASE: Final = "cost / (on-demand price x (work + one delay of 12 minutes)), over the jobs that ended"
OPTIMUM: Final = "the least cost with the future known, by an exact dynamic program"


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of one command line."""

    trace: Path
    prices: Path
    gang: int
    zones: str
    work: str
    deadline: str
    checkpoint: str
    policy: str
    starts: int = 71
    optimum: bool = False


def spot(asked: Asked, *, as_json: bool) -> int:
    """Simulate and print; raises Invalid in one sentence for words or files that are wrong."""
    terms = _terms(asked)
    place = market(load_trace(asked.trace), load_prices(asked.prices), asked.zones, asked.gang)
    rows = range(0, place.rows, asked.starts)

    def progress(done: int) -> None:
        if done % 100 == 0:
            print(f"  {asked.policy}: {done} of {len(rows)} jobs", file=sys.stderr, flush=True)

    found = study(place, terms, asked.policy, rows, progress)
    document = _document(asked, found, _optimum(place, terms, rows) if asked.optimum else None)
    print(json.dumps(document, indent=2) if as_json else "\n".join(_lines(document)))
    return 0


def _terms(asked: Asked) -> Terms:
    if asked.policy not in POLICIES:
        raise Invalid(f"--policy: '{asked.policy}' is not known; it is one of {', '.join(POLICIES)}.")
    if asked.gang < 1 or asked.starts < 1:
        raise Invalid("--gang and --starts are whole numbers of at least 1.")
    return Terms(
        _units("--work", asked.work), _units("--deadline", asked.deadline), _units("--checkpoint", asked.checkpoint)
    )


def _units(option: str, text: str) -> int:
    """A duration in units; it must be a whole number of them, at least one."""
    try:
        seconds = Fraction(duration(text).total_seconds())
    except Invalid as why:
        raise Invalid(f"{option}: {why}") from None
    if not seconds or seconds % UNIT_SECONDS:
        raise Invalid(f"{option}: '{text}' is not a multiple of 2 minutes above 0; write it as 48h or 10m.")
    if seconds // UNIT_SECONDS > LONGEST:
        raise Invalid(f"{option}: '{text}' is longer than 40 days, the longest that is simulated.")
    return int(seconds // UNIT_SECONDS)


def _optimum(place: Market, terms: Terms, rows: range) -> dict[str, Any]:
    costs = optimum(place, terms, rows)
    met = [ratio(Fraction(cost), terms) for cost in costs if cost < float("inf")]
    return {"mean": _number(average(met)), "missed": len(costs) - len(met), "definition": OPTIMUM}


def _document(asked: Asked, found: Study, least: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "policy": found.policy,
        "starts": len(found.outcomes),
        "finished": len(found.finished),
        "missed": found.missed,
        "cost_ratio": {"mean": _number(found.mean), "p90": _number(found.p90)},
        "preemptions_per_job": _number(found.preemptions),
        "wall_hours": _number(found.hours),
        "on_demand_hours": _number(found.on_demand_hours),
        "idle_hours": _number(found.idle_hours),
        **({"optimum": least} if least else {}),
        "definition": DEFINED[found.policy],
        "cost_ratio_is": BASE,
        "files": {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in (asked.trace, asked.prices)},
    }


def _number(value: Fraction | None) -> float | None:
    return None if value is None else round(float(value), 6)


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{found['policy']}: {found['definition']}"]
    lines.append(f"  {found['starts']} jobs, {found['finished']} ended, {found['missed']} missed the deadline")
    if found["finished"]:
        cost = found["cost_ratio"]
        lines += [
            f"  cost against on-demand only   {cost['mean']:.4f} mean, {cost['p90']:.4f} p90",
            f"  preemptions for each job      {found['preemptions_per_job']:.2f}",
            f"  hours to the end              {found['wall_hours']:.2f}, of them {found['on_demand_hours']:.2f} on demand, "
            f"{found['idle_hours']:.2f} without machines",
        ]
    if (least := found.get("optimum")) and least["mean"] is not None:
        lines.append(f"  with the future known         {least['mean']:.4f}")
    return lines
