"""The `gpufleet` command: verbs on a live fleet, or on a file where one is given.

Exit status: 0 when it answered (a pending job is an answer), 2 on bad input, 1 on anything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gpufleet import __version__
from gpufleet.commands import capacity, kubernetes, months, simulations
from gpufleet.errors import Invalid

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Home = Annotated[str | None, typer.Option("--home", help="The fleet's folder; default: GPUFLEET_HOME.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, the beginning of one, or its name.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gpufleet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version


@app.command()
def plan(
    scenario: Annotated[Path, typer.Argument(help="A scenario file (docs/formats.md section 1).")],
    as_json: Json = False,
) -> None:
    """What the scheduler would do with a scenario."""
    from gpufleet.commands import offline

    raise typer.Exit(offline.plan(str(scenario), as_json=as_json))


@app.command()
def settle(
    scenario: Annotated[Path, typer.Argument(help="A scenario file.")],
    rounds: Annotated[int, typer.Option(help="Plans to make at most.")] = 10,
    as_json: Json = False,
) -> None:
    """Apply each plan to its scenario and plan again, until nothing changes."""
    from gpufleet.commands import offline

    raise typer.Exit(offline.settle(str(scenario), rounds=rounds, as_json=as_json))


@app.command()
def explain(
    what: Annotated[
        str, typer.Argument(metavar="JOB|SCENARIO", help="A job of the fleet, or a scenario file with --job.")
    ],
    job: Annotated[str | None, typer.Option("--job", help="The job of the scenario file.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Why a job waits, and the cheapest thing that would start it."""
    if job is not None:
        from gpufleet.commands import offline

        raise typer.Exit(offline.explain(what, job, as_json=as_json))
    from gpufleet.commands import live

    live.explain(_fleet(home), what, as_json=as_json)


