"""The clouds that fleet.yaml names: one class for each kind, and for what each kind's offerings are made of."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_models
from gpufleet.settings.worlds import Duration, SandboxWorld, Strict

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]


class JoinEntry(Strict):
    """How machines join a Kubernetes cluster; the fields of `clouds.joining.Join`."""

    cluster: str
    template: str = "kubeadm"
    """kubeadm or eks, which come with gpufleet, or a file; a relative path counts from the home."""
    endpoint: str = ""
    ca_hash: str = ""
    certificate: str = ""
    service_cidr: str = ""
    secret_variable: str = Field(default="GPUFLEET_JOIN_SECRET", pattern=r"^[A-Z][A-Z0-9_]*$")
    """The environment variable that holds what lets a machine in; the secret itself never stands in a file of ours."""
    taints: tuple[str, ...] = ("nvidia.com/gpu=present:NoSchedule",)
    labels: dict[str, str] = Field(default={})


class SaleEntry(Strict):
    """What every offering says of itself."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    instance_type: str
    zone: str = ""
    capacity: Literal[CapacityType.RESERVED, CapacityType.ON_DEMAND, CapacityType.SPOT]
    model: str
    gpus: int = Field(ge=1, le=16)
    fabric: str = ""
    currency: str = "USD"

    @model_validator(mode="after")
    def _model_is_known(self) -> SaleEntry:
        if self.model not in gpu_models():
            raise ValueError(f"offering '{self.name}' names GPU model '{self.model}', which is not in the catalogue")
        return self


class AwsSaleEntry(SaleEntry):
    """The fields of `clouds.aws.config.AwsSale`."""

    image: str = ""
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    placement_group: str = ""
    efa: bool = False
    reservation: str = ""
    is_block: bool = False
    launch_template: str = ""
    root_gib: int = Field(default=200, ge=8)

    @model_validator(mode="after")
    def _holds_together(self) -> AwsSaleEntry:
        if not self.zone:
            raise ValueError(f"offering '{self.name}' needs a zone: a gang has one")
        if not self.image and not self.launch_template:
            raise ValueError(f"offering '{self.name}' needs an image or a launch template")
        if self.efa and not (self.subnet and self.security_groups):
            raise ValueError(f"offering '{self.name}' with efa needs a subnet and security groups")
        if self.is_block and not self.reservation:
            raise ValueError(f"offering '{self.name}' is of a capacity block and needs its id as reservation")
        return self


class NicEntry(Strict):
    network: str
    subnetwork: str = ""
    type: Literal["GVNIC", "MRDMA"] = "GVNIC"


class GcpSaleEntry(SaleEntry):
    """The fields of `clouds.gcp.config.GcpSale`."""

    image: str
    nics: tuple[NicEntry, ...] = Field(min_length=1)
    placement_policy: str = ""
    reservation: str = ""
    flex_start: Duration | None = None
    service_account: str = ""
    boot_gib: int = Field(default=200, ge=10)

    @model_validator(mode="after")
    def _has_a_zone(self) -> GcpSaleEntry:
        if self.zone.count("-") < 2:
            raise ValueError(f"offering '{self.name}' needs a zone like us-central1-a")
        return self


class AzureSaleEntry(SaleEntry):
    """The fields of `clouds.azure.config.AzureSale`. `zone` is 1, 2 or 3; without one the region has none."""

    image: str
    subnet: str
    security_group: str = ""
    proximity_group: str = ""
    reservation_group: str = ""
    identity: str = ""
    admin: str = "gpufleet"
    ssh_key: str
    os_gib: int = Field(default=200, ge=30)


class RealCloud(Strict):
    """What is configured alike in all of them."""

    name: Name
    dry_run: bool = True
    """Whether purchases are only decided and told of."""
    connection: str = Field(default="", pattern=r"^[A-Za-z0-9_]*$")
    """Id of an Airflow connection; empty: the SDK's own chain."""
    join: JoinEntry | None = None
    prices: str = ""
    """A price list; a relative path counts from the home."""
    refresh_prices: Duration = timedelta(minutes=5)
    refresh_instances: Duration = timedelta(seconds=10)


class AwsWorld(RealCloud):
    kind: Literal["aws"]
    region: str
    queue_url: str = ""
    price_list: bool = False
    endpoint_url: str | None = None
    offerings: tuple[AwsSaleEntry, ...] = Field(min_length=1)


class GcpWorld(RealCloud):
    kind: Literal["gcp"]
    project: str
    endpoint: str | None = None
    offerings: tuple[GcpSaleEntry, ...] = Field(min_length=1)


class AzureWorld(RealCloud):
    kind: Literal["azure"]
    region: str
    subscription: str
    resource_group: str
    retail_prices: str | None = None
    endpoint: str | None = None
    offerings: tuple[AzureSaleEntry, ...] = Field(min_length=1)


REAL_KINDS = ("aws", "gcp", "azure")
AnyCloud = SandboxWorld | AwsWorld | GcpWorld | AzureWorld
CloudWorld = Annotated[AnyCloud, Field(discriminator="kind")]


def facts_of(entry: Strict, *without: str) -> dict[str, Any]:
    """The fields of an entry by name, as the frozen fact of the same fields takes them."""
    return {name: getattr(entry, name) for name in type(entry).model_fields if name not in without}
