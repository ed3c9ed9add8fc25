"""`gpufleet month`: a month of chargeback to date, its close, and what was closed."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

app: Final = typer.Typer(no_args_is_help=True, help="A month of chargeback: show, close, verify, open again.")

Month = Annotated[str, typer.Argument(metavar="MONTH", help="Such as 2026-03.")]
Home = Annotated[str | None, typer.Option("--home", help="The fleet's folder; default: GPUFLEET_HOME.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


@app.command()
def show(month: Month, home: Home = None, as_json: Json = False) -> None:
    """What teams and projects cost in the month's settled days."""
    from gpufleet.formats.statement import statement_json, statement_lines
    from gpufleet.services.months import statement_of

    found = statement_of(_fleet(home), month)
    print(json.dumps(statement_json(found), indent=2) if as_json else "\n".join(statement_lines(found)))


@app.command()
def close(month: Month, home: Home = None, as_json: Json = False) -> None:
    """Nothing in the month changes any more; later facts become corrections. As GPUFLEET_USER, of the platform."""
    from gpufleet.commands.live import me
    from gpufleet.services.months import close_month

    _tell(close_month(_fleet(home), month, me()), as_json=as_json)


@app.command()
def verify(month: Month, home: Home = None, as_json: Json = False) -> None:
    """Whether the month still is what it was closed as."""
    from gpufleet.services.months import verify_month

    _tell(verify_month(_fleet(home), month), as_json=as_json)


@app.command()
def reopen(
    month: Month,
    why: Annotated[str, typer.Option(help="Stands in the audit table.")] = "",
    home: Home = None,
    as_json: Json = False,
) -> None:
    """The logged exception: the days of a closed month may be settled again. As GPUFLEET_USER, of the platform."""
    from gpufleet.commands.live import me
    from gpufleet.services.months import reopen_month

    _tell(reopen_month(_fleet(home), month, why, me()), as_json=as_json)


def _tell(view: dict[str, Any], *, as_json: bool) -> None:
    words = f"{view['month']} is {view['state']}, by {view['closed_by']} at {view['closed_at']}: {view['digest']}"
    print(json.dumps(view, indent=2) if as_json else words)


def _fleet(home: str | None) -> Any:
    from gpufleet.bootstrap import fleet_from

    return fleet_from(home=home)