@app.command(name="what-if")
def what_if(
    change: Annotated[Path, typer.Option(help="A change file (docs/formats.md section 1).")],
    scenario: Annotated[Path | None, typer.Argument(help="A scenario file; without one, the live fleet.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What the scheduler would do differently if nodes, quotas or jobs were changed; nothing is changed."""
    if scenario is not None:
        from gpufleet.commands import offline

        raise typer.Exit(offline.what_if(str(scenario), str(change), as_json=as_json))
    from gpufleet.commands import live

    live.what_if(_fleet(home), change, as_json=as_json)


@app.command()
def status(home: Home = None, as_json: Json = False) -> None:
    """Nodes, GPUs, jobs and who is at work."""
    from gpufleet.commands import live

    live.status(_fleet(home), as_json=as_json)


@app.command()
def jobs(
    team: Annotated[str | None, typer.Option(help="Only this team's.")] = None, home: Home = None, as_json: Json = False
) -> None:
    """Jobs with their state, place in the line, and the reason each waits."""
    from gpufleet.commands import live

    live.jobs(_fleet(home), team, as_json=as_json)


@app.command()
def memory(
    team: Annotated[str | None, typer.Option(help="Only this team's.")] = None, home: Home = None, as_json: Json = False
) -> None:
    """Jobs whose GPU memory was measured: who asked for too little, and who for too much."""
    from gpufleet.commands import live

    live.memory(_fleet(home), team, as_json=as_json)


@app.command(context_settings={"ignore_unknown_options": True})
def submit(
    team: Annotated[str, typer.Option(help="The team that pays.")],
    project: Annotated[str, typer.Option(help="One of its projects.")],
    command: Annotated[list[str], typer.Argument(help="What each pod runs, after --.")],
    name: Annotated[str | None, typer.Option()] = None,
    kind: Annotated[str | None, typer.Option(help="training, inference or interactive.")] = None,
    pods: Annotated[str | None, typer.Option(help="They start together or not at all.")] = None,
    gpus: Annotated[str | None, typer.Option(help="Whole GPUs for each pod.")] = None,
    memory_gib: Annotated[str | None, typer.Option(help="GPU memory of each replica: a MIG slice holds it.")] = None,
    like: Annotated[str | None, typer.Option(help="As much as was learned: 'NAME; batch 2; sequence 2048'.")] = None,
    workload: Annotated[str | None, typer.Option(help="What runs, in such words: it is learned.")] = None,
    profile: Annotated[str | None, typer.Option(help="A MIG profile by name.")] = None,
    share: Annotated[str | None, typer.Option(help="A fraction of one GPU, with --memory-gib.")] = None,
    models: Annotated[str | None, typer.Option(help="GPU models, separated by commas.")] = None,
    capacity: Annotated[str | None, typer.Option(help="Capacity types, separated by commas.")] = None,
    priority: Annotated[str | None, typer.Option()] = None,
    preemptible: Annotated[bool | None, typer.Option("--preemptible/--not-preemptible")] = None,
    checkpoint_interval: Annotated[str | None, typer.Option(help="Such as 90s, 10m, 1h.")] = None,
    topology_required: Annotated[str | None, typer.Option(help="Keep all pods in one domain of this level.")] = None,
    runtime: Annotated[str | None, typer.Option(help="Declared upper bound, such as 2h.")] = None,
    image: Annotated[str | None, typer.Option()] = None,
    env: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; may be repeated.")] = None,
    more: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE, any other key; may be repeated.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Submit a job as the member named in GPUFLEET_USER."""
    from gpufleet.commands import live

    given = {
        "team": team, "project": project, "command": command, "name": name, "kind": kind, "pods": pods, "gpus": gpus,
        "memory_gib": memory_gib, "like": like, "workload": workload, "profile": profile, "share": share,
        "models": models, "capacity": capacity, "priority": priority, "preemptible": preemptible,
        "checkpoint_interval": checkpoint_interval, "topology_required": topology_required, "runtime": runtime,
        "image": image, "env": live.pairs("--env", env or []), **live.pairs("--set", more or []),
    }  # fmt: skip
    live.submit(_fleet(home), given, as_json=as_json)


@app.command()
def cancel(job: JobName, home: Home = None, as_json: Json = False) -> None:
    """Stop a job for good."""
    from gpufleet.commands import live

    live.cancel(_fleet(home), job, as_json=as_json)


@app.command()
def priority(
    job: JobName, value: Annotated[int, typer.Argument(metavar="N", help="0 to 1000; higher goes first.")],
    home: Home = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Change a job's priority inside its queue."""
    from gpufleet.commands import live

    live.priority(_fleet(home), job, value, as_json=as_json)


@app.command()
def logs(
    job: JobName,
    rank: Annotated[int, typer.Option(help="Which pod.")] = 0,
    attempt: Annotated[int | None, typer.Option(help="Which attempt; default: the newest.")] = None,
    tail: Annotated[int, typer.Option(help="Lines.")] = 200,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What a pod of the job wrote."""
    from gpufleet.commands import live

    live.logs(_fleet(home), job, rank, attempt, tail, as_json=as_json)


@app.command()
def bill(
    start: Annotated[str, typer.Option("--from", help="First day, such as 2026-03-10.")],
    end: Annotated[str, typer.Option("--to", help="The day after the last.")],
    events: Annotated[Path | None, typer.Option(help="Bill this file instead of the fleet's ledger.")] = None,
    rates: Annotated[Path | None, typer.Option(help="With --events: the rates file.")] = None,
    by: Annotated[str, typer.Option(help="team,project or team.")] = "team,project",
    exact: Annotated[bool, typer.Option(help="Nine decimals.")] = False,
    charges: Annotated[Path | None, typer.Option(help="Also write every charge: a CSV (docs/formats-bill.md).")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """What the use of some days costs, by team and project."""
    from gpufleet.commands import money

    if (events is None) != (rates is None):
        raise Invalid("--events and --rates go together.")
    if events is not None and rates is not None:
        raise typer.Exit(
            money.bill_files(events, rates, start, end, by=by, exact=exact, as_json=as_json, charges=charges)
        )
    money.bill_fleet(_fleet(home), start, end, by=by, exact=exact, as_json=as_json, charges=charges)


@app.command()
def doctor(
    migrate: Annotated[bool, typer.Option(help="Set up the database and write the config into it first.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Check the fleet's config, database, worlds and Airflow's settings, and say what to do."""
    from gpufleet.commands import check

    raise typer.Exit(check.doctor(home, migrate=migrate, as_json=as_json))


@app.command()
def token(
    team: Annotated[str, typer.Argument(help="The team whose own Airflow shall reach the portal.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Make a team's token; the one before stops working. It is shown once."""
    from gpufleet.commands import live

    live.token(_fleet(home), team, as_json=as_json)


@app.command()
def controller(every: Annotated[float, typer.Option(help="Seconds between ticks.")] = 1.0, home: Home = None) -> None:
    """Run the resident loop until SIGTERM."""
    from gpufleet.commands import resident

    resident.controller(_fleet(home), every)


app.add_typer(kubernetes.app, name="kubernetes")
capacity.wire(app)
months.wire(app)
app.add_typer(simulations.app, name="simulate")


def _fleet(home: str | None) -> Any:
    from gpufleet.bootstrap import fleet_from

    return fleet_from(home=home)
