"""What a cluster has and what it lacks for us: one line each, and what to do about what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from gpufleet.clusters.base import GangSpec, PodSpec
from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.answers import Denied, Full
from gpufleet.clusters.kubernetes.api import Api, Ask
from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.rendering.gang import gang_objects
from gpufleet.clusters.kubernetes.rendering.names import SCHEDULER
from gpufleet.clusters.kubernetes.rendering.rbac import CONTROLLER_EVERYWHERE, CONTROLLER_IN_TEAMS
from gpufleet.clusters.kubernetes.seeing.fleet import ClusterFacts, Seen, see
from gpufleet.clusters.kubernetes.seeing.nodes import NodeFact, node_fact, physical_gpus
from gpufleet.errors import GpufleetError, NotFound, Permanent
from gpufleet.model.hardware import Exactness, Node
from gpufleet.model.snapshot import PodPlace
from gpufleet.model.tenancy import Team
from gpufleet.model.workload import Container

OK: Final = "ok"
WARNING: Final = "warning"
BROKEN: Final = "broken"
APPLY: Final = "apply what `gpufleet kubernetes manifests` prints"
STRATEGY: Final = "nvidia.com/mig.strategy"
MIG_STATE: Final = "nvidia.com/mig.config.state"
_POLICIES: Final = "/apis/nvidia.com/v1/clusterpolicies"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_GROUPS: Final[Mapping[str, str]] = {
    "kueue": "kueue.x-k8s.io",
    "volcano": "scheduling.volcano.sh",
    "kai": "scheduling.run.ai",
}
_OPTIONAL: Final = frozenset({*_GROUPS.values(), "nvidia.com", "resource.k8s.io", "batch"})
"""API groups of which we need rights only where they are used."""
_NAMED: Final = 5
"""Missing rights, or nodes, that are told by name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at, how it is (`ok`, `warning`, `broken`), and what to do."""

    what: str
    how: str
    detail: str


def check(api: Api, fleet: str, teams: Iterable[Team], config: SeeingConfig, pods: PodConfig) -> list[Finding]:
    """Everything, from the most basic on; a cluster that does not answer is one finding."""
    teams = tuple(teams)
    try:
        version = api.ask(paths.get(paths.VERSION)).get("gitVersion", "?")
        raw_nodes = api.ask(paths.get(paths.NODES)).get("items", [])
        groups = {group.get("name", "") for group in api.ask(paths.get("/apis")).get("groups", [])}
    except GpufleetError as e:
        return [Finding("api", BROKEN, str(e))]
    facts = [node_fact(raw, config) for raw in raw_nodes]
    seen = see(ClusterFacts(tuple(facts)), config, api.name)
    return [
        Finding("api", OK, f"{api.name} answers, {version}"),
        *_operator(api),
        *nodes_told(facts, seen),
        *schedulers_told(facts, groups),
        *_rights(api, teams, groups),
        *(_trial(api, fleet, team, seen.nodes, pods) for team in teams),
    ]


def _operator(api: Api) -> Iterator[Finding]:
    try:
        found = api.ask(paths.get(_POLICIES)).get("items", [])
        state = [str(item.get("status", {}).get("state", "?")) for item in found]
        how = OK if state == ["ready"] else WARNING
        yield Finding(
            "operator", how, f"the NVIDIA GPU Operator is {', '.join(state) or 'there without a ClusterPolicy'}"
        )
    except NotFound:
        yield Finding(
            "operator",
            WARNING,
            "there is no NVIDIA GPU Operator: device plugin and labels must come from elsewhere, and no MIG layout is remade",
        )
    except GpufleetError as e:
        yield Finding("operator", WARNING, f"it cannot be looked at: {e}")


def nodes_told(facts: Iterable[NodeFact], seen: Seen) -> Iterator[Finding]:
    """GPUs, models, levels; then what a person should mend."""
    facts = tuple(facts)
    gpus = sum(len(node.devices) for node in seen.nodes)
    models = Counter(node.model.name for node in seen.nodes)
    told = ", ".join(f"{count} with {model}" for model, count in sorted(models.items()))
    how = OK if seen.nodes else BROKEN
    what = f"{len(seen.nodes)} of {len(facts)} nodes have GPUs that we know, {gpus} in all ({told or 'none'})"
    yield Finding("nodes", how, what if seen.nodes else f"{what}: label them, or install the GPU Operator")
    levels = ", ".join(seen.levels)
    yield Finding(
        "topology", OK if levels else WARNING, f"levels: {levels}" if levels else "no node has a topology label"
    )
    yield from (Finding("nodes", WARNING, warning) for warning in seen.warnings[:_NAMED])
    yield from _mig_told(facts)
    silent = [f.name for f in facts if physical_gpus(f) and not f.gives.gpus and not f.gives.slices]
    if silent:
        yield Finding(
            "device plugin", WARNING, f"{_names(silent)} has GPUs by its labels but offers none: is it running?"
        )


def _mig_told(facts: Iterable[NodeFact]) -> Iterator[Finding]:
    strategies = Counter(f.labels[STRATEGY] for f in facts if STRATEGY in f.labels)
    failed = [f.name for f in facts if f.labels.get(MIG_STATE) == "failed"]
    if strategies:
        told = ", ".join(f"{count} {strategy}" for strategy, count in sorted(strategies.items()))
        yield Finding("mig", OK, f"strategy of nodes: {told}")
    if failed:
        yield Finding("mig", BROKEN, f"the last MIG change failed on {_names(failed)}: look at its MIG manager")


def schedulers_told(facts: Iterable[NodeFact], groups: Iterable[str]) -> Iterator[Finding]:
    """Nodes that were given to a scheduler which is not there serve nobody."""
    served = set(groups)
    for scheduler, count in sorted(Counter(f.labels.get(SCHEDULER, "") for f in facts).items()):
        group = _GROUPS.get(scheduler)
        if scheduler and group is None:
            yield Finding("hand-off", WARNING, f"{count} nodes are labelled for '{scheduler}', which we do not know")
        elif group and group not in served:
            yield Finding("hand-off", BROKEN, f"{count} nodes are labelled for {scheduler}, but it is not installed")
        elif group:
            yield Finding("hand-off", OK, f"{count} nodes are {scheduler}'s")


def _rights(api: Api, teams: tuple[Team, ...], groups: set[str]) -> Iterator[Finding]:
    asked = [(right, "") for right in CONTROLLER_EVERYWHERE]
    asked += [(right, team.namespace) for team in teams for right in CONTROLLER_IN_TEAMS]
    wanted = [
        (verb, right.group, resource, namespace)
        for right, namespace in asked
        if right.group not in _OPTIONAL or right.group in groups
        for resource in right.resources
        for verb in right.verbs
    ]
    answers = api.all(_review(*one) for one in wanted)
    if unheard := next((answer for answer in answers if isinstance(answer, GpufleetError)), None):
        yield Finding("rights", WARNING, f"they could not be asked for: {unheard}")
        return
    allowed = [isinstance(a, dict) and a.get("status", {}).get("allowed") is True for a in answers]
    missing = [
        f"{verb} {resource}{f' in {namespace}' if namespace else ''}"
        for (verb, _, resource, namespace), yes in zip(wanted, allowed, strict=True)
        if not yes
    ]
    yield from rights_told(missing, len(wanted))


def _review(verb: str, group: str, resource: str, namespace: str) -> Ask:
    kind, _, sub = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": kind, "subresource": sub, "namespace": namespace}
    return Ask("POST", _REVIEWS, paths.encoded({"spec": {"resourceAttributes": asked}}))


def rights_told(missing: list[str], asked: int) -> Iterator[Finding]:
    if missing:
        told = "; ".join(missing[:_NAMED]) + (f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else "")
        yield Finding("rights", BROKEN, f"we may not {told}: {APPLY}")
    else:
        yield Finding("rights", OK, f"all {asked} that we need")


def _trial(api: Api, fleet: str, team: Team, nodes: tuple[Node, ...], config: PodConfig) -> Finding:
    """The API is asked to take a pod like those of the team's jobs, and to keep nothing."""
    what = f"team {team.name}"
    if not nodes:
        return Finding(what, WARNING, "not tried: there is no node with GPUs that we know")
    try:
        pod = _trial_pod(fleet, team, nodes[0], config)
        ask = paths.create(paths.pods_in(team.namespace), pod)
        api.ask(Ask(ask.method, f"{ask.path}&dryRun=All", ask.body))
    except Full as e:
        return Finding(what, OK, f"its namespace {team.namespace} takes pods, but is full now: {e}")
    except (NotFound, Denied, Permanent) as e:
        return Finding(what, BROKEN, f"its namespace {team.namespace} takes no pod of ours: {e} ({APPLY})")
    except GpufleetError as e:
        return Finding(what, WARNING, str(e))
    return Finding(what, OK, f"its namespace {team.namespace} takes pods of ours")


def _trial_pod(fleet: str, team: Team, node: Node, config: PodConfig) -> dict[str, Any]:
    """Of no GPU, so that it is taken on any node."""
    image = config.image or (config.registries[0] if config.registries else "example.com/check")
    container = Container(("true",), image)
    pod = PodSpec("gpufleet-check-1-0", 0, PodPlace(0, 0, node.name), container)
    gang = GangSpec("gpufleet-check", 1, team.name, team.namespace, (pod,), timedelta(seconds=1))
    counted = replace(node, exactness=Exactness.COUNT)  # no claim is needed for no device
    (found,) = gang_objects(gang, {node.name: counted}, config, fleet).pods
    return found


def _names(nodes: list[str]) -> str:
    return ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
