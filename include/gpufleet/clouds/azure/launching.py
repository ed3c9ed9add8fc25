"""The body of a scale set: one purchase is one set, so its name finds it again and one deletion gives it all back."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final

from gpufleet.clouds.azure.config import AzureConfig, AzureSale
from gpufleet.clouds.joining import user_data
from gpufleet.clouds.shop import fingerprint
from gpufleet.model.capacity import CapacityType

FLEET: Final = "gpufleet-fleet"
TOKEN: Final = "gpufleet-token"
OFFERING: Final = "gpufleet-offering"
COUNT: Final = "gpufleet-count"
NETWORK_API: Final = "2024-05-01"
MOST_IN_ONE_PLACEMENT_GROUP: Final = 100

Json = dict[str, Any]


def set_name(fleet: str, token: str) -> str:
    return f"gf-{fingerprint(fleet, length=6)}-{fingerprint(token, length=16)}"


def scale_set(config: AzureConfig, sale: AzureSale, count: int, token: str) -> Json:
    """InfiniBand reaches only machines of one set with one placement group; such a set is never larger than 100."""
    offering = sale.offering
    zones = [offering.zone.rsplit("-", 1)[-1]] if offering.zone != offering.region else []
    properties: Json = {
        "orchestrationMode": "Flexible",
        "singlePlacementGroup": offering.fabric == "infiniband" and count <= MOST_IN_ONE_PLACEMENT_GROUP,
        "platformFaultDomainCount": 1,
        "overprovision": False,
        "virtualMachineProfile": _profile(config, sale, token),
    }
    if sale.proximity_group:
        properties["proximityPlacementGroup"] = {"id": sale.proximity_group}
    found: Json = {
        "location": offering.region,
        "tags": {FLEET: config.fleet, TOKEN: token, OFFERING: offering.name, COUNT: str(count)},
        "sku": {"name": offering.instance_type, "tier": "Standard", "capacity": count},
        "properties": properties,
    }
    if sale.identity:
        found["identity"] = {"type": "UserAssigned", "userAssignedIdentities": {sale.identity: {}}}
    return found | ({"zones": zones} if zones else {})


def _profile(config: AzureConfig, sale: AzureSale, token: str) -> Json:
    disk = {"createOption": "FromImage", "diskSizeGB": sale.os_gib, "deleteOption": "Delete"}
    found: Json = {
        "storageProfile": {"imageReference": {"id": sale.image}, "osDisk": disk},
        "osProfile": _os(config, sale, token),
        "networkProfile": {
            "networkApiVersion": NETWORK_API,
            "networkInterfaceConfigurations": [{"name": "nic", "properties": _nic(sale)}],
        },
    }
    if sale.offering.capacity is CapacityType.SPOT:
        # deallocated machines would still cost their disk and their quota; -1: never evicted for its price
        found |= {"priority": "Spot", "evictionPolicy": "Delete", "billingProfile": {"maxPrice": -1}}
    if sale.reservation_group:
        found["capacityReservation"] = {"capacityReservationGroup": {"id": sale.reservation_group}}
    return found


def _os(config: AzureConfig, sale: AzureSale, token: str) -> Json:
    key = {"path": f"/home/{sale.admin}/.ssh/authorized_keys", "keyData": sale.ssh_key}
    linux: Json = {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}}
    found: Json = {"computerNamePrefix": "gf-", "adminUsername": sale.admin, "linuxConfiguration": linux}
    if config.join is not None:
        text = user_data(config.join, sale.offering, fleet=config.fleet, token=token)
        found["customData"] = b64encode(text.encode()).decode()
    return found


def _nic(sale: AzureSale) -> Json:
    address = {"name": "ip", "properties": {"primary": True, "subnet": {"id": sale.subnet}}}
    found: Json = {"primary": True, "deleteOption": "Delete", "ipConfigurations": [address]}
    return found | ({"networkSecurityGroup": {"id": sale.security_group}} if sale.security_group else {})
