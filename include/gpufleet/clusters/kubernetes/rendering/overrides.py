"""A team's own part of a pod, laid over ours: it adds, and what is ours stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpufleet.clusters.kubernetes.rendering.names import MAIN, Object
from gpufleet.clusters.kubernetes.rendering.override_policy import MAIN_FIELDS, MAIN_LISTS, refusals
from gpufleet.errors import Permanent

_SINGLE: Final = ("dnsConfig", "dnsPolicy")
_LISTS: Final = ("hostAliases", "imagePullSecrets", "tolerations", "volumes")


def overridden(pod: Object, override: Mapping[str, Any], registries: tuple[str, ...] = ()) -> Object:
    """The pod with the override laid over it. Raises Permanent, naming the field, for anything outside the policy."""
    if not override:
        return pod
    for refusal in refusals(pod, override, registries):
        raise Permanent(refusal)
    found = copy.deepcopy(pod)
    for kind, more in (override.get("metadata") or {}).items():
        found["metadata"][kind] = {**(more or {}), **found["metadata"].get(kind, {})}
    _lay_spec(found["spec"], override.get("spec") or {})
    return found


def _lay_spec(spec: Object, wish: Mapping[str, Any]) -> None:
    spec.update({key: wish[key] for key in _SINGLE if key in wish})
    for key in _LISTS:
        _extend(spec, key, wish.get(key) or ())
    if "securityContext" in wish:
        spec["securityContext"] = {**spec["securityContext"], **(wish["securityContext"] or {})}
    _extend(spec, "initContainers", map(_hardened, wish.get("initContainers") or ()))
    for container in wish.get("containers") or ():
        if container["name"] == MAIN:
            _lay_main(spec["containers"][0], container)
        else:
            spec["containers"].append(_hardened(container))


def _lay_main(main: Object, wish: Mapping[str, Any]) -> None:
    """A variable that is there already stays: the job's own word, and the cluster's, are nearer than the template's."""
    main.update({key: wish[key] for key in MAIN_FIELDS if key in wish})
    known = {variable["name"] for variable in main["env"]}
    for key in MAIN_LISTS:
        _extend(main, key, (item for item in (wish.get(key) or ()) if key != "env" or item["name"] not in known))


def _extend(where: Object, key: str, more: Iterable[Any]) -> None:
    found = [*where.get(key, []), *more]
    if found:
        where[key] = found


def _hardened(container: Mapping[str, Any]) -> Object:
    return {**container, "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
