"""`gpufleet simulate`: the words of each simulation; what they do is loaded when it is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

app = typer.Typer(no_args_is_help=True, help="Replays and made-up worlds: what the engine is worth.")


@app.command()
def openb(
    pods: Annotated[Path, typer.Option(help="The workload's pods, CSV or gzip.")],
    nodes: Annotated[Path, typer.Option(help="The cluster's nodes, CSV.")],
    policy: Annotated[str, typer.Option(help="random, dotprod, gpupacking, bestfit, gpuclustering, fgd or gpufleet.")],
    order: Annotated[Path | None, typer.Option(help="Golden pod orders, one row per seed.")] = None,
    ties: Annotated[Path | None, typer.Option(help="Golden tie ranks of the nodes, one row per seed.")] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 10,
    stop: Annotated[float, typer.Option(help="End when so much of the GPUs has been asked for.")] = 1.3,
    moves: Annotated[float, typer.Option(help="The part of placed pods that may be moved (gpufleet only).")] = 0.0,
    mix: Annotated[
        str, typer.Option(help="known (as FGD has it) or learnt from the arrivals (gpufleet only).")
    ] = "known",
    as_json: Json = False,
) -> None:
    """Replay an openb workload: pods arrive one by one, nothing departs; how much of the GPUs is given out."""
    from gpufleet.commands import simulate as simulated

    raise typer.Exit(
        simulated.openb(
            pods, nodes, policy, order=order, ties=ties, seeds=seeds, stop=stop, moves=moves, mix=mix, as_json=as_json
        )
    )


@app.command()
def fleet(
    spec: Annotated[Path, typer.Option(help="What fleet, what work, how fast (docs/benchmarks.md).")],
    policy: Annotated[str, typer.Option(help="kube-default, binpack or gpufleet.")],
    seeds: Annotated[int, typer.Option(help="How many seeds.")] = 10,
    as_json: Json = False,
) -> None:
    """A fleet in simulated time: jobs arrive, run at a speed that depends on their places, end, are stopped, move."""
    from gpufleet.commands import simulate as simulated

    raise typer.Exit(simulated.fleet(spec, policy, seeds=seeds, as_json=as_json))


@app.command()
def spot(
    trace: Annotated[Path, typer.Option(help="Launch counts, CSV: a row every ten minutes, a column for each zone.")],
    prices: Annotated[Path, typer.Option(help="JSON: zone -> [spot, on-demand] per GPU-hour.")],
    gang: Annotated[int, typer.Option(help="One-GPU machines, all in one zone or none.")],
    work: Annotated[str, typer.Option(help="What must be done, such as 48h.")],
    deadline: Annotated[str, typer.Option(help="From the start, such as 60h.")],
    checkpoint: Annotated[str, typer.Option(help="The interval of saves, such as 10m.")],
    policy: Annotated[str, typer.Option(help="on-demand, spot, greedy, uniform-progress or gpufleet.")],
    zones: Annotated[str, typer.Option(help="all, or names and beginnings of names, separated by commas.")] = "all",
    starts: Annotated[int, typer.Option(help="A job at every so many rows of the trace.")] = 71,
    optimum: Annotated[bool, typer.Option("--optimum", help="Also the least cost with the future known.")] = False,
    as_json: Json = False,
) -> None:
    """A gang with a deadline on a recorded spot market: what it costs against on-demand only, and whether it is in time."""
    from gpufleet.commands import simulate_spot

    asked = simulate_spot.Asked(
        trace, prices, gang, zones, work, deadline, checkpoint, policy, starts=starts, optimum=optimum
    )
    raise typer.Exit(simulate_spot.spot(asked, as_json=as_json))
