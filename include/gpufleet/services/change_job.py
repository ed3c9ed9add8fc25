"""Cancel a job, or change its priority: idempotent, checked against who asks."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from gpufleet.errors import Forbidden, Invalid, NotFound
from gpufleet.formats.request_readers import PRIORITIES
from gpufleet.lifecycle.machine import CancelAsked
from gpufleet.model.tenancy import Principal
from gpufleet.services.advance import advance
from gpufleet.services.fleet import Fleet
from gpufleet.services.rights import check_priority, is_platform, may_act_for, may_decide_for
from gpufleet.services.submit_job import Origin
from gpufleet.store import jobs, leases, ledger, tenancy
from gpufleet.store import schema as t
from gpufleet.store.jobs import JobRow

SYSTEM = Principal("airflow", is_admin=True)
"""Acts for a task that Airflow itself says is over."""


def find_job(connection: Connection, text: str, *, whole: bool = False) -> JobRow:
    """The one job a person means by an id, a name, or the beginning of an id; raises NotFound or Invalid otherwise.

    `whole`: for a change the beginning alone is not enough, a slip of the hand must not stop somebody's work.
    """
    found = jobs.find(connection, text) if text.isprintable() and text else ()
    if found and whole and found[0] != text and all(_name(connection, job) != text for job in found):
        raise Invalid(f"'{text}' is only the beginning of {found[0]}; give the whole id, or the job's name.")
    if not found:
        raise NotFound(f"there is no job '{text}'; 'gpufleet jobs' lists them.")
    if len(found) > 1:
        raise Invalid(f"'{text}' may mean {', '.join(found[:5])}; give more of the id.")
    row = jobs.get(connection, found[0])
    if row is None:
        raise NotFound(f"there is no job '{text}'.")
    return row


def _name(connection: Connection, job: str) -> str:
    row = jobs.get(connection, job)
    return row.job.name if row else ""


def cancel_job(fleet: Fleet, text: str, principal: Principal, why: str = "") -> str:
    """Stop it for good; one that has ended stays as it is. Returns its id."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        row = find_job(connection, text, whole=True)
        _require_member(connection, row, principal)
        reason = why or f"cancelled by {principal.login}"
        if advance(connection, fleet, row.job.id, CancelAsked(reason), now):
            ledger.audit(connection, now, principal.login, "cancel", row.job.id, reason)
        return row.job.id


def cancel_claim(fleet: Fleet, origin: Origin, why: str) -> bool:
    """Airflow says this try is over: cancel its job, unless a newer try has claimed it since. True when cancelled."""
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        row = connection.execute(select(t.claim).where(t.claim.c.key == origin.key)).first()
        if row is None or row.try_number > origin.try_number or not row.live:
            return False
        connection.execute(update(t.claim).where(t.claim.c.key == origin.key).values(live=False))
        changed = advance(connection, fleet, row.job, CancelAsked(why), now)
        if changed:
            ledger.audit(connection, now, SYSTEM.login, "cancel", row.job, why)
        return changed


def cancel_run(fleet: Fleet, dag_id: str, run_id: str, why: str) -> int:
    """A whole run of Airflow is over: cancel what its tasks still hold. Returns how many jobs that was."""
    claims = [c for c in live_claims(fleet) if (c.dag_id, c.run_id) == (dag_id, run_id)]
    return sum(cancel_claim(fleet, claim, why) for claim in claims)


def live_claims(fleet: Fleet) -> tuple[Origin, ...]:
    """Tries of Airflow that wait for a job which has not ended."""
    with fleet.database.read() as connection:
        query = select(t.claim).join(t.job, t.job.c.id == t.claim.c.job)
        rows = connection.execute(query.where(t.claim.c.live, t.job.c.state.not_in(jobs.ENDED)).order_by(t.claim.c.key))
        return tuple(Origin(r.dag_id, r.run_id, r.task_id, r.map_index, r.try_number) for r in rows)


def set_priority(fleet: Fleet, text: str, priority: int, principal: Principal) -> str:
    """A lead (or the platform) changes the priority inside the team's queue. Returns the job's id."""
    if priority not in PRIORITIES:
        raise Invalid(f"priority must be from 0 to 1000, not {priority}.")
    now = fleet.clock.now()
    with fleet.database.write() as connection:
        row = find_job(connection, text, whole=True)
        _require_member(connection, row, principal, lead=True)
        _require_below_ceiling(connection, row, principal, priority)
        if row.is_over:
            raise Invalid(f"job {row.job.id} has ended ({row.state}); its priority means nothing any more.")
        jobs.change(connection, row.job.id, priority=priority)
        ledger.audit(connection, now, principal.login, "priority", row.job.id, f"{row.job.priority} -> {priority}")
        leases.touch(connection)
        return row.job.id


def _require_below_ceiling(connection: Connection, row: JobRow, principal: Principal, priority: int) -> None:
    teams = tenancy.teams(connection)
    for team in (team for team in teams if team.name == row.job.team):
        check_priority(teams, team, principal, priority)


def _require_member(connection: Connection, row: JobRow, principal: Principal, *, lead: bool = False) -> None:
    teams = tenancy.teams(connection)
    team = next((team for team in teams if team.name == row.job.team), None)
    if team is None:  # the team was taken out of teams.yaml while its job lived
        if not is_platform(teams, principal):
            raise Forbidden(f"only the platform may change jobs of '{row.job.team}', a team that is no more.")
        return
    if not may_act_for(teams, team, principal):
        raise Forbidden(f"'{principal.login}' may not change jobs of team '{row.job.team}'.")
    if lead and row.job.submitted_by != principal.login and not may_decide_for(teams, team, principal):
        raise Forbidden(f"only a lead of team '{team.name}' may change the priority of someone else's job.")
