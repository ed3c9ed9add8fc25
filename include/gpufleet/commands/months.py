"""`gpufleet month` and `gpufleet reconcile`: a month's statement, its close, and invoices held against it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

app: Final = typer.Typer(no_args_is_help=True, help="A month's statement, and its close.")

Home = Annotated[str | None, typer.Option("--home", help="The fleet's folder; default: GPUFLEET_HOME.")]
MonthName = Annotated[str, typer.Argument(metavar="MONTH", help="Such as 2026-03.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]


def wire(root: typer.Typer) -> None:
    """Hang the verbs into the command line."""
    root.add_typer(app, name="month")
    root.command(name="reconcile")(reconcile)


@app.command()
def show(month: MonthName, home: Home = None, as_json: Json = False) -> None:
    """What the month cost so far, by team and project, with budgets."""
    from gpufleet.formats.month import month_lines
    from gpufleet.services.show_month import month_view

    view = month_view(_fleet(home), month)
    _say(view, month_lines(view), as_json=as_json)


@app.command()
def close(month: MonthName, home: Home = None, as_json: Json = False) -> None:
    """Close the month, as the member named in GPUFLEET_USER (of finance or the platform): nothing in it changes any more."""
    from gpufleet.commands.live import me
    from gpufleet.services.close_month import close_month

    told = close_month(_fleet(home), month, me())
    _say(told, [f"{month} is closed: {told['rows']} charges, sha256 {told['sha256']}"], as_json=as_json)


@app.command()
def reopen(
    month: MonthName,
    why: Annotated[str, typer.Option(help="For the audit table; it is asked for.")],
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Open a closed month again, as the member named in GPUFLEET_USER (of the platform); its old hash is kept."""
    from gpufleet.commands.live import me
    from gpufleet.services.close_month import reopen_month

    reopen_month(_fleet(home), month, me(), why)
    _say({"month": month, "state": "open"}, [f"{month} is open again"], as_json=as_json)


@app.command()
def verify(month: MonthName, home: Home = None, as_json: Json = False) -> None:
    """Compare a closed month with its hash; exit status 1 where it was changed."""
    from gpufleet.services.close_month import verify_month

    told = verify_month(_fleet(home), month)
    how = "holds" if told["holds"] else f"does NOT hold: the charges stored now have sha256 {told['now']}"
    _say(told, [f"{month} {how}: {told['rows']} charges, sha256 {told['sha256']}"], as_json=as_json)
    raise typer.Exit(0 if told["holds"] else 1)


def reconcile(
    invoice: Annotated[Path, typer.Option(help="The provider's export: .csv, .csv.gz, .jsonl or .parquet.")],
    provider: Annotated[str, typer.Option(help="aws, gcp or azure.")],
    month: Annotated[str | None, typer.Option(help="Such as 2026-03; default: the invoice's only month.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Hold an invoice against our charges, and book what differs (docs/reconciliation.md)."""
    from gpufleet.commands.live import me
    from gpufleet.formats.month import reconciliation_lines
    from gpufleet.services.reconcile_invoice import reconcile_invoice

    report = reconcile_invoice(_fleet(home), invoice, provider, me(), month)
    _say(report, reconciliation_lines(report), as_json=as_json)


def _say(told: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    from gpufleet.commands.live import show as show_json

    if as_json:
        show_json(told)
    else:
        print("\n".join(lines))


def _fleet(home: str | None) -> Any:
    from gpufleet.bootstrap import fleet_from

    return fleet_from(home=home)
