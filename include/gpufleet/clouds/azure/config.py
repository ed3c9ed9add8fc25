"""How machines of one Azure resource group are bought; built from fleet.yaml by `bootstrap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from gpufleet.clouds.joining import Join
from gpufleet.model.capacity import Offering
from gpufleet.procurement.prices import Quote

RETAIL_PRICES = "https://prices.azure.com/api/retail/prices"


@dataclass(frozen=True, slots=True)
class AzureSale:
    """What a launch of one offering is made of. `offering.zone` is a region's zone (`1`), or the region where it has none."""

    offering: Offering
    image: str = ""
    """Resource id of an image, or of a version in a gallery."""
    subnet: str = ""
    """Resource id."""
    security_group: str = ""
    proximity_group: str = ""
    reservation_group: str = ""
    """Capacity reservation group that machines must come from."""
    identity: str = ""
    """Resource id of a user-assigned identity of the machines."""
    admin: str = "gpufleet"
    ssh_key: str = ""
    os_gib: int = 200


@dataclass(frozen=True, slots=True)
class AzureConfig:
    """One resource group of one subscription; nothing else should be in it."""

    name: str
    fleet: str
    """Our installation's id; scale sets carry it as a tag."""
    subscription: str
    resource_group: str
    region: str
    sales: tuple[AzureSale, ...]
    join: Join | None = None
    listed_prices: tuple[Quote, ...] = ()
    retail_prices: str = RETAIL_PRICES
    """Address of the Retail Prices API; empty: prices come from the file alone."""
    refresh_prices: timedelta = timedelta(minutes=30)
    refresh_instances: timedelta = timedelta(seconds=10)
    endpoint: str | None = None
    """Another address of the Resource Manager: a national cloud's, or a test's."""
    credentials: dict[str, str] = field(default_factory=dict, repr=False)
    """tenant_id, client_id and client_secret; empty: the SDK's own chain (workload identity, managed identity)."""
    anonymous: bool = False
    """No credentials at all, for an endpoint that asks for none."""
