"""Tokens with which a team's own Airflow reaches the portal. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import delete, insert, select

from gpufleet.errors import Forbidden, Invalid
from gpufleet.model.tenancy import Principal
from gpufleet.services.fleet import Fleet
from gpufleet.services.rights import may_decide_for
from gpufleet.store import ledger, tenancy
from gpufleet.store import schema as t


def make_token(fleet: Fleet, team: str, principal: Principal) -> str:
    """A new token for the team, made by its lead; the one before stops working. It is shown once."""
    token = f"gpf_{secrets.token_urlsafe(32)}"
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        teams = tenancy.teams(connection)
        found = next((known for known in teams if known.name == team), None)
        if found is None:
            raise Invalid(f"team '{team}' is not known; known are {', '.join(known.name for known in teams)}.")
        if not may_decide_for(teams, found, principal):
            raise Forbidden(f"'{principal.login}' is not a lead of team '{team}'; only a lead makes its token.")
        connection.execute(delete(t.team_token).where(t.team_token.c.team == team))
        connection.execute(insert(t.team_token).values(digest=_digest(token), team=team, made_at=now))
        ledger.audit(connection, now, principal.login, "token", team)
    return token


def team_of_token(fleet: Fleet, token: str) -> str | None:
    """The team it belongs to, or None."""
    if not token:
        return None
    with fleet.database.read() as connection:
        return connection.execute(select(t.team_token.c.team).where(t.team_token.c.digest == _digest(token))).scalar()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
