"""One raw pod of ours, kept as what the fleet asks of it.

Ends are told by the container's own state (kubernetes.io, "Pod Lifecycle"); a pod that was told to leave, or that the
node or the scheduler put out, is `evicted` whatever its exit code, because its end is not the job's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpufleet.clusters.base import Phase, PodSeen
from gpufleet.clusters.kubernetes.labels import PLANNED
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.seeing.reading import NOTHING, Raw, at, instant, listed, mapping, text, whole, words

EVICTED, NODE_LOST, START, HOST_MEMORY = "evicted", "node-lost", "start", "host-memory"
NEVER_STARTS: Final = frozenset({"InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError"})
"""Waiting reasons that no waiting cures: the job itself is wrong."""
START_FAILED: Final = frozenset({"StartError", "ContainerCannotRun", "RunContainerError"})
STUCK_AFTER: Final = timedelta(minutes=2)
"""So long past its grace period a pod that does not end is not waited for any more."""
CLOCKS_APART: Final = timedelta(seconds=5)
"""A node's clock may be so far behind the API server's. An end just before our stop is the stop's: to take a job that
saved and left with 0 for a finished one would lose the rest of its work."""
SERVE: Final = "serve"


@dataclass(frozen=True, slots=True)
class PodFact:
    """A pod, where it lies, and what of it is not for the fleet's eyes."""

    seen: PodSeen
    uid: str
    namespace: str
    planned: str = ""
    gated: bool = False
    leaves_at: datetime | None = None
    """When its grace period is over, once it has been deleted."""
    confirmed: bool = False
    """Deleted, and nobody waits for its kubelet any more."""
    is_kept: bool = True
    """Whether a finalizer that is ours to take off still holds it."""
    save: int = 0
    scheduler: str = ""
    """Whose it is, where it was handed to another scheduler."""


def pod_fact(raw: Raw) -> PodFact | None:
    """Never raises; None for a pod that does not say which attempt of which job it is."""
    labels = mapping(raw, "metadata", "labels")
    attempt, rank = whole(labels, names.ATTEMPT), whole(labels, names.RANK)
    job = text(raw, "metadata", "annotations", names.JOB_ID) or text(labels, names.JOB)
    if attempt is None or rank is None or not job:
        return None
    deleted, grace = instant(raw, "metadata", "deletionTimestamp"), at(raw, "metadata", "deletionGracePeriodSeconds")
    return PodFact(
        seen=_seen(raw, sys.intern(job), attempt, rank),
        uid=text(raw, "metadata", "uid"),
        namespace=sys.intern(text(raw, "metadata", "namespace")),
        planned=text(raw, "metadata", "annotations", PLANNED),
        gated=any(True for _ in listed(raw, "spec", "schedulingGates")),
        leaves_at=deleted,
        confirmed=deleted is not None and grace == 0,
        is_kept=any(name in names.LET_GO for name in words(raw, "metadata", "finalizers")),
        scheduler=sys.intern(text(labels, names.SCHEDULER)),
        save=whole(raw, "metadata", "annotations", names.SAVE_REQUEST) or 0,
    )


def ended_once(old: PodFact, new: PodFact) -> PodFact:
    """A later look at the same pod: an end that was told with its exit code is its end for good."""
    if not old.seen.phase.is_over or old.seen.exit_code is None:
        return new
    return replace(new, seen=old.seen)


def with_node(fact: PodFact, *, node_is_lost: bool, cluster_time: datetime) -> PodSeen:
    """The pod, seen together with what became of its node and how long it has been leaving."""
    seen = fact.seen
    if seen.phase.is_over:
        return seen
    if seen.node and node_is_lost:
        return replace(seen, phase=Phase.LOST, reason=NODE_LOST, finished_at=cluster_time)
    if fact.leaves_at is not None and cluster_time - fact.leaves_at > STUCK_AFTER:
        return replace(seen, phase=Phase.LOST, reason=NODE_LOST, finished_at=cluster_time)
    return seen


# ------------------------------------------------------------------ phase, exit code, reason


@dataclass(frozen=True, slots=True)
class _End:
    phase: Phase
    code: int | None = None
    reason: str = ""


def _seen(raw: Raw, job: str, attempt: int, rank: int) -> PodSeen:
    main = _main(raw)
    end, bound = _end(raw, main), _bound(raw)
    started = instant(main, "state", "running", "startedAt") or instant(main, "state", "terminated", "startedAt")
    finished = _finished(raw, main) if end.phase.is_over else None
    return PodSeen(
        name=text(raw, "metadata", "name"),
        job=job,
        attempt=attempt,
        rank=rank,
        node=sys.intern(text(raw, "spec", "nodeName") or _pinned(raw)),
        phase=end.phase,
        exit_code=end.code,
        reason=end.reason,
        bound_at=bound,
        started_at=_not_before(started, bound),
        finished_at=_not_before(_not_before(finished, bound), started),
        address=_address(raw),
    )


def _not_before(at_: datetime | None, earlier: datetime | None) -> datetime | None:
    """Nodes' clocks differ: what comes later is never shown as earlier."""
    return at_ if at_ is None or earlier is None else max(at_, earlier)


