"""AWS Cost and Usage Report 2.0: the amortised view, by the columns of its table COST_AND_USAGE_REPORT.

Column names: AWS Data Exports user guide, "Cost and Usage Report (CUR) 2.0". Which column a line's effective cost is in:
the amortised cost of the AWS Cloud Intelligence Dashboards (and opencost #3839). Blended cost is never read: it mixes
accounts.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from gpufleet.formats.invoices.rows import InvoiceRow
from gpufleet.model.invoice import InvoiceKind, InvoiceLine

KINDS: Final = {
    "Usage": InvoiceKind.USAGE,
    "DiscountedUsage": InvoiceKind.USAGE,
    "SavingsPlanCoveredUsage": InvoiceKind.USAGE,
    "SavingsPlanNegation": InvoiceKind.COMMITMENT,
    "SavingsPlanRecurringFee": InvoiceKind.COMMITMENT,
    "SavingsPlanUpfrontFee": InvoiceKind.COMMITMENT,
    "RIFee": InvoiceKind.COMMITMENT,
    "Fee": InvoiceKind.OTHER,
    "Tax": InvoiceKind.TAX,
    "Credit": InvoiceKind.CREDIT,
    "Refund": InvoiceKind.CREDIT,
    "BundledDiscount": InvoiceKind.CREDIT,
    "EdpDiscount": InvoiceKind.CREDIT,
    "PrivateRateDiscount": InvoiceKind.CREDIT,
    "RiVolumeDiscount": InvoiceKind.CREDIT,
}
"""By line_item_line_item_type."""

UNUSED_PLAN: Final = ("savings_plan_total_commitment_to_date", "savings_plan_used_commitment")
UNUSED_RESERVATION: Final = (
    "reservation_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_recurring_fee",
)


def aws_line(row: InvoiceRow) -> InvoiceLine:
    """One row of the report; raises Invalid naming a column that is missing, or a line type nobody knows."""
    kind = row.text("line_item_line_item_type")
    if kind not in KINDS:
        raise row.wrong(f"line_item_line_item_type '{kind}' is not known; it is one of {', '.join(KINDS)}.")
    return InvoiceLine(
        "aws",
        row.text("bill_invoice_id"),
        row.text("line_item_resource_id"),
        row.instant("line_item_usage_start_date"),
        row.instant("line_item_usage_end_date"),
        InvoiceKind.SUPPORT if _is_support(row) else KINDS[kind],
        _effective(row, kind),
        row.text("line_item_currency_code"),
        kind,
    )


def _is_support(row: InvoiceRow) -> bool:
    return row.maybe("line_item_product_code").startswith(("AWSSupport", "AWSPremiumSupport", "AWSDeveloperSupport"))


def _effective(row: InvoiceRow, kind: str) -> Decimal:
    """What the line effectively costs: payments for a commitment are spread over its use, so they are 0 here."""
    match kind:
        case "SavingsPlanCoveredUsage":
            return row.amount("savings_plan_savings_plan_effective_cost")
        case "DiscountedUsage":
            return row.amount("reservation_effective_cost")
        case "SavingsPlanRecurringFee":
            return row.amount(UNUSED_PLAN[0]) - row.amount(UNUSED_PLAN[1])
        case "RIFee":
            return row.amount(UNUSED_RESERVATION[0]) + row.amount(UNUSED_RESERVATION[1])
        case "SavingsPlanNegation" | "SavingsPlanUpfrontFee":
            return Decimal(0)
        case "Fee" if row.maybe("reservation_reservation_a_r_n"):
            return Decimal(0)
        case _:
            return row.amount("line_item_unblended_cost")
