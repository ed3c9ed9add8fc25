"""Google Cloud Billing's detailed usage cost export: rows of its BigQuery table as JSON lines, or flat as CSV.

Columns and cost types: Cloud Billing documentation, "Structure of the detailed data export". `credits` is an array; in
CSV it is the same array as JSON text (`TO_JSON_STRING(credits)`), and a nested column is named with its path, as
`resource.global_name` or `resource_global_name`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from gpufleet.formats.invoices.rows import Export, InvoiceRow
from gpufleet.model.invoice import InvoiceKind, InvoiceLine

KINDS: Final = {
    "regular": InvoiceKind.USAGE,
    "tax": InvoiceKind.TAX,
    "adjustment": InvoiceKind.CREDIT,
    "rounding_error": InvoiceKind.ROUNDING,
}
"""By cost_type."""

PRICE_CREDITS: Final = frozenset(
    {
        "COMMITTED_USAGE_DISCOUNT",
        "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE",
        "FEE_UTILIZATION_OFFSET",
        "SUSTAINED_USAGE_DISCOUNT",
    }
)
"""Credits by which a commitment or long use makes the machine itself cheaper: part of its effective cost."""


def gcp_lines(export: Export) -> Iterator[InvoiceLine]:
    """A line for each row at its cost less what makes it cheaper, and one for each credit of another kind."""
    for row in export:
        kind = row.text("cost_type")
        if kind not in KINDS:
            raise row.wrong(f"cost_type '{kind}' is not known; it is one of {', '.join(KINDS)}.")
        given = _credits(row)
        cheaper = sum((amount for type_, amount in given if type_ in PRICE_CREDITS), Decimal(0))
        support = row.maybe("service_description").endswith("Support")
        yield _line(row, InvoiceKind.SUPPORT if support else KINDS[kind], row.amount("cost") + cheaper, kind)
        for type_, amount in given:
            if type_ not in PRICE_CREDITS:
                yield _line(row, InvoiceKind.CREDIT, amount, type_)


def _line(row: InvoiceRow, kind: InvoiceKind, amount: Decimal, note: str) -> InvoiceLine:
    return InvoiceLine(
        "gcp",
        row.text("invoice_month"),
        row.maybe("resource_global_name") or row.text("resource_name"),
        row.instant("usage_start_time"),
        row.instant("usage_end_time"),
        kind,
        amount,
        row.text("currency"),
        note,
    )


def _credits(row: InvoiceRow) -> list[tuple[str, Decimal]]:
    """Type and amount (below 0) of each credit."""
    told: Any = row.raw("credits")
    if isinstance(told, str):
        try:
            told = json.loads(told or "[]", parse_float=Decimal)
        except (ValueError, RecursionError):
            raise row.wrong("credits is not a JSON array.") from None
    if told is None:
        return []
    if not isinstance(told, list) or not all(isinstance(one, Mapping) and "amount" in one for one in told):
        raise row.wrong("credits must be an array of objects with 'amount' and 'type'.")
    return [(str(one.get("type") or ""), row.decimal(str(one["amount"]), "credits.amount")) for one in told]
