"""Capacity reservations and capacity blocks of EC2."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from gpufleet.clouds.asking import Asking
from gpufleet.clouds.aws.clients import Clients
from gpufleet.clouds.aws.config import AwsConfig, AwsSale
from gpufleet.clouds.aws.launching import FLEET, OFFERING, TOKEN, client_token, tags
from gpufleet.clouds.base import Block, Reservation
from gpufleet.errors import NoCapacity, Refused

LINUX: Final = "Linux/UNIX"
STATES: Final = {
    "active": "active",
    "pending": "pending",
    "scheduled": "pending",
    "payment-pending": "pending",
    "assessing": "pending",
    "delayed": "pending",
    "unavailable": "pending",
}
"""EC2's words; every other one (expired, cancelled, failed, payment-failed, unsupported, cancelling) is over."""
BLOCK: Final = "capacity-block"
WITHIN: Final = timedelta(days=56)
"""Blocks are on sale up to eight weeks ahead."""


class Reservations:
    """The reservations of one region."""

    def __init__(self, config: AwsConfig, clients: Clients, asking: Asking) -> None:
        self._config, self._clients, self._asking = config, clients, asking

    def all(self) -> tuple[Reservation, ...]:
        return tuple(map(_reservation, self._raw()))

    def reserve(self, sale: AwsSale, count: int, token: str, block: str) -> Reservation:
        """A purchase of a block knows no client token: what is there by tag is looked for first, and it is never
        repeated in the same breath."""
        known = next((r for r in self.all() if r.token == token), None)
        if known is not None:
            return known
        if block:
            asked = {
                "CapacityBlockOfferingId": block,
                "InstancePlatform": LINUX,
                "TagSpecifications": self._tags(sale, token),
            }
            bought = self._asking.once(lambda: self._clients("ec2").purchase_capacity_block(**asked))
            return _reservation(bought["CapacityReservation"])
        wanted: dict[str, Any] = {
            "InstanceType": sale.offering.instance_type,
            "InstancePlatform": LINUX,
            "AvailabilityZone": sale.offering.zone,
            "InstanceCount": count,
            "InstanceMatchCriteria": "targeted",
            "EndDateType": "unlimited",
            "ClientToken": client_token(token, sale, count),
            "TagSpecifications": self._tags(sale, token),
        }
        made = self._asking.ask(lambda: self._clients("ec2").create_capacity_reservation(**wanted))
        return _reservation(made["CapacityReservation"])

    def cancel(self, id: str) -> None:
        found = next((raw for raw in self._raw() if raw["CapacityReservationId"] == id), None)
        if found is None or STATES.get(found["State"]) is None:
            return
        if found.get("ReservationType") == BLOCK:
            raise Refused(f"Capacity block {id} is paid and cannot be given back; it ends at {found.get('EndDate')}.")
        self._asking.ask(lambda: self._clients("ec2").cancel_capacity_reservation(CapacityReservationId=id))

    def blocks(self, sale: AwsSale, count: int, hours: int, now: datetime) -> tuple[Block, ...]:
        asked = {
            "InstanceType": sale.offering.instance_type,
            "InstanceCount": count,
            "CapacityDurationHours": hours,
            "StartDateRange": now,
            "EndDateRange": now + WITHIN,
        }
        try:
            said = self._asking.ask(lambda: self._clients("ec2").describe_capacity_block_offerings(**asked))
        except NoCapacity:
            return ()
        offers = (o for o in said["CapacityBlockOfferings"] if o["AvailabilityZone"] == sale.offering.zone)
        return tuple(sorted((_block(o, sale) for o in offers), key=lambda b: (b.price, b.starts, b.id)))

    def _raw(self) -> list[dict[str, Any]]:
        ours = [{"Name": f"tag:{FLEET}", "Values": [self._config.fleet]}]
        pages = self._clients("ec2").get_paginator("describe_capacity_reservations").paginate(Filters=ours)
        return self._asking.ask(lambda: [raw for page in pages for raw in page["CapacityReservations"]])

    def _tags(self, sale: AwsSale, token: str) -> list[dict[str, Any]]:
        return [{"ResourceType": "capacity-reservation", "Tags": tags(self._config, sale, token)}]


def _reservation(raw: dict[str, Any]) -> Reservation:
    told = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    total = int(raw["TotalInstanceCount"])
    return Reservation(
        id=raw["CapacityReservationId"],
        offering=told.get(OFFERING, ""),
        count=total,
        used=total - int(raw.get("AvailableInstanceCount", total)),
        state=STATES.get(raw["State"], "ended"),
        starts=_utc(raw.get("StartDate")),
        ends=_utc(raw.get("EndDate")),
        token=told.get(TOKEN, ""),
    )


def _block(raw: dict[str, Any], sale: AwsSale) -> Block:
    starts, ends = _utc(raw["StartDate"]), _utc(raw["EndDate"])
    assert starts is not None and ends is not None
    return Block(
        raw["CapacityBlockOfferingId"],
        sale.offering.name,
        int(raw["InstanceCount"]),
        starts,
        ends,
        Fraction(raw["UpfrontFee"]),
        raw.get("CurrencyCode", "USD"),
    )


def _utc(at: datetime | None) -> datetime | None:
    return at.astimezone(UTC) if at is not None else None
