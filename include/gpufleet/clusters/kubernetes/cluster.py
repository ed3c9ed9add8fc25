"""A Kubernetes cluster as a Cluster: reads from watches, writes one idempotent effect at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import structlog

from gpufleet.clusters.base import GangSpec, Observation, PodSeen
from gpufleet.clusters.handed import Handed
from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.access import Access
from gpufleet.clusters.kubernetes.api import Api
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.ending import (
    Logs,
    Mine,
    ask_to_save,
    forget_pods,
    last_lines,
    pods_of_attempt,
    read_log,
    stop_pods,
)
from gpufleet.clusters.kubernetes.handing import SCHEDULERS, GroupFact, admissions, launch_for
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.launching import launch_of
from gpufleet.clusters.kubernetes.measuring import Metrics, MetricsConfig, Pod, Use
from gpufleet.clusters.kubernetes.mig.driving import Wish, drive
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.gang import gang_objects
from gpufleet.clusters.kubernetes.rendering.tenancy import fences
from gpufleet.clusters.kubernetes.seeing.pods import PodFact, with_node
from gpufleet.clusters.kubernetes.views import Views
from gpufleet.errors import GpufleetError, NotFound, Permanent, Refused
from gpufleet.model.hardware import MigInstance, MigRemake, Node, NodeState
from gpufleet.model.tenancy import Queue, Team

log = structlog.get_logger()

ANSWERS_WITHIN: Final = 3.0
"""Seconds in which a cluster that is there answers the smallest question."""
SAME_CLOCK: Final = timedelta(seconds=5)

PODS, SEEING, METRICS = PodConfig(), SeeingConfig(), MetricsConfig()
NOBODY: Final[Mapping[str, str]] = {}
"""What holds where fleet.yaml says nothing."""


class KubernetesCluster:
    """One cluster, reached through `access`; `home` is the fleet's folder, where the logs of ended pods are kept.

    `handoff` names, for each queue that is not ours to place, the scheduler it belongs to.
    """

    def __init__(
        self,
        name: str,
        fleet: str,
        access: Callable[[], Access],
        home: Path,
        *,
        pods: PodConfig = PODS,
        seeing: SeeingConfig = SEEING,
        metrics: MetricsConfig = METRICS,
        handoff: Mapping[str, str] = NOBODY,
        stale_after: timedelta = timedelta(seconds=60),
    ) -> None:
        self.name, self.has_fences = name, True
        self._fleet, self._pods, self._seeing = fleet, pods, seeing
        self._api = Api(name, access)
        self._schedulers = {queue: SCHEDULERS[name] for queue, name in handoff.items()}
        named = [SCHEDULERS[name] for name in sorted(set(handoff.values()))]
        self._views = Views(self._api, fleet, seeing, stale_after, named)
        self._metrics = Metrics(metrics)
        self._logs = Logs(home / "logs" / name)
        self._last: datetime | None = None
        self._warned: set[str] = set()

    def observe(self) -> Observation:
        at, cluster_time = datetime.now(UTC), self._cluster_time()
        pods, seen = self._views.look(), self._views.nodes(fresh=True)
        self._warn(seen.warnings)
        lost, uses = self._views.lost_among(pod.seen.node for pod in pods), self._metrics.uses()
        return Observation(
            cluster=self.name,
            at=at,
            cluster_time=cluster_time,
            levels=seen.levels,
            nodes=seen.nodes,
            pods=_in_order(
                _measured(with_node(p, node_is_lost=p.seen.node in lost, cluster_time=cluster_time), p, uses)
                for p in pods
            ),
            notices=self._views.notices(),
            admissions=admissions(pods, self._views.groups()),
        )

    def launch(self, gang: GangSpec) -> None:
        nodes = {node.name: node for node in self._views.nodes().nodes}
        for pod in gang.pods:
            _check_node(nodes.get(pod.place.node), pod.place.node)
        objects = gang_objects(gang, nodes, self._pods, self._fleet)
        for raw in launch_of(self._api, gang, objects).run():
            self._views.note_pod(raw)

    def hand_over(self, handed: Handed) -> None:
        scheduler, nodes = self._schedulers[handed.job.queue], self._views.nodes().nodes
        launch = launch_for(scheduler, self._api, handed, nodes, self._fleet, self._pods, self._seeing)
        for raw in launch.run():
            self._views.note_pod(raw)

    def stop(self, job: str, attempt: int, *, grace: timedelta) -> None:
        for raw in stop_pods(self._api, self._pods_of(job, attempt), grace):
            self._views.note_pod(raw)

    def remove(self, job: str, attempt: int) -> None:
        pods = self._pods_of(job, attempt)
        lost = self._views.lost_among(mine.fact.seen.node for mine in pods)
        ended = [mine for mine in pods if self._is_over(mine, lost)]
        self._keep_away_from_stuck(ended, lost)
        forget_pods(self._api, ended, self._logs)
        for mine in ended:
            self._views.forget_pod(mine.fact.uid)
        if len(ended) == len(pods):
            self._api.all(paths.delete(group.path) for group in self._groups_of(job, attempt))
            self._remove_beside(job, attempt, had_claims=any("resourceClaims" in m.raw["spec"] for m in pods))

    def request_save(self, job: str, attempt: int, number: int) -> None:
        for raw in ask_to_save(self._api, self._pods_of(job, attempt), number):
            self._views.note_pod(raw)

    def repartition(
        self, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
    ) -> None:
        """By the operator's MIG manager, which takes minutes: Temporary until it is done. See `mig`."""
        known = next((found for found in self._views.nodes(fresh=True).nodes if found.name == node), None)
        if known is None or known.mig is MigRemake.NEVER:
            raise Refused(
                f"The MIG layout of node {node} is never remade (`remake_mig` of the cluster, or DRA, says so)."
            )
        self._views.note_node(drive(self._api, known, Wish(gpu, destroy, create), datetime.now(UTC)))

    def cordon(self, node: str, *, on: bool) -> None:
        body = {"spec": {"unschedulable": True if on else None}}
        self._views.note_node(self._api.ask(paths.merge(f"{paths.NODES}/{node}", body)))

    def fence(self, teams: Iterable[Team], queues: Iterable[Queue]) -> None:
        """A namespace that is not there is told by `gpufleet kubernetes check`, and fenced when it is made."""
        nodes, tree, some = self._views.nodes().nodes, tuple(queues), tuple(teams)
        there = self._api.all(paths.get(paths.namespace(team.namespace)) for team in some)
        found = [team for team, answer in zip(some, there, strict=True) if not isinstance(answer, NotFound)]
        for answer in self._api.all(
            paths.apply(one) for team in found for one in fences(self._fleet, team, tree, nodes)
        ):
            if isinstance(answer, GpufleetError):
                raise answer

    def logs(self, job: str, attempt: int, rank: int, *, tail: int = 200) -> str:
        pods = [mine for mine in self._pods_of(job, attempt) if mine.fact.seen.rank == rank]
        if pods and pods[0].fact.seen.started_at is not None:
            return self._live_log(pods[0], tail)
        kept = self._logs.kept(job, attempt, rank)
        if kept is None and not pods:
            raise NotFound(f"There is no pod of {job}, attempt {attempt}, rank {rank}, and none was ever seen.")
        return last_lines(kept or "", tail)

    def close(self) -> None:
        """End watches and connections. The next use opens them again."""
        self._views.close()
        self._api.close()

    # -------------------------------------------------------------- inside

    def _cluster_time(self) -> datetime:
        """The API server's clock. Several servers may differ a little, and a clock never seems to run backwards."""
        self._api.ask(paths.get(paths.VERSION), patience=ANSWERS_WITHIN)
        told = self._api.told_at or datetime.now(UTC).replace(microsecond=0)
        if self._last is not None and told < self._last < told + SAME_CLOCK:
            told = self._last
        self._last = told
        return told

    def _pods_of(self, job: str, attempt: int) -> list[Mine]:
        return pods_of_attempt(self._api, self._fleet, job, attempt)

    def _groups_of(self, job: str, attempt: int) -> list[GroupFact]:
        """Its group at another scheduler, which gives the quota back only when that is gone."""
        return [group for group in self._views.groups() if group.name == names.group_name(job, attempt)]

    def _is_over(self, mine: Mine, lost: set[str]) -> bool:
        now = self._api.told_at or datetime.now(UTC)
        return with_node(mine.fact, node_is_lost=mine.fact.seen.node in lost, cluster_time=now).phase.is_over

    def _keep_away_from_stuck(self, ended: Iterable[Mine], lost: set[str]) -> None:
        """A node that does not end a pod may still run it: nothing more goes there until a person has looked."""
        for node in sorted({m.fact.seen.node for m in ended if not m.fact.seen.phase.is_over} - lost):
            log.error("node does not end its pods and is cordoned", cluster=self.name, node=node)
            self.cordon(node, on=True)

    def _remove_beside(self, job: str, attempt: int, *, had_claims: bool) -> None:
        """Service and claims of an attempt whose last pod is forgotten. One pod alone has no Service."""
        selector = paths.attempt_selector(self._fleet, job, attempt)
        kinds = [(paths.SERVICES, paths.services_in), *([(paths.CLAIMS, paths.claims_in)] if had_claims else [])]
        for every, in_namespace in kinds:
            found: list[Any] = self._api.ask(paths.get(every, labelSelector=selector)).get("items") or []
            metas = [one["metadata"] for one in found]
            self._api.all(paths.delete(f"{in_namespace(m['namespace'])}/{m['name']}", uid=m["uid"]) for m in metas)

    def _live_log(self, mine: Mine, tail: int) -> str:
        try:
            text: str = self._api.ask(read_log(mine.path, max(1, tail)))["text"]
        except (NotFound, Permanent):  # not started yet, or its log is gone with its node
            return ""
        return last_lines(text, tail)

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            if warning not in self._warned:
                self._warned.add(warning)
                log.warning("kubernetes", cluster=self.name, what=warning)


def _measured(seen: PodSeen, fact: PodFact, uses: Mapping[Pod, Use]) -> PodSeen:
    use = uses.get((fact.namespace, seen.name))
    return seen if use is None else replace(seen, busy=use.busy, peak_memory_mib=use.memory_mib)


def _in_order(pods: Iterable[PodSeen]) -> tuple[PodSeen, ...]:
    return tuple(sorted(pods, key=lambda pod: (pod.job, pod.attempt, pod.rank)))


def _check_node(node: Node | None, name: str) -> None:
    if node is None:
        raise Refused(f"Node {name} is not in the cluster, or has no GPU we know.")
    if node.state is not NodeState.READY:
        raise Refused(f"Node {name} is {node.state}: nothing new starts there.")
