"""Looks at every world, writes down what is there, and tells each job's state machine what happened to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from gpufleet.clusters.base import Observation, Phase, PodSeen
from gpufleet.errors import Temporary
from gpufleet.lifecycle.blame import root_cause
from gpufleet.lifecycle.machine import AllOver, AllStarted, AllSucceeded, Disturbed, Event, NothingRuns, PodsFailed
from gpufleet.model.hardware import Node, NodeState
from gpufleet.model.snapshot import PodPlace
from gpufleet.services.advance import advance, operation_name
from gpufleet.services.fleet import Fleet
from gpufleet.services.meter import meter_nodes, meter_pods
from gpufleet.services.progress import read_progress
from gpufleet.store import jobs, leases, memory, operations, places, world
from gpufleet.store.jobs import AttemptRow

log = structlog.get_logger()

MISSING_GRACE = timedelta(seconds=3)
"""A launched attempt without pods must be missing in two looks this far apart before we believe it."""

SETTLED = timedelta(minutes=10)
"""An attempt that ran so long has shown its peak: training has taken its steps and saved, a replica has served."""

Seen = dict[tuple[str, int], list[PodSeen]]
PeaksSaid = dict[tuple[str, int], int | None]
"""(job, attempt) -> the peak its own progress tells of, in MiB."""


def observe(fleet: Fleet) -> tuple[Observation, ...]:
    """Read every world and record it; a world that does not answer keeps its last facts and grows stale."""
    looks = []
    for name, cluster in sorted(fleet.clusters.items()):
        try:
            seen = cluster.observe()
        except Temporary as e:
            log.warning("cluster not seen", cluster=name, error=str(e))
            continue
        progress = read_progress(fleet)
        said = {(job, attempt): facts.get("peak_memory_mib") for job, attempt, facts in progress.found}
        with fleet.database.write() as connection:
            _record(connection, fleet, seen, said)
            progress.write(connection)
        looks.append(seen)
    _observe_clouds(fleet)
    return tuple(looks)


def _observe_clouds(fleet: Fleet) -> None:
    for name, cloud in sorted(fleet.clouds.items()):
        try:
            offerings, instances = cloud.offerings(), cloud.instances()
        except Temporary as e:
            log.warning("cloud not seen", cloud=name, error=str(e))
            continue
        with fleet.database.write() as connection:
            world.put_offerings(connection, name, offerings, fleet.clock.now())
            world.put_instances(connection, name, instances, fleet.clock.now())


def _record(connection: Connection, fleet: Fleet, seen: Observation, said: PeaksSaid) -> None:
    now = fleet.clock.now()
    meter_nodes(connection, seen, now)
    if world.put_nodes(connection, seen.cluster, seen.nodes, now):
        leases.touch(connection)
    world.put_cluster(connection, seen.cluster, seen.levels, seen.at, seen.cluster_time)
    for notice in seen.notices:
        world.hear(connection, notice, now)
    pods: Seen = defaultdict(list)
    for pod in seen.pods:
        pods[pod.job, pod.attempt].append(pod)
    meter_pods(connection, pods, seen.cluster_time, now)
    nodes = {n.name: n for n in seen.nodes}
    planned, launching = places.live_places(connection), operations.open_names(connection, "launch")
    for attempt in jobs.live_attempts(connection):
        if attempt.cluster == seen.cluster:
            key = (attempt.job, attempt.number)
            own = pods.get(key, [])
            memory.note(connection, *key, _peak(attempt, own, said.get(key), seen.at), now)
            is_launching = operation_name("launch", *key) in launching
            look = _Look(connection, fleet, seen, nodes, attempt, own, planned.get(key, ()), is_launching)
            event = _event(look)
            if event is not None:
                advance(connection, fleet, attempt.job, event, now)


@dataclass(frozen=True, slots=True)
class _Look:
    """One attempt at one look: what was planned for it, what is there of it."""

    connection: Connection
    fleet: Fleet
    seen: Observation
    nodes: dict[str, Node]
    attempt: AttemptRow
    pods: list[PodSeen]
    wanted: tuple[PodPlace, ...]
    is_launching: bool
    """Whether its launch is decided and not done yet."""


def _peak(attempt: AttemptRow, pods: list[PodSeen], said: int | None, at: datetime) -> memory.Peak:
    """The GPU memory an attempt used, of its worst GPU: as the cluster saw it, as the job said."""
    ran_to_its_end = bool(pods) and all(p.phase is Phase.SUCCEEDED for p in pods)
    ran_long = attempt.state == "running" and attempt.running_at is not None and at - attempt.running_at >= SETTLED
    return memory.Peak(
        device_mib=max((p.peak_memory_mib for p in pods if p.peak_memory_mib), default=None),
        allocator_mib=said,
        killed=any(p.reason == "memory" for p in pods),
        settled=ran_to_its_end or ran_long,
    )


def _event(look: _Look) -> Event | None:
    """What this look says of one attempt, the most telling thing first."""
    attempt, pods = look.attempt, look.pods
    if len(pods) >= len(look.wanted) and all(p.phase is Phase.SUCCEEDED for p in pods):
        return AllSucceeded()
    if attempt.state == "stopping":
        return None if look.is_launching or any(not p.phase.is_over for p in pods) else AllOver()
    if leaving := _leaving(look.connection, attempt, [p.node for p in look.wanted], look.nodes):
        return Disturbed(leaving)
    if not pods:
        return None if look.is_launching else _missing(look.connection, attempt, look.seen)
    failed = tuple((p.rank, p.exit_code, p.reason) for p in pods if p.phase in (Phase.FAILED, Phase.LOST))
    if failed:
        why, own = root_cause(failed)
        return PodsFailed(why) if own else Disturbed(why)
    return _started(look) if attempt.state == "starting" else None


def _leaving(connection: Connection, attempt: AttemptRow, names: list[str], nodes: dict[str, Node]) -> str | None:
    """Why the attempt must leave: a node of it is being reclaimed, was lost, or is not there any more."""
    for name in names:
        node = nodes.get(name)
        if node is not None and node.state is NodeState.RECLAIMING:
            _remember_interruption(connection, attempt, name)
            return f"the cloud takes back {name}"
        if node is None or node.state is NodeState.LOST:
            return f"node {name} was lost"
    return None


def _remember_interruption(connection: Connection, attempt: AttemptRow, node: str) -> None:
    notice = next((n for n in world.interruptions(connection) if n.node == node), None)
    if notice is not None:
        jobs.change_attempt(connection, attempt.job, attempt.number, interruption=notice.id)


def _missing(connection: Connection, attempt: AttemptRow, seen: Observation) -> Event | None:
    """No pods: nothing yet if the launch is open, else believed only when seen twice."""
    launch = operations.state_of(connection, operation_name("launch", attempt.job, attempt.number))
    if launch != "done":
        return None
    if attempt.missing_since is None:
        jobs.change_attempt(connection, attempt.job, attempt.number, missing_since=seen.at)
        return None
    if seen.at - attempt.missing_since < MISSING_GRACE:
        return None
    return NothingRuns("its pods vanished")


def _started(look: _Look) -> Event | None:
    up = [p for p in look.pods if p.phase in (Phase.RUNNING, Phase.SUCCEEDED)]
    if len(up) == len(look.wanted):
        return AllStarted()
    if look.seen.at - look.attempt.decided_at > look.fleet.recovery.start_timeout:
        late = [p for p in look.pods if p.phase is Phase.PENDING]
        told = next((f": rank {p.rank} waits ({p.reason})" for p in late if p.reason), "")
        waited = look.fleet.recovery.start_timeout.total_seconds()
        return Disturbed(f"not all pods ran after {waited:g} s{told}", tuple(sorted({p.node for p in late})))
    return None
