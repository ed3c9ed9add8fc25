"""The bodies of EC2's launch calls: all or none, in one subnet, tagged from the first moment."""

from __future__ import annotations

from typing import Any, Final

from gpufleet.clouds.aws.cards import interfaces
from gpufleet.clouds.aws.config import AwsConfig, AwsSale
from gpufleet.clouds.joining import user_data
from gpufleet.clouds.shop import fingerprint
from gpufleet.model.capacity import CapacityType

FLEET: Final = "gpufleet:fleet"
TOKEN: Final = "gpufleet:token"
OFFERING: Final = "gpufleet:offering"


def tags(config: AwsConfig, sale: AwsSale, token: str) -> list[dict[str, str]]:
    told = {FLEET: config.fleet, TOKEN: token, OFFERING: sale.offering.name, "Name": f"gpufleet-{config.fleet}"}
    return [{"Key": key, "Value": value} for key, value in told.items()]


def client_token(token: str, sale: AwsSale, count: int) -> str:
    """EC2 refuses a token that comes with another request, so what is asked for is in it. At most 64 letters."""
    return fingerprint(token, sale.offering.name, count, length=48)


def run_instances(config: AwsConfig, sale: AwsSale, count: int, token: str) -> dict[str, Any]:
    """Arguments of RunInstances; MinCount = MaxCount is EC2's all or none."""
    offering = sale.offering
    asked: dict[str, Any] = {
        "ImageId": sale.image,
        "InstanceType": offering.instance_type,
        "MinCount": count,
        "MaxCount": count,
        "ClientToken": client_token(token, sale, count),
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags(config, sale, token)} for kind in ("instance", "volume")
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "Placement": _placement(sale),
        "BlockDeviceMappings": [_root(sale)],
    }
    asked |= _network(sale) | _market(sale)
    if sale.instance_profile:
        asked["IamInstanceProfile"] = {"Name": sale.instance_profile}
    if config.join is not None:
        asked["UserData"] = user_data(config.join, offering, fleet=config.fleet, token=token)
    return asked


def create_fleet(config: AwsConfig, sale: AwsSale, count: int, token: str) -> dict[str, Any]:
    """Arguments of CreateFleet: an instant fleet of one type in one zone, nothing at all below `count`."""
    offering, place = sale.offering, _placement(sale)
    override = {"InstanceType": offering.instance_type, "Placement": place}
    override |= {"SubnetId": sale.subnet} if sale.subnet else {}
    override |= {"ImageId": sale.image} if sale.image else {}
    all_or_none = {"MinTargetCapacity": count, "SingleInstanceType": True, "SingleAvailabilityZone": True}
    template = {"LaunchTemplateId": sale.launch_template, "Version": "$Latest"}
    spot = offering.capacity is CapacityType.SPOT
    options: dict[str, Any] = (
        {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized", **all_or_none}}
        if spot
        else {"OnDemandOptions": {"AllocationStrategy": "lowest-price", **all_or_none}}
    )
    return options | {
        "Type": "instant",
        "ClientToken": client_token(token, sale, count),
        "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": template, "Overrides": [override]}],
        "TargetCapacitySpecification": {
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "spot" if spot else "on-demand",
        },
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags(config, sale, token)} for kind in ("fleet", "instance")
        ],
    }


def _placement(sale: AwsSale) -> dict[str, str]:
    group = {"GroupName": sale.placement_group} if sale.placement_group else {}
    return {"AvailabilityZone": sale.offering.zone} | group


def _network(sale: AwsSale) -> dict[str, Any]:
    if sale.efa:
        return {"NetworkInterfaces": interfaces(sale.offering.instance_type, sale.subnet, sale.security_groups)}
    subnet = {"SubnetId": sale.subnet} if sale.subnet else {}
    return subnet | ({"SecurityGroupIds": list(sale.security_groups)} if sale.security_groups else {})


def _market(sale: AwsSale) -> dict[str, Any]:
    """Spot without a highest price: one would only bring more interruptions."""
    found: dict[str, Any] = {}
    if sale.offering.capacity is CapacityType.SPOT:
        once = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
        found["InstanceMarketOptions"] = {"MarketType": "spot", "SpotOptions": once}
    if sale.is_block:
        found["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if sale.reservation:
        target = {"CapacityReservationTarget": {"CapacityReservationId": sale.reservation}}
        found["CapacityReservationSpecification"] = target
    elif sale.offering.capacity is not CapacityType.SPOT:
        found["CapacityReservationSpecification"] = {"CapacityReservationPreference": "none"}
    return found


def _root(sale: AwsSale) -> dict[str, Any]:
    disk = {"VolumeSize": sale.root_gib, "VolumeType": "gp3", "DeleteOnTermination": True, "Encrypted": True}
    return {"DeviceName": "/dev/sda1", "Ebs": disk}
