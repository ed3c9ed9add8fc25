"""How machines of one AWS region are bought; built from fleet.yaml by `bootstrap`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from gpufleet.clouds.joining import Join
from gpufleet.model.capacity import Offering
from gpufleet.procurement.prices import Quote


@dataclass(frozen=True, slots=True)
class AwsSale:
    """What a launch of one offering is made of. All ranks of a gang share one subnet, and so one zone."""

    offering: Offering
    image: str = ""
    subnet: str = ""
    security_groups: tuple[str, ...] = ()
    """With EFA a group must allow all traffic to and from itself."""
    instance_profile: str = ""
    placement_group: str = ""
    """Of strategy `cluster`; it exists already."""
    efa: bool = False
    reservation: str = ""
    """Id of a capacity reservation or block that machines must come from."""
    is_block: bool = False
    """Whether `reservation` is a capacity block."""
    launch_template: str = ""
    """Id; with one, spot is bought by an EC2 fleet and image, network and user data are the template's."""
    root_gib: int = 200


@dataclass(frozen=True, slots=True)
class AwsConfig:
    """One region of one account."""

    name: str
    fleet: str
    """Our installation's id; machines carry it as a tag."""
    region: str
    sales: tuple[AwsSale, ...]
    join: Join | None = None
    """How a machine joins its cluster; None: its image, or its launch template, knows."""
    queue_url: str = ""
    """SQS queue that an EventBridge rule fills with spot warnings and rebalance recommendations. Ours alone."""
    listed_prices: tuple[Quote, ...] = ()
    price_list: bool = False
    """Whether on-demand prices are asked of the Price List API (in us-east-1, whatever the region)."""
    refresh_prices: timedelta = timedelta(minutes=5)
    refresh_instances: timedelta = timedelta(seconds=10)
    endpoint_url: str | None = None
    """Another endpoint for every service: a VPC endpoint, or a test's."""
    credentials: dict[str, str] = field(default_factory=dict, repr=False)
    """Keyword arguments of a boto3 session; empty: the SDK's own chain (workload identity, instance profile)."""
