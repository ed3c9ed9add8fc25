"""What must hold for whatever gang is rendered for Kubernetes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from tests.gangs import counted, gang, main_of, rendered, variables

from gpufleet.clusters.base import GangSpec
from gpufleet.clusters.kubernetes.rendering.names import dns_label, label_value, service_name
from gpufleet.clusters.kubernetes.rendering.override_policy import refusals
from gpufleet.clusters.kubernetes.rendering.overrides import overridden
from gpufleet.errors import Permanent
from gpufleet.model.hardware import MigInstance
from gpufleet.model.snapshot import PodPlace, SliceOn
from gpufleet.model.workload import Container

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
NODES = tuple(counted(f"n{i}", fabric=fabric) for i, fabric in enumerate(("", "efa", "infiniband", "roce")))
names = some.text(max_size=80) | some.from_regex(LABEL, fullmatch=True)
words = some.text(some.characters(codec="ascii", exclude_characters="\0"), max_size=12)


@some.composite
def places(draw: some.DrawFn) -> PodPlace:
    """Whole GPUs or slices of one node, with or without a wish for the host."""
    where = draw(some.sampled_from(NODES)).name
    gpus = tuple(sorted(draw(some.sets(some.integers(0, 7), min_size=1, max_size=8))))
    cpu = draw(some.none() | some.integers(1, 64).map(float))
    memory = draw(some.none() | some.integers(1, 1 << 20))
    if draw(some.booleans()):
        slices = tuple(SliceOn(gpu, MigInstance(0, draw(some.sampled_from(["1g.10gb", "2g.20gb"])))) for gpu in gpus)
        return PodPlace(0, 0, where, slices=slices, cpu=cpu, memory_mib=memory)
    return PodPlace(0, 0, where, gpus, cpu=cpu, memory_mib=memory)


@some.composite
def gangs(draw: some.DrawFn) -> GangSpec:
    found = gang(*draw(some.lists(places(), min_size=1, max_size=6)), job=draw(names) or "j")
    container = Container(
        ("sh", "-c", draw(words)), "a:1", tuple(draw(some.dictionaries(some.just("A"), words)).items())
    )
    return replace(found, pods=tuple(replace(pod, container=container) for pod in draw(some.permutations(found.pods))))


@given(names)
def test_every_name_is_a_legal_one(text: str) -> None:
    assert LABEL.fullmatch(dns_label(text))
    assert LABEL.fullmatch(service_name(text)) and service_name(text)[0].isalpha()
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", label_value(text))


@given(some.lists(names, unique=True, max_size=8))
def test_different_names_stay_different(texts: list[str]) -> None:
    assert len({dns_label(text) for text in texts}) == len(texts)


@given(gangs())
def test_rendering_is_deterministic_and_fit_for_json(spec: GangSpec) -> None:
    one, other = rendered(spec, *NODES), rendered(replace(spec, pods=tuple(reversed(spec.pods))), *NODES)
    assert json.dumps([one.service, *one.pods]) == json.dumps([other.service, *other.pods])


@given(gangs())
def test_there_is_one_pod_for_each_place_pinned_to_its_node(spec: GangSpec) -> None:
    pods = rendered(spec, *NODES).pods
    ranked = sorted(spec.pods, key=lambda pod: pod.rank)
    assert [variables(pod)["RANK"] for pod in pods] == [str(pod.rank) for pod in ranked]
    assert len({pod["metadata"]["name"] for pod in pods}) == len(spec.pods)
    assert [_pin(pod) for pod in pods] == [pod.place.node for pod in ranked]


def _pin(pod: dict[str, Any]) -> str:
    (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    (field,) = term["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    (name,) = field["values"]
    return str(name)


@given(gangs())
def test_no_pod_asks_for_more_than_its_place(spec: GangSpec) -> None:
    for asked, pod in zip(sorted(spec.pods, key=lambda p: p.rank), rendered(spec, *NODES).pods, strict=True):
        requests = main_of(pod)["resources"]["requests"]
        gpus = sum(int(n) for name, n in requests.items() if name.startswith("nvidia.com/"))
        assert gpus == len(asked.place.gpus) + len(asked.place.slices)
        assert requests.get("memory") == (f"{asked.place.memory_mib}Mi" if asked.place.memory_mib else None)
        assert int(requests.get("cpu", "0").removesuffix("m")) <= 1000 * (asked.place.cpu or 0)


@given(gangs())
def test_the_kubelet_hands_on_what_the_job_wrote(spec: GangSpec) -> None:
    ranked = sorted(spec.pods, key=lambda pod: pod.rank)
    for asked, pod in zip(ranked, rendered(spec, *NODES).pods, strict=True):
        assert tuple(map(_expanded, main_of(pod)["command"])) == asked.container.command
        assert dict(asked.container.env).items() <= {n: _expanded(v) for n, v in variables(pod).items()}.items()


def _expanded(text: str) -> str:
    """As the kubelet expands a text where no variable is known: `$$` is `$`, everything else stays."""
    return re.sub(r"\$(\$|\([^)]*\))?", lambda m: "$" if m[1] == "$" else m[0], text)


leaves = some.booleans() | some.integers(0, 3) | words
keys = some.sampled_from(
    [
        "name",
        "image",
        "env",
        "value",
        "key",
        "operator",
        "mountPath",
        "hostNetwork",
        "hostPath",
        "emptyDir",
        "privileged",
        "securityContext",
        "runAsUser",
        "volumes",
        "containers",
        "initContainers",
        "tolerations",
        "volumeMounts",
        "labels",
        "annotations",
        "gpufleet.io/job",
        "x/y",
        "schedulerName",
        "dnsPolicy",
        "resources",
        "limits",
        "command",
    ]
)
values = some.recursive(
    leaves,
    lambda inner: (
        some.lists(some.dictionaries(keys, inner, max_size=3), max_size=2) | some.dictionaries(keys, inner, max_size=3)
    ),
)
variable = some.fixed_dictionaries({"name": some.sampled_from(["A", "B", "RANK"]), "value": words})
named = some.fixed_dictionaries(
    {"name": some.sampled_from(["main", "side", "control"])},
    optional={
        "image": some.just("a:1"),
        "env": values | some.lists(variable),
        "volumeMounts": values | some.none(),
        "emptyDir": some.just({}),
        "workingDir": words,
    },
)
specs = some.dictionaries(keys, values, max_size=3) | some.fixed_dictionaries(
    {},
    optional={
        "containers": some.none() | some.lists(named, max_size=2),
        "volumes": some.lists(named, max_size=2),
        "dnsPolicy": words,
    },
)
templates = some.fixed_dictionaries(
    {}, optional={"metadata": some.dictionaries(keys, values, max_size=2), "spec": specs}
)


@given(templates)
def test_every_template_that_passes_keeps_what_is_ours(template: dict[str, Any]) -> None:
    (pod,) = rendered(gang(PodPlace(0, 0, "n0", (0,))), *NODES).pods
    try:
        if list(refusals(pod, template, ())):
            return
    except Permanent:
        return
    found = overridden(pod, template)
    assert pod["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
    for key, value in pod["spec"].items():
        if key not in ("containers", "volumes", "tolerations", "securityContext"):
            assert found["spec"][key] == value
    for key, value in main_of(pod).items():
        kept = main_of(found)[key]
        assert kept[: len(value)] == value if isinstance(value, list) else kept == value
    assert found["spec"]["volumes"][: len(pod["spec"]["volumes"])] == pod["spec"]["volumes"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "nodeName"} & found["spec"].keys()
    assert "hostPath" not in json.dumps(found["spec"]["volumes"]) or "hostPath" in json.dumps(template["metadata"])
