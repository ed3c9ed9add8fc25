"""What bought machines cost today, in all and by team."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from sqlalchemy import Connection, Row

from gpufleet.procurement.guards import Spent
from gpufleet.store import operations, world

NANO: Final = 1_000_000_000
HOUR: Final = timedelta(hours=1)


def spent(connection: Connection, now: datetime) -> Spent:
    """This day (UTC) up to midnight, with every machine that is there now staying until then; an effect that is being
    carried out counts like a machine that is there."""
    begin = datetime(now.year, now.month, now.day, tzinfo=now.tzinfo)
    rows = world.instances_since(connection, begin)
    teams = _teams(connection, rows)
    by_team: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows:
        by_team[teams.get(row.token, "")] += _cost(row, begin)
    there = sum(row.ended_at is None for row in rows)
    left = Spent(now).hours_left
    for team, hourly, count in _coming(connection):
        by_team[team] += hourly * left
        there += count
    return Spent(now, sum(by_team.values(), Fraction(0)), dict(by_team), there)


def _cost(row: Row[Any], begin: datetime) -> Fraction:
    """Of one machine on the day that begins then."""
    since = max(row.recorded_at, begin)
    until = row.ended_at or begin + timedelta(days=1)
    return Fraction(row.price_nano, NANO) * Fraction(max(timedelta(0), until - since) // timedelta(seconds=1), 3600)


def _teams(connection: Connection, rows: tuple[Row[Any], ...]) -> dict[str, str]:
    """By token the team that it was bought for."""
    bought = operations.named(connection, {f"buy/{row.token}" for row in rows})
    return {str(b.args["token"]): str(b.args.get("team", "")) for b in bought.values()}


def _coming(connection: Connection) -> list[tuple[str, Fraction, int]]:
    """Purchases under way: team, cost an hour, machines."""
    under_way = operations.of_kind(connection, "buy", operations.OPEN)
    return [(str(b.args.get("team", "")), Fraction(b.args.get("hourly", "0")), int(b.args["count"])) for b in under_way]
