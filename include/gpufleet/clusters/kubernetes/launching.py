"""Starts a gang: every object is made or adopted, then the gates open together. All or nothing, and again if need be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gpufleet.clusters.base import GangSpec
from gpufleet.clusters.kubernetes import paths
from gpufleet.clusters.kubernetes.answers import Conflict
from gpufleet.clusters.kubernetes.api import Answer, Api, Ask, Json
from gpufleet.clusters.kubernetes.labels import PLANNED
from gpufleet.clusters.kubernetes.rendering import names
from gpufleet.clusters.kubernetes.rendering.environment import devices_text
from gpufleet.clusters.kubernetes.rendering.gang import GangObjects
from gpufleet.errors import GpufleetError, NotFound, Permanent, Refused, Temporary

IDENTITY: Final = (names.FLEET, names.JOB, names.ATTEMPT, names.RANK)
"""Labels by which an object that is there already is known as the one that was to be made."""


def launch_of(api: Api, gang: GangSpec, objects: GangObjects) -> Launch:
    """A gang of ours: Service and claims of devices first, then its pods, in the order of their ranks."""
    beside = [*([objects.service] if objects.service is not None else []), *objects.claims]
    ranked = sorted(gang.pods, key=lambda pod: pod.rank)
    pods = tuple(_with_plan(pod, spec.place) for pod, spec in zip(objects.pods, ranked, strict=True))
    return Launch(api, gang.job, gang.team, gang.namespace, tuple(beside), pods)


@dataclass(frozen=True, slots=True)
class Launch:
    """One gang on its way: whose it is, what must be there before its pods, the pods."""

    api: Api
    job: str
    team: str
    namespace: str
    beside: tuple[Json, ...]
    pods: tuple[Json, ...]

    @property
    def path(self) -> str:
        return paths.pods_in(self.namespace)

    def run(self) -> list[Json]:
        """The pods as they were made or found, before their gates opened.

        Raises Refused with the API's words (nothing of the gang is left), Temporary when something did not answer
        (what was made keeps its gate, holds nothing, and is adopted by the next try), Permanent for a broken object.
        """
        self._make_beside()
        answers = self._make_pods()
        pods = [answer for answer in answers if isinstance(answer, dict)]
        if refusal := _worst(answers):
            if not isinstance(refusal, Temporary):
                self._undo(pods)
            raise self._told(refusal)
        return self._open(pods)

    @property
    def _beside(self) -> list[tuple[str, Json]]:
        """What must be there before the pods, each with its folder in the API."""
        return [(paths.folder_of(one, self.namespace), one) for one in self.beside]

    def _make_beside(self) -> None:
        wanted = self._beside
        answers = self.api.all(paths.create(path, body) for path, body in wanted)
        for (path, body), answer in zip(wanted, answers, strict=True):
            if isinstance(answer, Conflict):
                self._check_ours(path, body)
            elif isinstance(answer, GpufleetError):
                raise self._told(answer)

    def _check_ours(self, path: str, body: Json) -> None:
        name = body["metadata"]["name"]
        if not _is_same(self.api.ask(paths.get(f"{path}/{name}")), body, IDENTITY[:3]):
            raise Refused(f"{body['kind']} {name} in namespace {self.namespace} is not ours; remove or rename it.")

    def _make_pods(self) -> list[Answer]:
        wanted = self.pods
        answers = self.api.all(paths.create(self.path, pod) for pod in wanted)
        answers = [_made(pod, answer) for pod, answer in zip(wanted, answers, strict=True)]
        there = [n for n, answer in enumerate(answers) if isinstance(answer, Conflict)]
        found = self.api.all(paths.get(f"{self.path}/{wanted[n]['metadata']['name']}") for n in there)
        for n, answer in zip(there, found, strict=True):
            answers[n] = self._adopted(wanted[n], answer)
        return answers

    def _adopted(self, wanted: Json, answer: Answer) -> Answer:
        """The pod of that name, if it is the one we want; a vanished one is made by the next try."""
        name = wanted["metadata"]["name"]
        if isinstance(answer, NotFound):
            return Temporary(f"Pod {name} was just removed; trying again.", retry_after=0.5)
        if isinstance(answer, dict) and not _is_same(answer, wanted, IDENTITY):
            return Refused(f"A pod {name} that is not ours is in namespace {self.namespace}; remove or rename it.")
        return answer

    def _open(self, pods: list[Json]) -> list[Json]:
        """Take the gate off every pod that has it. A pod that has ended, or was deleted, has none that matters."""
        gated = [n for n, pod in enumerate(pods) if _is_gated(pod) and "deletionTimestamp" not in pod["metadata"]]
        answers = self.api.all(self._ungate(pods[n]) for n in gated)
        if trouble := _worst(answers):
            raise self._told(trouble if isinstance(trouble, Temporary) else _vanished(trouble))
        return pods

    def _ungate(self, pod: Json) -> Ask:
        others = [gate for gate in pod["spec"]["schedulingGates"] if gate.get("name") != names.GANG_GATE]
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "spec": {"schedulingGates": others}}
        return paths.merge(f"{self.path}/{pod['metadata']['name']}", body, only_metadata=True)

    def _undo(self, pods: Iterable[Json]) -> None:
        """A gang that cannot be whole holds nothing: neither a GPU, nor a quota."""
        made = [(f"{self.path}/{pod['metadata']['name']}", pod) for pod in pods]
        asks = [paths.let_go(path, pod) for path, pod in made]
        asks += [paths.delete(path, uid=pod["metadata"]["uid"], grace=_grace(pod)) for path, pod in made]
        left = [a for a in self.api.all(asks) if isinstance(a, Temporary)]
        if left:
            raise Temporary(f"A refused gang of {self.job} is not taken away yet: {left[0]}", retry_after=1.0)
        self.api.all(paths.delete(f"{path}/{body['metadata']['name']}") for path, body in self._beside)

    def _told(self, error: GpufleetError) -> GpufleetError:
        if isinstance(error, NotFound):
            return Refused(
                f"Namespace {self.namespace} of team {self.team} is not there: "
                "`gpufleet kubernetes manifests` makes it."
            )
        return error


def _worst(answers: Iterable[Answer]) -> GpufleetError | None:
    """What a gang as a whole was told: a refusal stands above trouble that passes."""
    errors = [answer for answer in answers if isinstance(answer, GpufleetError)]
    return next((e for e in errors if not isinstance(e, Temporary)), errors[0] if errors else None)


def _vanished(error: GpufleetError) -> GpufleetError:
    if isinstance(error, NotFound | Conflict):
        return Temporary("A pod of the gang vanished while it started; trying again.", retry_after=0.5)
    return Permanent(f"Its pods cannot be let go: {error}")


def _with_plan(pod: Json, place: Any) -> Json:
    """The devices it was planned on are written on it: a device plugin's node tells only how many are taken."""
    metadata = pod["metadata"]
    return {
        **pod,
        "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), PLANNED: devices_text(place)}},
    }


def _made(wanted: Json, answer: Answer) -> Answer:
    """A new pod is what was sent, with the metadata that it got."""
    return {**wanted, "metadata": answer["metadata"]} if isinstance(answer, dict) else answer


def _is_same(found: Mapping[str, Any], wanted: Mapping[str, Any], keys: Iterable[str]) -> bool:
    mine, theirs = wanted["metadata"]["labels"], found["metadata"].get("labels") or {}
    return all(theirs.get(key) == mine[key] for key in keys if key in mine)


def _is_gated(pod: Mapping[str, Any]) -> bool:
    return any(gate.get("name") == names.GANG_GATE for gate in pod["spec"].get("schedulingGates") or ())


def _grace(pod: Mapping[str, Any]) -> int | None:
    """A pod no kubelet knows yet needs no time to leave."""
    return None if pod["spec"].get("nodeName") else 0
