"""The Deployment of our controller: the resident loop, beside Airflow."""

from __future__ import annotations

from typing import Final

from gpufleet.clusters.kubernetes.rendering.names import FLEET, Object, label_value
from gpufleet.clusters.kubernetes.rendering.rbac import CONTROLLER, SYSTEM_NAMESPACE

HOME: Final = "/var/lib/gpufleet"
SECRET: Final = "gpufleet"
"""Keys become variables: GPUFLEET_DATABASE_URL, GPUFLEET_RENDEZVOUS_KEY, AIRFLOW_CONN_<ID>."""
CLAIM: Final = "gpufleet-home"
"""The volume of the home: fleet.yaml, teams.yaml, rates.yaml, the logs of ended pods, the exports."""
_APP: Final = "gpufleet.io/app"
_USER: Final = 50_000
"""That of Airflow's image, on which ours is built."""


def controller(fleet: str, image: str) -> Object:
    """Two replicas: one holds the lease, the other takes over when it falls free."""
    labels = {FLEET: label_value(fleet), _APP: CONTROLLER}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": CONTROLLER, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": CONTROLLER,
                    "securityContext": {"runAsUser": _USER, "runAsGroup": 0, "fsGroup": 0, "runAsNonRoot": True},
                    "containers": [_container(image)],
                    "volumes": [{"name": "home", "persistentVolumeClaim": {"claimName": CLAIM}}],
                },
            },
        },
    }


def _container(image: str) -> Object:
    return {
        "name": "controller",
        "image": image,
        "command": ["gpufleet", "controller"],
        "env": [{"name": "GPUFLEET_HOME", "value": HOME}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumeMounts": [{"name": "home", "mountPath": HOME}],
    }
