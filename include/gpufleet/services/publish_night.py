"""Checks a settled day and publishes the month to date: FOCUS, workbook, statements, journal, summaries, manifest.

A check that fails, or a file that cannot be written, publishes nothing: what was published before stays as it was.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import structlog

from gpufleet import __version__
from gpufleet.chargeback.days import EPOCH, first_instant
from gpufleet.chargeback.finance import Finance
from gpufleet.chargeback.rates import PLATFORM, Rates
from gpufleet.errors import Invalid, Permanent, Temporary
from gpufleet.exports import checks, focus, focus_files, focus_tables, journal, pages, publish, summaries, workbook
from gpufleet.formats.rates import day as day_of
from gpufleet.formats.rates import rates_of
from gpufleet.model.charge import Charge
from gpufleet.model.statement import Statement, money
from gpufleet.services.fleet import Fleet
from gpufleet.services.month_charges import Month, finance, month_charges, month_named
from gpufleet.services.show_month import statement_of
from gpufleet.store import charges as stored
from gpufleet.store import ledger, months, tenancy

FILES: Final = {
    focus_files.CSV: "every charge of the month, FOCUS 1.4",
    focus_files.PARQUET: "the same with exact decimals",
    "focus_billing_period.csv": "whether the month is open or closed, FOCUS 1.4",
    "focus_contract_commitment.csv": "commitments and what is paid for them, FOCUS 1.4",
    "focus_invoice_detail.csv": "what each team is invoiced, once the month is closed, FOCUS 1.4",
    "statement.xlsx": "teams, projects, jobs and days as a workbook",
    "journal.csv": "cost centre, account and amount, to be booked",
    "summary_by_team.csv": "totals by team",
    "summary_by_project.csv": "totals by team and project",
    "summary_by_job.csv": "totals by team, project and job",
    "summary_by_day.csv": "totals by day and team",
}
log = structlog.get_logger()
ATTEMPTS: Final = 3
UNASSIGNED: Final = "unassigned"
"""The cost centre of all, until finance.yaml names any."""


def check_day(fleet: Fleet, day: str) -> dict[str, Any]:
    """Raises Permanent with every failed check; answers with how many charges were looked at."""
    first = day_of(day)
    with fleet.database.read() as connection:
        row = ledger.day(connection, day)
        if row is None:
            raise Invalid(f"{day} is not settled: run chargeback_nightly for it.")
        rates = rates_of(ledger.rates(connection), "rates (as applied)")
        known = ledger.told_teams(connection) | {team.name for team in tenancy.teams(connection)}
        expected = _expected(row, rates, known, ledger.told_nodes(connection))
        charges = stored.charges(connection, first, first + timedelta(days=1))
        looked_at, failed = checks.check_night(charges, expected, day, fleet.home / "data-docs" / day)
    for sentence in failed:
        log.error(sentence)
    if failed:
        raise Permanent(f"{day} is not published: {'; '.join(failed)}. Data Docs: {fleet.home / 'data-docs' / day}.")
    return {"day": day, "charges": looked_at}


def _expected(row: Any, rates: Rates, known: frozenset[str], nodes: frozenset[str]) -> checks.Expected:
    """From the day's answer, which was made and checked apart from its charges."""
    half = 5 * 10 ** (8 - rates.decimals)
    hours = sum(Decimal(line["gpu_hours"]) for line in row.answer["lines"]) + Decimal(row.answer["idle"]["gpu_hours"])
    weighted = {team for cost in rates.shared_costs if isinstance(cost.split, Mapping) for team in cost.split}
    named = {commitment.owner for commitment in rates.commitments} | weighted
    return checks.Expected(
        total_nano=row.total_nano,
        hours_nano=int(hours * 10**9),
        slack_nano=half,
        hours_slack_nano=500,
        teams=frozenset({PLATFORM, *known, *named}),
        nodes=nodes,
        dearest_nano=checks.DEAREST * 10 ** (2 - min(2, rates.decimals)),
    )


def publish_night(fleet: Fleet, day: str) -> dict[str, Any]:
    """The month up to and with `day`; the same ledger gives the same bytes, and is published once.

    All files are made of one state of the books: where those change meanwhile, they are made again.
    """
    last = day_of(day)
    month = replace(month_named(f"{last:%Y-%m}"), end=last + timedelta(days=1))
    with tempfile.TemporaryDirectory(prefix="gpufleet-night-") as temporary:
        for attempt in range(ATTEMPTS):
            folder, before = Path(temporary) / str(attempt), _state(fleet, month)
            folder.mkdir()
            manifest = publish.manifest_of(folder, _write_all(fleet, folder, last))
            if _state(fleet, month) == before:
                return _published(fleet, folder, manifest, last)
    raise Temporary(f"{day} is not published: its month changed {ATTEMPTS} times while its files were written.")


