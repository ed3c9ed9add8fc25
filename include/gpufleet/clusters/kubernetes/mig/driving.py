"""Carries out the MIG machine's steps at the API, one after the other, until it has to wait.

Every call looks anew and goes on from what the node remembers, so a kill anywhere is finished by the next call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.answers import Conflict
from gpufleet.clusters.kubernetes.api import Api, Ask, Json
from gpufleet.clusters.kubernetes.labels import LAYOUT
from gpufleet.clusters.kubernetes.mig.layouts import CONFIG_MAP, FILE, Layout, config_map, with_layouts
from gpufleet.clusters.kubernetes.mig.machine import (
    Done,
    Drain,
    Failed,
    Holder,
    Label,
    NodeSeen,
    Publish,
    Step,
    Uncordon,
    Waiting,
    next_step,
)
from gpufleet.clusters.kubernetes.mig.patches import CONFIG, STATE, change_of, node_patch
from gpufleet.clusters.kubernetes.rendering.resources import GPU, MIG_PREFIX, STRATEGY
from gpufleet.clusters.kubernetes.seeing.layout import Layout as Instances
from gpufleet.clusters.kubernetes.seeing.layout import written_layout
from gpufleet.errors import NotFound, Refused, Temporary, UnderWay
from gpufleet.model.hardware import MigInstance, Node

OPERATOR_NAMESPACE: Final = "gpu-operator"
LOOK_AGAIN: Final = 3.0
"""Seconds until a change under way is looked at again."""
DEVICES_USED: Final = "gpufleet.io/devices-used"
"""Annotation of a pod: the devices that the kubelet gave to it, as our node agent read them back."""
_MOST_STEPS: Final = 12


@dataclass(frozen=True, slots=True)
class Wish:
    """One GPU shall lose and get these instances; the others stay as they are."""

    gpu: int
    destroy: tuple[MigInstance, ...]
    create: tuple[MigInstance, ...]

    def applied_to(self, there: Instances) -> Instances:
        kept = [i for i in there.get(self.gpu, ()) if i not in self.destroy or i in self.create]
        return {**there, self.gpu: tuple(sorted({*kept, *self.create}))}

    def is_met_by(self, there: Instances) -> bool:
        return _told(self.applied_to(there)) == _told(there)


def drive(api: Api, node: Node, wish: Wish, now: datetime, namespace: str = OPERATOR_NAMESPACE) -> Json:
    """Make the node have it; the node's object as it is then.

    Raises UnderWay while the MIG manager works (call again), Refused when it cannot be: something is in the way, or
    the manager failed. A node that was cordoned for nothing is opened again.
    """
    there = {device.index: device.instances for device in node.devices}
    for _ in range(_MOST_STEPS):
        raw = api.ask(paths.get(f"{paths.NODES}/{node.name}"))
        change = change_of(_annotations(raw))
        if change is None and wish.is_met_by(there):
            return raw
        under_way = change is not None and change.labelled_at is not None
        planned = written_layout(_annotations(raw).get(LAYOUT, "")) if under_way else wish.applied_to(there)
        gpus = max(len(node.devices), *(gpu + 1 for gpu in planned))
        wanted = _layout(node, planned, gpus)
        step = next_step(wanted, _seen(api, node, raw, _layout(node, there, gpus), namespace), now)
        _carry_out(api, raw, step, planned, namespace)
        if isinstance(step, Uncordon | Done):
            there = planned
    raise UnderWay(f"node {node.name}: its MIG change goes on", retry_after=LOOK_AGAIN)


def _carry_out(api: Api, raw: Json, step: Step, planned: Instances, namespace: str) -> None:
    name = raw["metadata"]["name"]
    match step:
        case Waiting(why):
            raise UnderWay(why, retry_after=LOOK_AGAIN)
        case Failed(why):
            raise Refused(f"{why}; node {name} stays as it is until a person has looked.")
        case Drain(pods):
            change = change_of(_annotations(raw))
            _patch(api, raw, Uncordon(open=change is not None and change.cordoned_by_us), planned)
            held = ", ".join(f"{pod.namespace}/{pod.name}" for pod in pods)
            raise Refused(f"Node {name} cannot be cut anew while its GPUs are held by {held}.")
        case Publish(layout):
            _publish(api, layout, namespace)
        case _:
            _patch(api, raw, step, planned)


def _patch(api: Api, raw: Json, step: Step, planned: Instances) -> None:
    """Only if the node is still as it was seen. With the label goes what was planned: the manager tells counts only."""
    body = node_patch(step)
    if body is None:
        return
    if isinstance(step, Label):
        body["metadata"]["annotations"][LAYOUT] = _told(planned)
    body["metadata"]["resourceVersion"] = raw["metadata"]["resourceVersion"]
    _write(api, paths.merge(f"{paths.NODES}/{raw['metadata']['name']}", body))


def _write(api: Api, ask: Ask) -> None:
    try:
        api.ask(ask)
    except Conflict:
        raise Temporary("the node or the MIG layouts were just changed by somebody else", retry_after=0.2) from None


def _told(planned: Instances) -> str:
    return " ".join(f"{gpu}:{instance}" for gpu in sorted(planned) for instance in sorted(planned[gpu]))


def _layout(node: Node, instances: Instances, gpus: int) -> Layout:
    return Layout.of(node.model, [instances.get(gpu, ()) for gpu in range(gpus)])


def _publish(api: Api, layout: Layout, namespace: str) -> None:
    """Beside what is there: other nodes' layouts are in the same file, and others may be writing theirs."""
    folder = f"/api/v1/namespaces/{namespace}/configmaps"
    found = _file(api, namespace)
    body = config_map(with_layouts(_content(found, namespace), [layout]), namespace)
    if found is None:
        _write(api, paths.create(folder, body))
    else:
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        _write(api, paths.merge(f"{folder}/{CONFIG_MAP}", {"metadata": version, "data": body["data"]}))


