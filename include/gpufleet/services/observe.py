"""Looks at every world, writes down what is there, and tells each job's state machine what happened to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from sqlalchemy import Connection

from gpufleet.clusters.base import Observation, Phase, PodSeen
from gpufleet.errors import Temporary
from gpufleet.lifecycle.blame import root_cause
from gpufleet.lifecycle.machine import AllOver, AllStarted, AllSucceeded, Disturbed, Event, NothingRuns, PodsFailed
from gpufleet.model.hardware import Node, NodeState
from gpufleet.model.workload import Job
from gpufleet.services.advance import advance_all, operation_name
from gpufleet.services.fleet import Fleet
from gpufleet.services.hand_over import follow, handed_jobs, placed_at, taken_off
from gpufleet.services.idle_gpus import note_use
from gpufleet.services.look_at_clouds import observe_clouds, told_to_leave
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
    observe_clouds(fleet)
    return tuple(looks)


def _record(connection: Connection, fleet: Fleet, seen: Observation, said: PeaksSaid) -> None:
    now = fleet.clock.now()
    seen = told_to_leave(connection, seen, now)
    meter_nodes(connection, seen, now)
    if world.put_nodes(connection, seen.cluster, seen.nodes, now):
        leases.touch(connection)
    world.put_cluster(connection, seen.cluster, seen.levels, seen.at, seen.cluster_time)
    for notice in seen.notices:
        world.hear(connection, notice, now)
    pods: Seen = defaultdict(list)
    for pod in seen.pods:
        pods[pod.job, pod.attempt].append(pod)
    live = [a for a in jobs.live_attempts(connection) if a.cluster == seen.cluster]
    handed = handed_jobs(connection, fleet, live)
    if fleet.handed:
        follow(connection, seen, live, handed, pods)
    meter_pods(connection, pods, now)
    held, launches = places.live_places(connection), _launches(connection, live, pods)
    look = _Look(seen, pods, {n.name: n for n in seen.nodes}, held, launches, handed)
    peaks = {(a.job, a.number): _peak(a, look.pods_of(a), said.get((a.job, a.number)), seen.at) for a in live}
    memory.note_all(connection, peaks, now)
    note_use(connection, live, pods, fleet.recovery, now)
    found = {a.job: event for a in live if (event := _event(connection, fleet, a, look)) is not None}
    advance_all(connection, fleet, found, now)


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at a cluster, with what was to be seen there."""

    seen: Observation
    pods: Seen
    nodes: dict[str, Node]
    held: places.Pods
    launches: dict[str, str]
    """State of each launch that may matter, by its name."""
    handed: Mapping[str, Job]
    """The jobs that another scheduler places, by id."""

    def wanted(self, attempt: AttemptRow) -> int:
        """How many pods it has when it is whole."""
        job = self.handed.get(attempt.job)
        return job.pods if job is not None else len(self.held.get((attempt.job, attempt.number), ()))

    def nodes_of(self, attempt: AttemptRow) -> list[str]:
        return [place.node for place in self.held.get((attempt.job, attempt.number), ())]

    def taken_off(self, attempt: AttemptRow) -> str | None:
        """Why another scheduler ended it."""
        return taken_off(self.seen.admissions.get((attempt.job, attempt.number)))

    def pods_of(self, attempt: AttemptRow) -> list[PodSeen]:
        return self.pods.get((attempt.job, attempt.number), [])

    def launch_of(self, attempt: AttemptRow) -> str | None:
        return self.launches.get(operation_name("launch", attempt.job, attempt.number))


def _launches(connection: Connection, live: list[AttemptRow], pods: Seen) -> dict[str, str]:
    """Of attempts without pods, and of stopping ones."""
    asked = [a for a in live if a.state == "stopping" or (a.job, a.number) not in pods]
    return operations.states_of(connection, [operation_name("launch", a.job, a.number) for a in asked])


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


def _event(connection: Connection, fleet: Fleet, attempt: AttemptRow, look: _Look) -> Event | None:
    """What this look says of one attempt, the most telling thing first."""
    wanted, pods = look.wanted(attempt), look.pods_of(attempt)
    if pods and len(pods) >= wanted and all(p.phase is Phase.SUCCEEDED for p in pods):
        return AllSucceeded()
    if attempt.state == "stopping":
        return _over(attempt, pods, look)
    if why := look.taken_off(attempt) or _leaving(connection, attempt, look.nodes_of(attempt), look.nodes):
        return Disturbed(why)
    if not pods:
        return _missing(connection, attempt, look)
    failed = tuple((p.rank, p.exit_code, p.reason) for p in pods if p.phase in (Phase.FAILED, Phase.LOST))
    if failed:
        why, own = root_cause(failed)
        return PodsFailed(why) if own else Disturbed(why)
    if attempt.state == "starting":
        return _started(fleet, attempt, pods, wanted, look)
    return None


def _over(attempt: AttemptRow, pods: list[PodSeen], look: _Look) -> Event | None:
    """A stopping attempt is over when its pods have ended and no launch of it can still begin."""
    if any(not p.phase.is_over for p in pods):
        return None
    return None if look.launch_of(attempt) in operations.OPEN else AllOver()


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


def _missing(connection: Connection, attempt: AttemptRow, look: _Look) -> Event | None:
    """No pods: nothing yet if the launch is open, else believed only when seen twice."""
    if look.launch_of(attempt) != "done":
        return None
    if attempt.missing_since is None:
        jobs.change_attempt(connection, attempt.job, attempt.number, missing_since=look.seen.at)
        return None
    if look.seen.at - attempt.missing_since < MISSING_GRACE:
        return None
    return NothingRuns("its pods vanished")


def _started(fleet: Fleet, attempt: AttemptRow, pods: list[PodSeen], wanted: int, look: _Look) -> Event | None:
    up = [p for p in pods if p.phase in (Phase.RUNNING, Phase.SUCCEEDED)]
    if len(up) == wanted:
        return AllStarted()
    began = placed_at(pods, look.seen.at) if attempt.job in look.handed else attempt.decided_at
    if look.seen.at - began > fleet.recovery.start_timeout:
        late = [p for p in pods if p.phase is Phase.PENDING]
        told = next((f": rank {p.rank} waits ({p.reason})" for p in late if p.reason), "")
        waited = fleet.recovery.start_timeout.total_seconds()
        return Disturbed(f"not all pods ran after {waited:g} s{told}", tuple(sorted({p.node for p in late})))
    return None
