"""Verbs on the live fleet."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from gpufleet.errors import Invalid
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet

USER = "GPUFLEET_USER"


def show(value: Any) -> None:
    """One JSON document on stdout."""
    print(json.dumps(value, indent=2))


def me() -> Principal:
    """The member this shell acts for; raises Invalid that says what to set."""
    login = os.environ.get(USER, "")
    if not login:
        raise Invalid(f"Nobody is named: set {USER} to your login, as it stands in teams.yaml.")
    return Principal(login)


def pairs(option: str, words: list[str]) -> dict[str, str]:
    """`NAME=VALUE` words of an option to a mapping."""
    for word in words:
        if "=" not in word:
            raise Invalid(f"{option} '{word}' is not NAME=VALUE.")
    return dict(word.split("=", 1) for word in words)


def submit(fleet: Fleet, given: dict[str, Any], *, as_json: bool) -> None:
    from gpufleet.formats.request import parse_request
    from gpufleet.services.prompt_tick import prompt_tick
    from gpufleet.services.submit_job import submit_job
    from gpufleet.services.views import job_view

    submitted = submit_job(fleet, parse_request(given), me())
    prompt_tick(fleet)
    view = job_view(fleet, submitted.job)
    if as_json:
        show(view)
    else:
        print(f"{view['job']}  {view['state']}  {view['detail']}".rstrip())


def cancel(fleet: Fleet, job: str, *, as_json: bool) -> None:
    from gpufleet.services.change_job import cancel_job
    from gpufleet.services.prompt_tick import prompt_tick

    job_id = cancel_job(fleet, job, me())
    prompt_tick(fleet)
    _say_state(fleet, job_id, as_json=as_json)


def priority(fleet: Fleet, job: str, value: int, *, as_json: bool) -> None:
    from gpufleet.services.change_job import set_priority
    from gpufleet.services.prompt_tick import prompt_tick

    job_id = set_priority(fleet, job, value, me())
    prompt_tick(fleet)
    _say_state(fleet, job_id, as_json=as_json)


def _say_state(fleet: Fleet, job_id: str, *, as_json: bool) -> None:
    from gpufleet.services.views import job_view

    view = job_view(fleet, job_id)
    if as_json:
        show(view)
    else:
        print(f"{job_id}  {view['state']}  priority {view['priority']}  {view['detail']}".rstrip())


def logs(fleet: Fleet, job: str, rank: int, attempt: int | None, tail: int, *, as_json: bool) -> None:
    from gpufleet.services.read_logs import read_logs

    text = read_logs(fleet, job, rank=rank, attempt=attempt, tail=tail)
    if as_json:
        show({"job": job, "rank": rank, "attempt": attempt, "lines": text.splitlines()})
    else:
        sys.stdout.write(text if text.endswith("\n") or not text else text + "\n")


def jobs(fleet: Fleet, team: str | None, *, as_json: bool) -> None:
    from gpufleet.services.views import jobs_view

    rows = jobs_view(fleet, team=team)
    if as_json:
        show({"jobs": rows})
        return
    _table(
        ("job", "team/project", "asks", "prio", "state", "place", "why"),
        [
            (
                r["job"], f"{r['team']}/{r['project']}", r["asks"], str(r["priority"]), r["state"],
                f"{r['queue_position']} in {r['queue']}" if r["queue_position"] else "",
                f"{r['reason']}: {r['detail']}" if r["reason"] else r["detail"],
            )
            for r in rows
        ],
    )  # fmt: skip


def what_if(fleet: Fleet, change: Path, *, as_json: bool) -> None:
    from gpufleet.formats.difference import difference_lines, difference_to_json
    from gpufleet.services.what_if import what_if as changed

    snapshot, found = changed(fleet, change)
    if as_json:
        show(difference_to_json(found, snapshot))
    else:
        print("\n".join(difference_lines(found)))


def memory(fleet: Fleet, team: str | None, *, as_json: bool) -> None:
    from gpufleet.services.memory_report import memory_report

    rows = memory_report(fleet, team=team)
    if as_json:
        show({"jobs": rows})
        return
    _table(
        ("job", "team/project", "asks", "fit", "what was seen"),
        [(r["job"], f"{r['team']}/{r['project']}", r["asks"], r["fit"], r["says"]) for r in rows],
    )


def explain(fleet: Fleet, job: str, *, as_json: bool) -> None:
    from gpufleet.services.explain_job import explain_job

    view = explain_job(fleet, job)
    if as_json:
        show(view)
        return
    print(f"{view['job']} ({view['asks']}, priority {view['priority']}) is {view['state']}.")
    if view["state"] == "pending":
        place = (
            f"number {view['queue_position']} in queue {view['queue']}"
            if view["queue_position"]
            else "not considered yet"
        )
        print(f"  place:   {place}")
        print(f"  reason:  {view['reason'] or '-'}: {view['detail']}")
        told = view.get("explanation") or {"unblock": view["unblock"], "checks": [], "options": []}
        print(f"  unblock: {told['unblock'] or 'nothing short of more room'}")
        for other in told["options"][1:]:
            print(f"       or: {other['detail']}")
        for check in told["checks"]:
            print(f"  {'ok' if check['ok'] else 'NO':<3}{check['level']}: {check['detail']}")
    for word in filter(None, (view["memory"]["derived"], view["memory"]["says"])):
        print(f"  memory:  {word}")
    for where in view["where"]:
        print(f"  rank {where['rank']} on {where['node']}: {_devices(where)}")


def _devices(where: dict[str, Any]) -> str:
    words = [f"GPU {', '.join(map(str, where['gpus']))}"] if where["gpus"] else []
    words += [f"{s['profile']}@{s['start']} of GPU {s['gpu']}" for s in where["slices"]]
    words += [f"{s['fraction']} of GPU {s['gpu']}" for s in where["shares"]]
    return ", ".join(words)


def status(fleet: Fleet, *, as_json: bool) -> None:
    from gpufleet.services.views import fleet_view

    view = fleet_view(fleet)
    if as_json:
        show(view)
        return
    if view["banner"]:
        print(view["banner"])
    counts = ", ".join(f"{n} {state}" for state, n in sorted(view["states"].items())) or "no jobs"
    for idle in view["idle"]:
        print(
            f"idle: {idle['job']} of {idle['team']} holds {idle['asks']} and uses {100 * idle['busy']:.0f} % of them,"
            f" since {idle['since'][:19]}"
        )
    print(f"jobs: {counts}; controller: {view['controller'] or 'none (fleet_sync ticks every minute)'}")
    _table(
        ("node", "where", "capacity", "state", "model", "GPUs in use", "jobs"),
        [
            (
                n["node"], "/".join(n["position"]), n["capacity"], n["state"], n["model"],
                f"{sum(bool(g['uses']) for g in n['gpus'])} of {len(n['gpus'])}",
                ", ".join(sorted({u["job"] for g in n["gpus"] for u in g["uses"]})),
            )
            for n in view["nodes"]
        ],
    )  # fmt: skip


def token(fleet: Fleet, team: str, *, as_json: bool) -> None:
    from gpufleet.services.team_tokens import make_token

    made = make_token(fleet, team, me())
    if as_json:
        show({"team": team, "token": made})
    else:
        print(made)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """A plain table for people; wide terminals show it all, pipes get plain text."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*head, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    console.print(table)
