"""Teams, projects, members, queues in the database: written from teams.yaml as a whole, read by everyone."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

from sqlalchemy import Connection, delete, insert, select

from gpufleet.model.tenancy import Member, Queue, Role, Team
from gpufleet.store import schema as t
from gpufleet.units import GpuAmount


def replace_tenancy(connection: Connection, teams: tuple[Team, ...], queues: tuple[Queue, ...]) -> None:
    """Make the tables say exactly this; jobs keep the team and queue they were submitted with."""
    for table in (t.member, t.project, t.team_dag, t.quota, t.team, t.queue):
        connection.execute(delete(table))
    for queue in queues:
        _insert_queue(connection, queue)
    for team in teams:
        _insert_team(connection, team)


def _insert_queue(connection: Connection, queue: Queue) -> None:
    connection.execute(
        insert(t.queue).values(
            name=queue.name, parent=queue.parent, weight=queue.weight, min_runtime_s=queue.min_runtime.total_seconds()
        )
    )
    deserved, limit = dict(queue.deserved), dict(queue.limit)
    for model in sorted({*deserved, *limit}):
        connection.execute(
            insert(t.quota).values(
                queue=queue.name,
                model=model,
                deserved_grains=deserved[model].grains if model in deserved else None,
                limit_grains=limit[model].grains if model in limit else None,
            )
        )


def _insert_team(connection: Connection, team: Team) -> None:
    connection.execute(
        insert(t.team).values(
            name=team.name, queue=team.queue, namespace=team.namespace, priority_ceiling=team.priority_ceiling
        )
    )
    for member in team.members:
        connection.execute(insert(t.member).values(team=team.name, login=member.login, role=member.role.value))
    for project in team.projects:
        connection.execute(insert(t.project).values(team=team.name, name=project))
    for dag in team.dags:
        connection.execute(insert(t.team_dag).values(team=team.name, dag_id=dag))


def teams(connection: Connection) -> tuple[Team, ...]:
    """Every team with its members, projects and DAGs, by name."""
    members: dict[str, list[Member]] = defaultdict(list)
    for row in connection.execute(select(t.member).order_by(t.member.c.login)):
        members[row.team].append(Member(row.login, Role(row.role)))
    projects: dict[str, list[str]] = defaultdict(list)
    for row in connection.execute(select(t.project).order_by(t.project.c.name)):
        projects[row.team].append(row.name)
    dags: dict[str, list[str]] = defaultdict(list)
    for row in connection.execute(select(t.team_dag).order_by(t.team_dag.c.dag_id)):
        dags[row.team].append(row.dag_id)
    return tuple(
        Team(
            r.name,
            r.queue,
            tuple(projects[r.name]),
            tuple(members[r.name]),
            tuple(dags[r.name]),
            r.namespace,
            r.priority_ceiling,
        )
        for r in connection.execute(select(t.team).order_by(t.team.c.name))
    )


def queues(connection: Connection) -> tuple[Queue, ...]:
    """The queue tree, by name."""
    deserved: dict[str, list[tuple[str, GpuAmount]]] = defaultdict(list)
    limit: dict[str, list[tuple[str, GpuAmount]]] = defaultdict(list)
    for row in connection.execute(select(t.quota).order_by(t.quota.c.queue, t.quota.c.model)):
        if row.deserved_grains is not None:
            deserved[row.queue].append((row.model, GpuAmount(row.deserved_grains)))
        if row.limit_grains is not None:
            limit[row.queue].append((row.model, GpuAmount(row.limit_grains)))
    return tuple(
        Queue(
            r.name,
            r.parent,
            tuple(deserved[r.name]),
            tuple(limit[r.name]),
            r.weight,
            timedelta(seconds=r.min_runtime_s),
        )
        for r in connection.execute(select(t.queue).order_by(t.queue.c.name))
    )
