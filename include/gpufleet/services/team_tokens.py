"""Tokens with which a team's own Airflow reaches the portal. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import secrets

from sqlalchemy import delete, insert, select

from gpufleet.errors import Invalid
from gpufleet.services.fleet import Fleet
from gpufleet.store import ledger, tenancy
from gpufleet.store import schema as t


def make_token(fleet: Fleet, team: str, who: str) -> str:
    """A new token for the team; the ones before stop working. It is shown once."""
    token = f"gpf_{secrets.token_urlsafe(32)}"
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        names = [known.name for known in tenancy.teams(connection)]
        if team not in names:
            raise Invalid(f"team '{team}' is not known; known are {', '.join(names)}.")
        connection.execute(delete(t.team_token).where(t.team_token.c.team == team))
        connection.execute(insert(t.team_token).values(digest=_digest(token), team=team, made_at=now))
        ledger.audit(connection, now, who, "token", team)
    return token


def team_of_token(fleet: Fleet, token: str) -> str | None:
    """The team it belongs to, or None."""
    if not token:
        return None
    with fleet.database.read() as connection:
        return connection.execute(select(t.team_token.c.team).where(t.team_token.c.digest == _digest(token))).scalar()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
