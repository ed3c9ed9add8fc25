"""Charges as FOCUS 1.4 Cost and Usage rows (FinOps Foundation, ratified 2026-06-04, CC BY 4.0).

docs/formats-focus.md says how each of our facts is mapped. Amounts are plain decimals, a missing value is an empty cell
(null in Parquet), instants are UTC to the second, periods end before their end. Costs by price are computed from the
quantity as it is written, so price x quantity = cost holds by construction; the effective cost is what the statement says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.statement import Standing

VERSION: Final = "1.4"
UNIT: Final = "GPU-Hours"


@dataclass(frozen=True, slots=True)
class Delivery:
    """What all rows of a file have in common. The period is that of the finance zone, as instants."""

    account: str
    currency: str
    issuer: str
    period_begin: datetime
    period_end: datetime
    standing: Standing
    revision: int


Reader = Callable[[Charge, Delivery], str | None]

_USAGE: Final = frozenset(
    {ChargeKind.USE, ChargeKind.COMMITTED_USE, ChargeKind.IDLE, ChargeKind.UNUSED, ChargeKind.SHARED}
)
_MEASURED: Final = frozenset({ChargeKind.USE, ChargeKind.COMMITTED_USE, ChargeKind.IDLE})
_CATEGORY: Final = {
    ChargeKind.PURCHASE: "Purchase",
    ChargeKind.CREDIT: "Credit",
    ChargeKind.ADJUSTMENT: "Adjustment",
    ChargeKind.IDLE_SHARE: "Adjustment",
}
_FREQUENCY: Final = {ChargeKind.PURCHASE: "Recurring", ChargeKind.SHARED: "Recurring"}
_WORDS: Final = {
    ChargeKind.USE: "GPU time",
    ChargeKind.COMMITTED_USE: "GPU time covered by a commitment",
    ChargeKind.IDLE: "Idle GPUs of a node",
    ChargeKind.IDLE_SHARE: "Share of the cost of idle GPUs",
    ChargeKind.UNUSED: "Unused part of a commitment",
    ChargeKind.PURCHASE: "Payment for a commitment",
    ChargeKind.SHARED: "Share of a common cost",
    ChargeKind.CREDIT: "Credit",
    ChargeKind.ADJUSTMENT: "Adjustment to the cloud's invoice",
}


# ------------------------------------------------------------------ amounts


def nano(units: int) -> str:
    """Nano-units as a plain decimal without trailing zeros."""
    return _plain(units, 9)


def _plain(units: int, places: int) -> str:
    sign, digits = ("-" if units < 0 else ""), str(abs(units)).rjust(places + 1, "0")
    whole, part = digits[:-places], digits[-places:].rstrip("0")
    return f"{sign}{whole}.{part}" if part else f"{sign}{whole}"


def is_priced(c: Charge) -> bool:
    """Whether it has a price for each unit: corrections and what no price fits have none."""
    if c.corrects or c.kind in (ChargeKind.CREDIT, ChargeKind.ADJUSTMENT, ChargeKind.IDLE_SHARE):
        return False
    return c.kind not in _MEASURED or c.list_price_nano is not None or c.price_nano is not None


def quantity(c: Charge) -> int:
    """Nano GPU-hours, or one whole for what is not counted in hours."""
    return c.hours_nano if c.kind in (*_MEASURED, ChargeKind.UNUSED) else 10**9


def list_price(c: Charge) -> int:
    """Nano-units for each unit, without any commitment."""
    if c.kind in _MEASURED:
        return c.list_price_nano if c.list_price_nano is not None else c.price_nano or 0
    if c.kind is ChargeKind.UNUSED:
        return c.cost_nano * 10**9 // c.hours_nano if c.hours_nano else 0
    return c.billed_nano


def contracted_price(c: Charge) -> int:
    """With the over-quota factor, still without any commitment."""
    return c.price_nano if c.kind is ChargeKind.USE and c.price_nano is not None else list_price(c)


def _by_price(price: Callable[[Charge], int]) -> Reader:
    def cost(c: Charge, _: Delivery) -> str:
        return _plain(price(c) * quantity(c), 18) if is_priced(c) else nano(c.cost_nano)

    return cost


# ------------------------------------------------------------------ what a charge is


def _sku(c: Charge) -> str:
    if c.kind is ChargeKind.SHARED:
        return f"shared/{c.note}"
    if c.kind in (ChargeKind.PURCHASE, ChargeKind.UNUSED):
        return f"commitment/{c.commitment}"
    return "/".join(
        filter(None, ("gpu", c.model or "unknown", c.capacity, c.profile, "over-quota" if _is_over(c) else ""))
    )


def _is_over(c: Charge) -> bool:
    return c.quota == "over-quota"


def _resource(c: Charge) -> str | None:
    if c.kind in (ChargeKind.UNUSED, ChargeKind.PURCHASE):
        return c.commitment
    if c.gpu is None:
        return c.node or None
    part = f"/{c.profile}@{c.start}" if c.profile else ""
    return f"{c.node}/gpu{c.gpu}{part}"


def _resource_type(c: Charge) -> str | None:
    if c.kind in (ChargeKind.UNUSED, ChargeKind.PURCHASE):
        return "Commitment"
    if c.gpu is None:
        return "Node" if c.node else None
    return "MIG slice" if c.profile else "GPU share" if c.fraction else "GPU"


def _pricing_category(c: Charge) -> str | None:
    if not is_priced(c):
        return None
    if c.commitment:
        return "Committed"
    return "Dynamic" if c.capacity == "spot" else "Standard"


def _status(c: Charge) -> str | None:
    if not c.commitment or c.kind is ChargeKind.PURCHASE:
        return None
    return "Unused" if c.kind is ChargeKind.UNUSED else "Used"


def _consumed(c: Charge) -> bool:
    return c.kind in _MEASURED and is_priced(c)


def _described(c: Charge) -> str:
    what = filter(None, (c.job, c.node if c.gpu is None else _resource(c), c.commitment, c.note))
    return ": ".join((_WORDS[c.kind], ", ".join(dict.fromkeys(what)))) if c.job or c.node or c.note else _WORDS[c.kind]


def _tags(c: Charge) -> str:
    return json.dumps({k: v for k, v in (("project", c.project), ("team", c.team)) if v}, ensure_ascii=False)


def _invoice(c: Charge, d: Delivery) -> str | None:
    """Teams are invoiced once their month is closed."""
    return f"{d.account}-{d.period_begin:%Y-%m}-{c.team}" if d.standing is Standing.CLOSED else None


def instant(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _until(at: datetime) -> datetime:
    """The whole second that is not before it."""
    return at if not at.microsecond else at.replace(microsecond=0) + timedelta(seconds=1)


def _if(test: Callable[[Charge], Any], value: str) -> Reader:
    return lambda c, _: value if test(c) else None


def _of(read: Callable[[Charge], str | None]) -> Reader:
    return lambda c, _: read(c) or None


def _const(read: Callable[[Delivery], str]) -> Reader:
    return lambda _, d: read(d)


DECIMALS: Final = frozenset(
    {
        "BilledCost",
        "CommitmentDiscountQuantity",
        "ConsumedQuantity",
        "ContractedCost",
        "ContractedUnitPrice",
        "EffectiveCost",
        "ListCost",
        "ListUnitPrice",
        "PricingQuantity",
    }
)

COLUMNS: Final[dict[str, Reader]] = {
    "BilledCost": lambda c, _: nano(c.billed_nano),
    "BillingAccountId": _const(lambda d: d.account),
    "BillingAccountName": _const(lambda d: d.account),
    "BillingCurrency": _const(lambda d: d.currency),
    "BillingPeriodEnd": _const(lambda d: instant(d.period_end)),
    "BillingPeriodStart": _const(lambda d: instant(d.period_begin)),
    "ChargeCategory": lambda c, _: _CATEGORY.get(c.kind, "Usage"),
    "ChargeClass": _if(lambda c: c.corrects, "Correction"),
    "ChargeDescription": _of(_described),
    "ChargeFrequency": lambda c, _: "One-Time" if c.note == "upfront" else _FREQUENCY.get(c.kind, "Usage-Based"),
    "ChargePeriodEnd": lambda c, _: instant(_until(c.end)),
    "ChargePeriodStart": lambda c, _: instant(c.begin),
    "CommitmentDiscountCategory": _if(lambda c: c.commitment, "Usage"),
    "CommitmentDiscountId": _of(lambda c: c.commitment),
    "CommitmentDiscountName": _of(lambda c: c.commitment),
    "CommitmentDiscountQuantity": lambda c, _: nano(quantity(c)) if c.commitment and is_priced(c) else None,
    "CommitmentDiscountStatus": _of(_status),
    "CommitmentDiscountType": _if(lambda c: c.commitment, "Reservation"),
    "CommitmentDiscountUnit": _if(lambda c: c.commitment and is_priced(c), UNIT),
    "ConsumedQuantity": lambda c, _: nano(c.hours_nano) if _consumed(c) else None,
    "ConsumedUnit": _if(_consumed, UNIT),
    "ContractedCost": _by_price(contracted_price),
    "ContractedUnitPrice": lambda c, _: nano(contracted_price(c)) if is_priced(c) else None,
    "EffectiveCost": lambda c, _: nano(c.cost_nano),
    "HostProviderName": _of(lambda c: c.provider),
    "InvoiceId": _invoice,
    "InvoiceIssuerName": _const(lambda d: d.issuer),
    "ListCost": _by_price(list_price),
    "ListUnitPrice": lambda c, _: nano(list_price(c)) if is_priced(c) else None,
    "PricingCategory": _of(_pricing_category),
    "PricingQuantity": lambda c, _: nano(quantity(c)) if is_priced(c) else None,
    "PricingUnit": lambda c, _: (
        (UNIT if c.kind in (*_MEASURED, ChargeKind.UNUSED) else "Units") if is_priced(c) else None
    ),
    "RegionId": _of(lambda c: c.region),
    "RegionName": _of(lambda c: c.region),
    "ResourceId": _of(_resource),
    "ResourceName": _of(_resource),
    "ResourceType": _of(_resource_type),
    "ServiceCategory": _const(lambda d: "AI and Machine Learning"),
    "ServiceName": _const(lambda d: "GPU capacity"),
    "ServiceProviderName": _const(lambda d: d.issuer),
    "ServiceSubcategory": _const(lambda d: "AI Platforms"),
    "SkuId": lambda c, _: _sku(c) if is_priced(c) else None,
    "SkuMeter": _if(lambda c: is_priced(c) and c.kind in _USAGE, "GPU time"),
    "SkuPriceDetails": lambda c, _: json.dumps({"x_GpuModel": c.model}) if is_priced(c) and c.model else None,
    "SkuPriceId": lambda c, _: f"{_sku(c)}@{nano(list_price(c))}" if is_priced(c) else None,
    "SubAccountId": _of(lambda c: c.team),
    "SubAccountName": _of(lambda c: c.team),
    "Tags": _of(_tags),
    "x_Attempt": lambda c, _: None if c.attempt is None else str(c.attempt),
    "x_Capacity": _of(lambda c: c.capacity),
    "x_ChargeId": _of(lambda c: c.id),
    "x_CorrectsMonth": _of(lambda c: c.corrects),
    "x_FinanceDay": lambda c, _: c.day.isoformat(),
    "x_GpuFraction": _of(lambda c: c.fraction),
    "x_GpuModel": _of(lambda c: c.model),
    "x_IsEstimated": lambda c, _: "true" if c.estimated else "false",
    "x_JobId": _of(lambda c: c.job),
    "x_Kind": lambda c, _: c.kind.value,
    "x_LedgerRevision": _const(lambda d: str(d.revision)),
    "x_MigProfile": _of(lambda c: c.profile),
    "x_NodeId": _of(lambda c: c.node),
    "x_Project": _of(lambda c: c.project),
    "x_QuotaClass": _of(lambda c: c.quota),
    "x_Standing": _const(lambda d: d.standing.value),
}
"""FOCUS columns in alphabetical order, then ours."""


def row(charge: Charge, delivery: Delivery) -> list[str | None]:
    return [read(charge, delivery) for read in COLUMNS.values()]
