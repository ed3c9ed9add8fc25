"""What capacity costs and what is bought: `gpufleet break-even` on a file, `gpufleet capacity` on the live fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

app: Final = typer.Typer(no_args_is_help=True, help="What is to be bought, and a person's yes or no to it.")

Home = Annotated[str | None, typer.Option("--home", help="The fleet's folder; default: GPUFLEET_HOME.")]
Name = Annotated[str, typer.Argument(metavar="PURCHASE", help="As 'gpufleet capacity plan' names it.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def wire(root: typer.Typer) -> None:
    """Hang the verbs into the command line."""
    root.command(name="break-even")(break_even)
    root.add_typer(app, name="capacity")


def break_even(
    source: Annotated[Path, typer.Option("--input", help="Owned hardware and the cloud mix (docs/break-even.md).")],
    chart: Annotated[Path | None, typer.Option(help="Also draw it: a PNG.")] = None,
    as_json: Json = False,
) -> None:
    """When owned hardware has paid for itself against the cloud."""
    from gpufleet.commands import procurement

    raise typer.Exit(procurement.break_even(source, chart=chart, as_json=as_json))


@app.command()
def plan(home: Home = None, as_json: Json = False) -> None:
    """Purchases that wait for a yes, what was bought, and what a portfolio for the known demand would be."""
    from gpufleet.commands import procurement

    procurement.plan(_fleet(home), as_json=as_json)


@app.command()
def approve(name: Name, home: Home = None, as_json: Json = False) -> None:
    """Let a purchase be made, as the member named in GPUFLEET_USER (of the platform)."""
    from gpufleet.commands import procurement

    procurement.approve(_fleet(home), name, as_json=as_json)


@app.command()
def reject(
    name: Name,
    why: Annotated[str, typer.Option(help="For the audit table.")] = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Turn a purchase down; one as dear is not asked for again for a day."""
    from gpufleet.commands import procurement

    procurement.reject(_fleet(home), name, why, as_json=as_json)


def _fleet(home: str | None) -> Any:
    from gpufleet.bootstrap import fleet_from

    return fleet_from(home=home)
