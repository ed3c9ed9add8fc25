"""The small tables of FOCUS 1.4 beside Cost and Usage: billing period, contract commitments, invoice details at the close."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Final

from gpufleet.chargeback.days import HOUR, micros
from gpufleet.chargeback.rates import Commitment
from gpufleet.exports.focus import COLUMNS, Delivery, instant, nano
from gpufleet.exports.spreadsheet_safe import tame
from gpufleet.model.charge import Charge
from gpufleet.model.statement import Standing

BILLING_PERIOD: Final = (
    "BillingPeriodCreated", "BillingPeriodEnd", "BillingPeriodLastUpdated", "BillingPeriodStart", "BillingPeriodStatus",
    "InvoiceIssuerName",
)  # fmt: skip


def billing_period_csv(delivery: Delivery, known: datetime) -> str:
    """One row: the month, open or closed. `known` is the latest instant anything in it is known of."""
    row = {
        "BillingPeriodCreated": instant(delivery.period_begin),
        "BillingPeriodEnd": instant(delivery.period_end),
        "BillingPeriodLastUpdated": instant(known),
        "BillingPeriodStart": instant(delivery.period_begin),
        "BillingPeriodStatus": "Closed" if delivery.standing is Standing.CLOSED else "Open",
        "InvoiceIssuerName": delivery.issuer,
    }
    return _csv([row], BILLING_PERIOD)


def contract_commitment_csv(commitments: Iterable[Commitment], delivery: Delivery) -> str:
    """A row for each commitment of the rates, whatever month it is in."""
    rows = [_commitment(c, delivery) for c in commitments]
    return _csv(rows, sorted(rows[0]) if rows else sorted(_commitment_names()))


def _commitment(c: Commitment, delivery: Delivery) -> dict[str, str]:
    hours = Fraction(micros(c.end) - micros(c.begin), HOUR) * c.gpus
    cost = c.upfront + hours * c.per_gpu_hour
    begin, end = instant(c.begin), instant(c.end)
    partial = bool(c.upfront) and bool(c.per_gpu_hour)
    whole = Fraction(micros(c.end) - micros(c.begin), HOUR)
    return {
        "BillingCurrency": delivery.currency,
        "ContractCommitmentApplicability": _applies(c),
        "ContractCommitmentBenefitCategory": "Discount",
        "ContractCommitmentCategory": "Usage",
        "ContractCommitmentCost": nano(round(cost * 10**9)),
        "ContractCommitmentCreated": begin,
        "ContractCommitmentDescription": f"{c.gpus} GPUs, owner {c.owner}",
        "ContractCommitmentDiscountPercentage": "",
        "ContractCommitmentDurationType": f"{whole} Hours",
        "ContractCommitmentFulfillmentInterval": "Hourly",
        "ContractCommitmentId": tame(c.id),
        "ContractCommitmentLastUpdated": begin,
        "ContractCommitmentLifecycleStatus": _status(c, delivery),
        "ContractCommitmentModel": "Continuous",
        "ContractCommitmentOfferCategory": "Negotiated",
        "ContractCommitmentPaymentInterval": "One-Time" if not c.per_gpu_hour else "Monthly",
        "ContractCommitmentPaymentModel": "Partial Upfront"
        if partial
        else "All Upfront"
        if c.upfront
        else "No Upfront",
        "ContractCommitmentPaymentUpfrontPercentage": nano(round(c.upfront / cost * 10**9)) if cost else "0",
        "ContractCommitmentPeriodEnd": end,
        "ContractCommitmentPeriodStart": begin,
        "ContractCommitmentQuantity": nano(round(hours * 10**9)),
        "ContractCommitmentType": "Reservation",
        "ContractCommitmentUnit": "GPU-Hours",
        "ContractId": tame(c.id),
        "ContractPeriodEnd": end,
        "ContractPeriodStart": begin,
        "InvoiceIssuerName": delivery.issuer,
        "ServiceProviderName": delivery.issuer,
    }


_COLUMN: Final = {
    "region": "RegionId",
    "provider": "HostProviderName",
    "model": "x_GpuModel",
    "capacity": "x_Capacity",
    "node": "x_NodeId",
}


def _applies(c: Commitment) -> str:
    """Which charges it may cover, in FOCUS columns and ours."""
    rules = [{"Dimension": _COLUMN[k], "Operator": "In", "Values": [v]} for k, v in sorted(c.match.items())]
    return json.dumps({"InclusionOperator": "And", "Inclusions": rules} if rules else {"IsGlobalScope": True})


def _commitment_names() -> list[str]:
    day = datetime.fromisoformat("2020-01-01T00:00:00+00:00")
    like = Delivery("", "USD", "", day, day, Standing.PROVISIONAL, 0)
    return list(_commitment(Commitment("", "", {}, 1, day, day), like))


def _status(c: Commitment, delivery: Delivery) -> str:
    if c.end <= delivery.period_begin:
        return "Expired"
    return "Active" if c.begin < delivery.period_end else "Pending"


def invoice_detail_csv(charges: Iterable[Charge], delivery: Delivery, closed_at: datetime) -> str:
    """A row for each team and category of charge: what the team is invoiced for the closed month."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for charge in charges:
        sums[charge.team, COLUMNS["ChargeCategory"](charge, delivery) or ""] += charge.billed_nano
    rows = [_detail(team, category, units, delivery, closed_at) for (team, category), units in sorted(sums.items())]
    return _csv(rows, sorted(rows[0]) if rows else ("InvoiceId",))


def _detail(team: str, category: str, units: int, delivery: Delivery, closed_at: datetime) -> dict[str, str]:
    invoice = f"{delivery.account}-{delivery.period_begin:%Y-%m}-{team}"
    return {
        "BilledCost": nano(units),
        "BillingAccountId": delivery.account,
        "BillingCurrency": delivery.currency,
        "BillingPeriodEnd": instant(delivery.period_end),
        "BillingPeriodStart": instant(delivery.period_begin),
        "ChargeCategory": category,
        "InvoiceDetailCreated": instant(closed_at),
        "InvoiceDetailDescription": f"{category} of {team}",
        "InvoiceDetailGrain": json.dumps({"SubAccountId": team}),
        "InvoiceDetailId": f"{invoice}-{category.lower()}",
        "InvoiceDetailLastUpdated": instant(closed_at),
        "InvoiceId": invoice,
        "InvoiceIssueDate": instant(closed_at),
        "InvoiceIssueStatus": "Issued",
        "InvoiceIssuerName": delivery.issuer,
        "PaymentDueDate": "",
        "PaymentTerms": "internal",
        "ReferenceInvoiceId": invoice,
    }


def _csv(rows: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