def _file(api: Api, namespace: str) -> Json | None:
    try:
        return api.ask(paths.get(f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"))
    except NotFound:
        return None


def _content(found: Json | None, namespace: str) -> Mapping[str, Any]:
    try:
        content = json.loads((found or {}).get("data", {}).get(FILE, "{}"))
    except ValueError:
        raise Refused(f"{FILE} in ConfigMap {namespace}/{CONFIG_MAP} was changed by hand: delete it.") from None
    return content if isinstance(content, dict) else {}


# ------------------------------------------------------------------ what is seen


def _seen(api: Api, node: Node, raw: Json, now_has: Layout, namespace: str) -> NodeSeen:
    labels = raw["metadata"].get("labels") or {}
    return NodeSeen(
        name=node.name,
        capability=node.model.compute_capability[0],
        strategy=labels.get(STRATEGY, ""),
        cordoned=bool(raw.get("spec", {}).get("unschedulable")),
        config=labels.get(CONFIG, ""),
        state=labels.get(STATE, ""),
        offers=_offers(raw.get("status", {}).get("allocatable") or {}),
        now_has=now_has,
        holders=tuple(_holders(api, node.name)),
        known_configs=frozenset(_content(_file(api, namespace), namespace).get("mig-configs", {})),
        change=change_of(_annotations(raw)),
        remake=node.mig,
    )


def _annotations(raw: Json) -> dict[str, str]:
    return raw["metadata"].get("annotations") or {}


def _offers(allocatable: Mapping[str, str]) -> dict[str, int]:
    """A kubelet goes on showing profiles that are gone, as zero."""
    ours = {k: int(v) for k, v in allocatable.items() if k == GPU or k.startswith(MIG_PREFIX)}
    return {name: count for name, count in ours.items() if count}


def _holders(api: Api, node: str) -> Iterable[Holder]:
    """Every pod that has GPUs of the node and has not ended, ours or not."""
    found = api.ask(paths.get(paths.PODS, fieldSelector=f"spec.nodeName={node}"))
    for pod in found.get("items", []):
        asked = (c.get("resources", {}).get("limits", {}) for c in pod["spec"].get("containers", []))
        is_over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if not is_over and any(_offers(limits) for limits in asked):
            metadata = pod["metadata"]
            yield Holder(metadata["name"], metadata["namespace"], _gpus(_annotations(pod).get(DEVICES_USED, "")))


def _gpus(used: str) -> frozenset[int] | None:
    """From `0,1` or `MIG:3/1g.10gb`; None where nobody has told."""
    numbers = [word.removeprefix("MIG:").partition("/")[0] for word in used.split(",")]
    return frozenset(map(int, numbers)) if used and all(n.isdecimal() for n in numbers) else None
