"""The verbs that work on a scenario file and need no fleet: plan, explain, what-if, settle. They answer with an exit status.

Imported for one plan, so nothing heavy: standard library, PyYAML and the pure rooms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpufleet.errors import Forbidden, GpufleetError, Invalid, NotFound
from gpufleet.formats.plan import explanation_to_json, to_json
from gpufleet.formats.scenario import load, warnings
from gpufleet.formats.table import explanation_lines, plan_lines
from gpufleet.model.policy import SchedulingPolicy
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import explain as explain_job
from gpufleet.scheduling import run_pass
from gpufleet.scheduling import settle as settle_fleet
from gpufleet.scheduling import what_if as what_if_changed

Answer = Callable[[Snapshot, SchedulingPolicy], tuple[dict[str, Any], list[str]]]
"""From a scenario to the JSON document and to the lines for a person."""


def plan(path: str, as_json: bool) -> int:
    """`gpufleet plan FILE`: what one pass would do."""

    def answer(snapshot: Snapshot, policy: SchedulingPolicy) -> tuple[dict[str, Any], list[str]]:
        found = run_pass(snapshot, policy, snapshot.at)
        return to_json(found, snapshot), plan_lines(found)

    return _on_file(path, as_json, answer)


def explain(path: str, job: str, as_json: bool) -> int:
    """`gpufleet explain FILE --job J`: why a job waits."""

    def answer(snapshot: Snapshot, policy: SchedulingPolicy) -> tuple[dict[str, Any], list[str]]:
        found = explain_job(snapshot, policy, snapshot.at, job)
        derived = [s.derived for p in snapshot.pending if p.job.id == job for s in p.job.pod_sets if s.derived]
        lines = [*explanation_lines(found), *(f"memory: {why}" for why in derived)]
        return explanation_to_json(found) | ({"memory": derived} if derived else {}), lines

    return _on_file(path, as_json, answer)


def what_if(path: str, change: str, as_json: bool) -> int:
    """`gpufleet what-if FILE --change CHANGE`: what a change would make different."""
    from gpufleet.formats.change import load_change
    from gpufleet.formats.difference import difference_lines, difference_to_json

    def answer(snapshot: Snapshot, policy: SchedulingPolicy) -> tuple[dict[str, Any], list[str]]:
        if not change:
            raise Invalid("gpufleet what-if: say what would change with --change FILE.")
        asked = load_change(Path(change), snapshot)
        found = what_if_changed(snapshot, asked, policy, snapshot.at)
        return difference_to_json(found, snapshot), difference_lines(found)

    return _on_file(path, as_json, answer)


def settle(path: str, rounds: int, as_json: bool) -> int:
    """`gpufleet settle FILE --rounds N`: whether plans applied to their own results come to rest."""

    def answer(snapshot: Snapshot, policy: SchedulingPolicy) -> tuple[dict[str, Any], list[str]]:
        found = settle_fleet(snapshot, policy, rounds)
        cycle = list(found.cycle) if found.cycle else None
        words = f"settles in round {found.round}" if found.settled else f"does not settle in {rounds} rounds"
        return {"settled": found.settled, "round": found.round, "cycle": cycle}, [words]

    return _on_file(path, as_json, answer)


def _on_file(path: str, as_json: bool, answer: Answer) -> int:
    """0 with an answer on stdout; 2 with one sentence on stderr where the input is wrong."""
    try:
        snapshot, policy = load(Path(path))
        for warning in warnings(snapshot):
            print(f"warning: {warning}", file=sys.stderr)
        document, lines = answer(snapshot, policy)
    except (Invalid, NotFound, Forbidden) as why:
        print(why, file=sys.stderr)
        return 2
    except GpufleetError as why:
        print(why, file=sys.stderr)
        return 1
    print(json.dumps(document, indent=2) if as_json else "\n".join(lines))
    return 0


def main(arguments: list[str]) -> int:
    """`python -m gpufleet.commands.offline VERB FILE ...`: these verbs without the command line's other half."""
    import argparse

    parser = argparse.ArgumentParser(prog="gpufleet")
    parser.add_argument("verb", choices=("plan", "explain", "what-if", "settle"))
    parser.add_argument("file")
    parser.add_argument("--job", default="")
    parser.add_argument("--change", default="")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true", dest="as_json")
    asked = parser.parse_args(arguments)
    match asked.verb:
        case "explain":
            return explain(asked.file, asked.job, asked.as_json)
        case "what-if":
            return what_if(asked.file, asked.change, asked.as_json)
        case "settle":
            return settle(asked.file, asked.rounds, asked.as_json)
        case _:
            return plan(asked.file, asked.as_json)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