def _end(raw: Raw, main: Raw) -> _End:
    """Which phase it is in, with which exit code, and why."""
    phase = text(raw, "status", "phase")
    code, why = whole(main, "state", "terminated", "exitCode"), text(main, "state", "terminated", "reason")
    ended = phase in ("Succeeded", "Failed")
    if ended and _was_put_out(raw, instant(main, "state", "terminated", "finishedAt")):
        return _End(Phase.FAILED, code, EVICTED)
    if phase == "Succeeded":
        return _End(Phase.SUCCEEDED, 0 if code is None else code)
    if ended:
        return _End(Phase.FAILED, code, _failure(raw, why, code))
    if at(raw, "metadata", "deletionTimestamp") and _nobody_runs_it(raw):
        return _End(Phase.FAILED, code, EVICTED)
    return _living(raw, main, phase)


def _was_put_out(raw: Raw, finished: datetime | None) -> bool:
    """Whether somebody ended it. What was over before it was asked to leave keeps its own end."""
    if asked := _asked_to_leave(raw):
        return finished is None or finished >= asked
    disturbed = any(t == "DisruptionTarget" and status == "True" for t, status, _ in _conditions(raw))
    return disturbed or text(raw, "status", "reason") in ("Evicted", "Preempting")


def _asked_to_leave(raw: Raw) -> datetime | None:
    """As we wrote it down; else by when the grace period ends and how long it is.

    The kubelet's own last DELETE, without a grace period, may move its end to that moment, long after the container's.
    """
    if told := instant(raw, "metadata", "annotations", names.STOP):
        return told - CLOCKS_APART
    until, grace = instant(raw, "metadata", "deletionTimestamp"), at(raw, "metadata", "deletionGracePeriodSeconds")
    if until is None:
        return None
    return until - timedelta(seconds=grace if isinstance(grace, int) and 0 <= grace < 10**8 else 0)


def _nobody_runs_it(raw: Raw) -> bool:
    """Deleted before it had a node, or its kubelet has let go of it, or somebody forced it."""
    return not text(raw, "spec", "nodeName") or at(raw, "metadata", "deletionGracePeriodSeconds") == 0


def _failure(raw: Raw, why: str, code: int | None) -> str:
    """Why a pod that nobody put out has failed."""
    if why == "OOMKilled":
        return HOST_MEMORY
    if why in START_FAILED:
        return START
    if code is None:  # no container of it ever ran: the kubelet did not admit it, or the machine went down
        return NODE_LOST if text(raw, "status", "reason") in ("NodeLost", "NodeShutdown", "Shutdown") else EVICTED
    return ""


def _living(raw: Raw, main: Raw, phase: str) -> _End:
    waiting = mapping(main, "state", "waiting")
    reason = text(waiting, "reason")
    if reason in NEVER_STARTS:
        return _End(Phase.FAILED, None, START)
    if phase in ("Running", "Unknown"):
        return _End(Phase.RUNNING)
    if reason and reason not in ("ContainerCreating", "PodInitializing"):
        return _End(Phase.PENDING, None, _short(f"{reason}: {text(waiting, 'message')}".rstrip(": ")))
    return _End(Phase.PENDING, None, _unscheduled(raw))


def _unscheduled(raw: Raw) -> str:
    """The scheduler's own words for a pod it cannot bind, without the part that is the same for every pinned pod."""
    for condition in listed(raw, "status", "conditions"):
        if text(condition, "type") == "PodScheduled" and text(condition, "status") == "False":
            if text(condition, "reason") == "SchedulingGated":
                return ""
            message = text(condition, "message").split(" no new claims")[0].split(" preemption:")[0]
            parts = [p for p in message.rstrip(". ").split(", ") if "NodeAffinity" not in p]
            return _short(", ".join(parts) or message)
    return ""


def _short(sentence: str) -> str:
    return " ".join(sentence.split())[:200]


# ------------------------------------------------------------------ times and places


def _main(raw: Raw) -> Raw:
    statuses = list(listed(raw, "status", "containerStatuses"))
    return next((s for s in statuses if text(s, "name") == names.MAIN), statuses[0] if statuses else NOTHING)


def _conditions(raw: Raw) -> Iterator[tuple[str, str, datetime | None]]:
    for c in listed(raw, "status", "conditions"):
        yield text(c, "type"), text(c, "status"), instant(c, "lastTransitionTime")


def _bound(raw: Raw) -> datetime | None:
    if not text(raw, "spec", "nodeName"):
        return None
    told = next((when for t, status, when in _conditions(raw) if t == "PodScheduled" and status == "True"), None)
    return told or instant(raw, "status", "startTime") or instant(raw, "metadata", "creationTimestamp")


def _finished(raw: Raw, main: Raw) -> datetime | None:
    """By the container; else when the pod was last said not to be ready; else when it had to be gone."""
    if told := instant(main, "state", "terminated", "finishedAt"):
        return told
    changed = [when for t, status, when in _conditions(raw) if t in ("Ready", "DisruptionTarget") and when is not None]
    return max(changed, default=None) or instant(raw, "metadata", "deletionTimestamp")


def _pinned(raw: Raw) -> str:
    """The node it was made for, while no node has it."""
    required = at(raw, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in listed(required, "nodeSelectorTerms"):
        for field in listed(term, "matchFields"):
            values = at(field, "values")
            if text(field, "key") == "metadata.name" and isinstance(values, list) and values:
                return values[0] if isinstance(values[0], str) else ""
    return ""


def _address(raw: Raw) -> str:
    ip = text(raw, "status", "podIP")
    for container in listed(raw, "spec", "containers"):
        for port in listed(container, "ports"):
            if ip and text(port, "name") == SERVE and (number := whole(port, "containerPort")):
                return f"[{ip}]:{number}" if ":" in ip else f"{ip}:{number}"
    return ""
