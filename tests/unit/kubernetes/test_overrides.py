"""What a team may and may not change about its pods."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import on
from tests.gangs import counted, gang, main_of, rendered, variables

from gpufleet.clusters.kubernetes.config import PodConfig
from gpufleet.errors import Permanent


def with_template(template: dict[str, Any]) -> dict[str, Any]:
    config = PodConfig(
        image="registry.example/job:1", templates={"vision": template}, registries=("registry.example/",)
    )
    return dict(rendered(gang(on("n0", 0)), counted(), config=config).pods[0])


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def main(**fields: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "main", **fields}])


def beside(**fields: Any) -> dict[str, Any]:
    return spec(containers=[{"name": "side", "image": "registry.example/side:1", **fields}])


REFUSED = {
    "the node's network": (spec(hostNetwork=True), "spec.hostNetwork is not a field that a team may set: the node's n"),
    "the node's processes": (spec(hostPID=True), "spec.hostPID"),
    "the node's shared memory": (spec(hostIPC=True), "spec.hostIPC"),
    "the node's files": (
        spec(volumes=[{"name": "x", "hostPath": {"path": "/"}}]),
        r"spec.volumes\[x\].hostPath is not a field that a team may set: the node's files",
    ),
    "a token of the API": (spec(volumes=[{"name": "x", "projected": {}}]), r"spec.volumes\[x\].projected"),
    "a place of its own": (spec(nodeName="n9"), "spec.nodeName .*: the place of a pod is the plan's"),
    "another place": (spec(affinity={}), "spec.affinity"),
    "another scheduler": (spec(schedulerName="x"), "spec.schedulerName"),
    "an account of its own": (spec(serviceAccountName="x"), "spec.serviceAccountName"),
    "no gate": (spec(schedulingGates=[]), "spec.schedulingGates"),
    "another end": (spec(terminationGracePeriodSeconds=0), "spec.terminationGracePeriodSeconds"),
    "root": (spec(securityContext={"runAsUser": 0}), "spec.securityContext.runAsUser must be a number of at least 1"),
    "kernel settings": (spec(securityContext={"sysctls": []}), "spec.securityContext.sysctls"),
    "privileges in the main container": (
        main(securityContext={"privileged": True}),
        r"spec.containers\[main\].securityContext is not a field that a team may set: no container",
    ),
    "privileges beside it": (beside(securityContext={}), r"spec.containers\[side\].securityContext"),
    "another command": (main(command=["x"]), r"spec.containers\[main\].command"),
    "another image for the main container": (main(image="registry.example/x"), r"spec.containers\[main\].image"),
    "an image from elsewhere": (beside(image="x:1"), r"spec.containers\[side\].image 'x:1' is from a registry that is"),
    "no image": (beside(image=""), r"spec.containers\[side\].image must name an image"),
    "a GPU beside the plan": (
        beside(resources={"limits": {"nvidia.com/gpu": 1}}),
        r"spec.containers\[side\].resources.limits.nvidia.com/gpu",
    ),
    "more resources for the main container": (main(resources={}), r"spec.containers\[main\].resources"),
    "a variable of ours": (main(env=[{"name": "RANK", "value": "1"}]), r"spec.containers\[main\].env\[RANK\] is a var"),
    "a mount over our folder": (
        main(volumeMounts=[{"name": "x", "mountPath": "/etc/gpufleet/x"}]),
        r"spec.containers\[main\].volumeMounts\[x\].mountPath /etc/gpufleet/x lies in a folder that is ours",
    ),
    "a mount that spreads": (
        main(volumeMounts=[{"name": "x", "mountPath": "/x", "mountPropagation": "Bidirectional"}]),
        r"spec.containers\[main\].volumeMounts\[x\].mountPropagation",
    ),
    "a volume with our name": (spec(volumes=[{"name": "control", "emptyDir": {}}]), r"spec.volumes\[control\] has a name"),
    "an init container called main": (
        spec(initContainers=[{"name": "main", "image": "registry.example/x"}]),
        r"spec.initContainers\[main\] needs a name of its own",
    ),
    "every taint": (spec(tolerations=[{"operator": "Exists"}]), r"spec.tolerations\[\] has no key"),
    "cordoned nodes": (
        spec(tolerations=[{"key": "node.kubernetes.io/unschedulable"}]),
        r"spec.tolerations\[node.kubernetes.io/unschedulable\] is not for a team to set",
    ),
    "our label": ({"metadata": {"labels": {"gpufleet.io/job": "x"}}}, "metadata.labels.gpufleet.io/job is not for a"),
    "another queue": ({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "x"}}}, "metadata.labels.kueue.x-k8s.io"),
    "our finalizer": ({"metadata": {"finalizers": []}}, "metadata.finalizers"),
    "a status": ({"status": {}}, "^status is not a field"),
    "a list that is none": (spec(containers={}) | spec(containers="x"), "spec.containers must be a list of mappings"),
    "a mapping that is none": ({"spec": ["x"]}, "^spec must be a mapping"),
}  # fmt: skip


@pytest.mark.parametrize(("template", "why"), REFUSED.values(), ids=REFUSED)
def test_a_team_may_not_have(template: dict[str, Any], why: str) -> None:
    with pytest.raises(Permanent, match=why):
        with_template(template)


def test_a_team_may_add_volumes_mounts_variables_and_a_helper_of_its_own() -> None:
    pod = with_template(
        {
            "metadata": {"labels": {"example.com/cost": "a"}, "annotations": {"note": "b"}},
            "spec": {
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                "tolerations": [{"key": "example.com/research", "operator": "Exists"}],
                "securityContext": {"runAsUser": 2000},
                "initContainers": [{"name": "fetch", "image": "registry.example/fetch:1"}],
                "containers": [
                    {
                        "name": "main",
                        "env": [{"name": "CACHE", "value": "/data"}, {"name": "SEED", "value": "9"}],
                        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                    },
                    {"name": "logs", "image": "registry.example/logs:1", "resources": {"requests": {"cpu": "100m"}}},
                ],
            },
        }
    )
    assert variables(pod)["CACHE"] == "/data"
    assert variables(pod)["SEED"] == "7", "the job's own word is nearer than the template's"
    assert main_of(pod)["volumeMounts"][-1] == {"name": "data", "mountPath": "/data"}
    assert pod["metadata"]["labels"]["example.com/cost"] == "a"
    assert pod["metadata"]["annotations"] == {"note": "b"}
    assert pod["spec"]["securityContext"]["runAsUser"] == 2000 and pod["spec"]["securityContext"]["runAsNonRoot"]
    for helper in (*pod["spec"]["initContainers"], pod["spec"]["containers"][1]):
        assert helper["securityContext"]["allowPrivilegeEscalation"] is False


def test_a_template_is_for_its_own_team() -> None:
    config = PodConfig(image="a:1", templates={"speech": spec(hostNetwork=True)})
    assert rendered(gang(on("n0", 0)), counted(), config=config).pods
