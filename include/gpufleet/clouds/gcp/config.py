"""How machines of one Google Cloud project are bought; built from fleet.yaml by `bootstrap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from gpufleet.clouds.joining import Join
from gpufleet.model.capacity import Offering
from gpufleet.procurement.prices import Quote


@dataclass(frozen=True, slots=True)
class Nic:
    """One network interface, in the order of the machine's slots."""

    network: str
    subnetwork: str = ""
    type: str = "GVNIC"
    """GVNIC, or MRDMA for the RoCE cards of A3 Ultra and A4."""


@dataclass(frozen=True, slots=True)
class GcpSale:
    """What a launch of one offering is made of."""

    offering: Offering
    image: str = ""
    nics: tuple[Nic, ...] = ()
    """The management network first, then one for each data card: 4 with TCPX, 8 with TCPXO and RoCE."""
    placement_policy: str = ""
    """A compact placement policy of the region; it exists already."""
    reservation: str = ""
    """Name of a specific reservation that machines must come from."""
    flex_start: timedelta | None = None
    """Bought as DWS flex-start, for at most so long."""
    service_account: str = ""
    boot_gib: int = 200


@dataclass(frozen=True, slots=True)
class GcpConfig:
    """One project."""

    name: str
    fleet: str
    """Our installation's id; machines carry it as a label."""
    project: str
    sales: tuple[GcpSale, ...]
    join: Join | None = None
    listed_prices: tuple[Quote, ...] = ()
    refresh_prices: timedelta = timedelta(minutes=5)
    refresh_instances: timedelta = timedelta(seconds=10)
    endpoint: str | None = None
    """Another address of the API: private access, or a test's."""
    credentials: dict[str, Any] | None = field(default=None, repr=False)
    """A service account's key; None: the SDK's own chain (workload identity)."""
    anonymous: bool = False
    """No credentials at all, for an endpoint that asks for none."""
