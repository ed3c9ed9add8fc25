"""How a bought machine joins its cluster: one text for its first boot, made of a template and a few values. Pure.

Values: `cluster`, `endpoint`, `ca_hash`, `certificate` (the CA's, base64), `service_cidr`, `join_secret`, `labels`,
`taints`, `fleet`, `name` (empty where the machine learns it from its cloud). A template writes them as `${labels}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from string import Template
from typing import Final

from gpufleet.errors import Invalid
from gpufleet.model.capacity import Offering

BUILT_IN: Final = ("kubeadm", "eks")
SECRET: Final = "join_secret"

FLEET, TOKEN, OFFERING = "gpufleet.io/fleet", "gpufleet.io/token", "gpufleet.io/offering"
CAPACITY, MODEL = "gpufleet.io/capacity", "gpufleet.io/model"
ZONE, REGION, TYPE = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
)


@dataclass(frozen=True, slots=True)
class Join:
    """Which cluster, and how. `secret` is what lets a machine in; it is in no repr and no message."""

    cluster: str
    template: str = field(repr=False)
    """Text, not a file's name."""
    endpoint: str = ""
    ca_hash: str = ""
    certificate: str = field(default="", repr=False)
    service_cidr: str = ""
    secret: str = field(default="", repr=False)
    taints: tuple[str, ...] = ("nvidia.com/gpu=present:NoSchedule",)
    labels: tuple[tuple[str, str], ...] = ()
    """More labels of every node."""


def built_in(name: str) -> str:
    """The text of a template that comes with gpufleet."""
    if name not in BUILT_IN:
        raise Invalid(f"There is no join template '{name}': use one of {', '.join(BUILT_IN)}, or name a file.")
    return resources.files("gpufleet.clouds").joinpath("templates", f"{name}.yaml").read_text()


def node_labels(
    offering: Offering, *, fleet: str, token: str, more: tuple[tuple[str, str], ...] = ()
) -> dict[str, str]:
    """What a node of ours says of itself from its first moment; Kubernetes takes at most 63 letters a value."""
    told = {
        FLEET: fleet,
        TOKEN: token,
        OFFERING: offering.name,
        CAPACITY: offering.capacity.value,
        MODEL: offering.model,
        REGION: offering.region,
        ZONE: offering.zone,
        TYPE: offering.instance_type,
    }
    told |= {"gpufleet.io/fabric": offering.fabric} if offering.fabric else {}
    return {key: _value(value) for key, value in (told | dict(more)).items() if value}


def _value(text: str) -> str:
    kept = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in text)[:63]
    return kept.strip("-_.")


def user_data(join: Join, offering: Offering, *, fleet: str, token: str, name: str = "") -> str:
    """The text of a machine's first boot; raises Invalid naming a value that the template asks for and nobody gives."""
    labels = node_labels(offering, fleet=fleet, token=token, more=join.labels)
    values = {
        "cluster": join.cluster,
        "endpoint": join.endpoint,
        "ca_hash": join.ca_hash,
        "certificate": join.certificate,
        "service_cidr": join.service_cidr,
        SECRET: join.secret,
        "labels": ",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        "taints": ",".join(join.taints),
        "fleet": fleet,
        "name": name,
    }
    needed = Template(join.template).get_identifiers()
    missing = [key for key in needed if not values.get(key) and key not in ("name", "taints")]
    if missing:
        raise Invalid(f"The join template of cluster {join.cluster} needs '{missing[0]}', which is not configured.")
    return Template(join.template).substitute({key: values[key] for key in needed})
