"""Azure cost details, the amortised export: a row for each resource and day.

Columns: Microsoft Cost Management, "Understand cost details fields" (Enterprise Agreement and Microsoft Customer
Agreement name some of them differently). In the *actual* export a reservation is one purchase and its use costs 0; that
says nothing about machines, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpufleet.formats.invoices.rows import Export, InvoiceRow, next_day
from gpufleet.model.invoice import InvoiceKind, InvoiceLine

KINDS: Final = {
    "usage": InvoiceKind.USAGE,
    "purchase": InvoiceKind.OTHER,
    "refund": InvoiceKind.CREDIT,
    "tax": InvoiceKind.TAX,
    "unusedreservation": InvoiceKind.COMMITMENT,
    "unusedsavingsplan": InvoiceKind.COMMITMENT,
    "roundingadjustment": InvoiceKind.ROUNDING,
    "adjustment": InvoiceKind.CREDIT,
}
"""By ChargeType, in lower case."""


def azure_lines(export: Export) -> Iterator[InvoiceLine]:
    """Raises Invalid for the actual export, a missing column, or a charge type nobody knows."""
    for row in export:
        kind = row.text("chargetype").lower()
        if kind not in KINDS:
            raise row.wrong(f"ChargeType '{row.text('chargetype')}' is not known; it is one of {', '.join(KINDS)}.")
        promised = row.maybe("pricingmodel") in ("Reservation", "SavingsPlan")
        if promised and kind == "purchase":
            raise row.wrong("this is the actual-cost export; the amortised one is needed (metric AmortizedCost).")
        yield _line(row, KINDS[kind])


def _line(row: InvoiceRow, kind: InvoiceKind) -> InvoiceLine:
    day = row.instant("date", "usagedate", "usagedatetime")
    return InvoiceLine(
        "azure",
        row.maybe("invoiceid"),
        row.text("resourceid", "instanceid"),
        day,
        next_day(day),
        InvoiceKind.SUPPORT if row.maybe("metercategory") == "Support" else kind,
        row.amount("costinbillingcurrency", "cost"),
        row.text("billingcurrency", "billingcurrencycode"),
        row.text("chargetype"),
    )
