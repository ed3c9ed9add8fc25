"""The body of a bulk insert: names of our own, one zone, all or none."""

from __future__ import annotations

from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from gpufleet.clouds.base import BadRequest
from gpufleet.clouds.gcp.config import GcpConfig, GcpSale
from gpufleet.clouds.joining import user_data
from gpufleet.clouds.shop import fingerprint
from gpufleet.model.capacity import CapacityType

FLEET: Final = "gpufleet-fleet"
TOKEN: Final = "gpufleet-token"
OFFERING: Final = "gpufleet-offering"
"""Keys of labels, and of metadata: a label's value has few letters, so the exact words are in the metadata."""

DATA_NICS: Final = {"tcpx": 4, "tcpxo": 8}
"""Data cards by fabric (A3 High, A3 Mega). Another number costs a GPU its slot or leaves a card idle."""


def request_id(*parts: object) -> str:
    """The same request again is the same operation."""
    return str(uuid5(NAMESPACE_URL, "/".join(("gpufleet", *map(str, parts)))))


def prefix(fleet: str) -> str:
    return f"gf-{fingerprint(fleet, length=6)}-"


def names(config: GcpConfig, token: str, count: int) -> list[str]:
    return [f"{prefix(config.fleet)}{token_label(token)}-{number}" for number in range(count)]


def token_label(token: str) -> str:
    return fingerprint(token, length=16)


def bulk_insert(config: GcpConfig, sale: GcpSale, count: int, token: str) -> dict[str, Any]:
    """A BulkInsertInstanceRequest; below `min_count` Compute Engine deletes what it has begun."""
    named = names(config, token, count)
    return {
        "project": config.project,
        "zone": sale.offering.zone,
        "request_id": request_id(config.fleet, token, sale.offering.name, count),
        "bulk_insert_instance_resource_resource": {
            "count": count,
            "min_count": count,
            "instance_properties": properties(config, sale, token),
            "per_instance_properties": {name: {"name": name} for name in named},
        },
    }


def properties(config: GcpConfig, sale: GcpSale, token: str) -> dict[str, Any]:
    region = sale.offering.region
    found: dict[str, Any] = {
        "machine_type": sale.offering.instance_type,
        "labels": {FLEET: config.fleet, TOKEN: token_label(token)},
        "metadata": {"items": [{"key": k, "value": v} for k, v in _metadata(config, sale, token).items()]},
        "disks": [_boot(sale)],
        "network_interfaces": _nics(sale),
        "scheduling": _scheduling(sale),
        "reservation_affinity": _affinity(sale),
    }
    if sale.placement_policy:
        policy = f"projects/{config.project}/regions/{region}/resourcePolicies/{sale.placement_policy}"
        found["resource_policies"] = [policy]
    if sale.service_account:
        scope = "https://www.googleapis.com/auth/cloud-platform"
        found["service_accounts"] = [{"email": sale.service_account, "scopes": [scope]}]
    return found


def _metadata(config: GcpConfig, sale: GcpSale, token: str) -> dict[str, str]:
    told = {TOKEN: token, OFFERING: sale.offering.name, "enable-oslogin": "TRUE"}
    if config.join is not None:
        told["user-data"] = user_data(config.join, sale.offering, fleet=config.fleet, token=token)
    return told


def _boot(sale: GcpSale) -> dict[str, Any]:
    made = {"source_image": sale.image, "disk_size_gb": sale.boot_gib}
    return {"boot": True, "auto_delete": True, "initialize_params": made}


def _nics(sale: GcpSale) -> list[dict[str, Any]]:
    wanted = DATA_NICS.get(sale.offering.fabric)
    if wanted is not None and len(sale.nics) != wanted + 1:
        raise BadRequest(
            f"Offering {sale.offering.name} with {sale.offering.fabric} needs {wanted + 1} networks, one for management "
            f"and {wanted} for data; {len(sale.nics)} are configured."
        )
    found = [{"network": nic.network, "subnetwork": nic.subnetwork, "nic_type": nic.type} for nic in sale.nics]
    return [{key: value for key, value in nic.items() if value} for nic in found]


def _scheduling(sale: GcpSale) -> dict[str, Any]:
    """Machines with GPUs are never moved to another host. Spot ones are deleted when they are taken: a stopped one still
    costs its disk and holds its name."""
    found: dict[str, Any] = {"on_host_maintenance": "TERMINATE", "automatic_restart": False}
    if sale.flex_start is not None:
        seconds = int(sale.flex_start.total_seconds())
        run = {"max_run_duration": {"seconds": seconds}, "instance_termination_action": "DELETE"}
        return found | {"provisioning_model": "FLEX_START"} | run
    if sale.offering.capacity is CapacityType.SPOT:
        return found | {"provisioning_model": "SPOT", "instance_termination_action": "DELETE"}
    return found | {"provisioning_model": "STANDARD"}


def _affinity(sale: GcpSale) -> dict[str, Any]:
    if not sale.reservation:
        return {"consume_reservation_type": "NO_RESERVATION"}
    named = {"key": "compute.googleapis.com/reservation-name", "values": [sale.reservation]}
    return {"consume_reservation_type": "SPECIFIC_RESERVATION", **named}