def _published(fleet: Fleet, folder: Path, manifest: dict[str, Any], last: date) -> dict[str, Any]:
    where = _place(fleet, finance(fleet))
    name = publish.publish(where, folder, manifest)
    with fleet.database.read() as connection:
        closed = set(months.closed_months(connection))
    publish.thin_out(where, last, finance(fleet).keep_days, closed)
    told = {key: manifest[key] for key in ("day", "charges", "total", "currency")}
    return {**told, "published": name, "to": where}


def _state(fleet: Fleet, month: Month) -> tuple[Any, ...]:
    with fleet.database.read() as connection:
        return months.state_of(connection, month.begin, month.end)


def _place(fleet: Fleet, finance: Finance) -> str:
    return finance.publish_to if "://" in finance.publish_to else str(fleet.home / finance.publish_to)


def _write_all(fleet: Fleet, folder: Path, last: date) -> dict[str, Any]:
    """Every file of the night; answers with what the manifest says of all of them."""
    policy, found = finance(fleet), statement_of(fleet, f"{last:%Y-%m}", last + timedelta(days=1))
    with fleet.database.read() as connection:
        told = ledger.rates(connection)
    rates = rates_of(told, "rates (as applied)")
    count = _focus(fleet, folder, found, rates, policy)
    workbook.write_workbook(folder / "statement.xlsx", found, list(_rates_rows(rates)))
    default = policy.default_cost_centre or ("" if policy.cost_centres else UNASSIGNED)
    booked = journal.bookings(found, policy.accounts, policy.cost_centres, default)
    (folder / "journal.csv").write_text(journal.journal_csv(found, booked))
    for level in summaries.LEVELS:
        (folder / f"summary_by_{level}.csv").write_text(summaries.summary_csv(found, level))
    _pages(folder, found)
    return {
        "focus": focus.VERSION, "product": __version__, "month": f"{last:%Y-%m}", "day": last.isoformat(),
        "standing": found.standing.value, "ledger_revision": found.revision, "currency": found.currency,
        "timezone": rates.timezone.key, "rates_sha256": sha256(json.dumps(told, sort_keys=True).encode()).hexdigest(),
        "total": money(found.total, found.decimals), "charges": count,
    }  # fmt: skip


def _pages(folder: Path, found: Statement) -> None:
    teams = sorted({row.team for row in found.rows})
    names = {team: f"teams/{n:03d}-{_slug(team)}.html" for n, team in enumerate(teams, 1)}
    (folder / "teams").mkdir()
    for team, name in names.items():
        (folder / name).write_text(pages.team_page(found, team))
    files = {name: what for name, what in FILES.items() if (folder / name).exists()}
    (folder / "index.html").write_text(pages.index_page(found, files, names))


def _focus(fleet: Fleet, folder: Path, found: Statement, rates: Rates, finance: Finance) -> int:
    whole = month_named(f"{found.begin:%Y-%m}")
    delivery = focus.Delivery(
        account=fleet.id,
        currency=found.currency,
        issuer=finance.issuer,
        period_begin=_instant(whole.begin, rates),
        period_end=_instant(whole.end, rates),
        standing=found.standing,
        revision=found.revision,
    )
    _small_tables(fleet, folder, found, rates, delivery)
    return focus_files.write_files(folder, _charges(fleet, replace(whole, end=found.end)), delivery)


def _small_tables(fleet: Fleet, folder: Path, found: Statement, rates: Rates, delivery: focus.Delivery) -> None:
    (folder / "focus_billing_period.csv").write_text(focus_tables.billing_period_csv(delivery, found.made_at))
    commitments = focus_tables.contract_commitment_csv(rates.commitments, delivery)
    (folder / "focus_contract_commitment.csv").write_text(commitments)
    whole = month_named(f"{found.begin:%Y-%m}")
    with fleet.database.read() as connection:
        closed = months.standing_close(connection, whole.id)
    if closed is not None:
        told = focus_tables.invoice_detail_csv(_charges(fleet, whole), delivery, closed.closed_at)
        (folder / "focus_invoice_detail.csv").write_text(told)


def _charges(fleet: Fleet, month: Month) -> Iterator[Charge]:
    with fleet.database.read() as connection:
        yield from month_charges(connection, month)


def _instant(day: date, rates: Rates) -> datetime:
    return (EPOCH + timedelta(microseconds=first_instant(day, rates.timezone))).astimezone(UTC)


def _slug(team: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in team)[:40]


def _rates_rows(rates: Rates) -> Iterator[tuple[str, str, str]]:
    for price in rates.prices:
        each = (
            f"{price.per_gpu_hour} per GPU-hour"
            if price.per_node_hour is None
            else f"{price.per_node_hour} per node-hour"
        )
        yield "Price", ", ".join(f"{k} {v}" for k, v in sorted(price.match.items())) or "everything else", each
    for c in rates.commitments:
        yield (
            "Commitment",
            f"{c.id}, {c.gpus} GPUs, owner {c.owner}",
            f"{c.upfront} upfront, {c.per_gpu_hour} per GPU-hour",
        )
    for cost in rates.shared_costs:
        yield "Shared cost", f"{cost.name}, {cost.begin} to {cost.end}", str(cost.amount)
    yield "Over-quota factor", "", str(rates.over_quota_factor)
