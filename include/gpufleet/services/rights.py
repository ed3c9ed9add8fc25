"""Who may do what: members act for their team, leads and the platform decide, finance reads."""

from __future__ import annotations

from collections.abc import Iterable

from gpufleet.errors import Forbidden
from gpufleet.model.tenancy import Principal, Role, Team


def role_in(team: Team, principal: Principal) -> Role | None:
    """The role of the login in this team, or None."""
    return next((m.role for m in team.members if m.login == principal.login), None)


def is_platform(teams: Iterable[Team], principal: Principal) -> bool:
    """Administrators, and whoever holds the platform role in any team, act for every team."""
    return principal.is_admin or any(role_in(team, principal) is Role.PLATFORM for team in teams)


def check_platform(teams: Iterable[Team], principal: Principal, what: str) -> None:
    """Raises Forbidden for who is not of the platform."""
    if not is_platform(teams, principal):
        raise Forbidden(f"'{principal.login}' may not {what}: that is for the platform's people.")


def may_act_for(teams: Iterable[Team], team: Team, principal: Principal) -> bool:
    """Submit and cancel for the team: its members but those of finance, and the platform."""
    return is_platform(teams, principal) or role_in(team, principal) in (Role.MEMBER, Role.LEAD)


def may_decide_for(teams: Iterable[Team], team: Team, principal: Principal) -> bool:
    """Priorities of other people's jobs, the team's token: its leads, and the platform."""
    return is_platform(teams, principal) or role_in(team, principal) is Role.LEAD


def check_priority(teams: Iterable[Team], team: Team, principal: Principal, priority: int) -> None:
    """A team's own people stay below its ceiling; raises Forbidden. The platform may go above it."""
    if priority > team.priority_ceiling and not is_platform(teams, principal):
        raise Forbidden(
            f"priority {priority} is above the ceiling of team '{team.name}', {team.priority_ceiling}; "
            "ask the platform to set it."
        )
