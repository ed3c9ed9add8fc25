"""The small FOCUS tables, read by an independent checker."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from focus_data_toolkit.model.validator import lint_focus_1_4_structure
from tests.money_stories import RATES, TEN, month_of_everything
from tests.unit.exports.test_focus import DELIVERY

from gpufleet.exports.focus_tables import billing_period_csv, contract_commitment_csv, invoice_detail_csv
from gpufleet.model.statement import Standing

CLOSED = replace(DELIVERY, standing=Standing.CLOSED)
CLOSED_AT = datetime(2026, 4, 10, 1, tzinfo=UTC)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_billing_period_is_open_until_the_month_is_closed() -> None:
    for delivery, status in ((DELIVERY, "Open"), (CLOSED, "Closed")):
        told = rows(billing_period_csv(delivery, TEN))
        assert lint_focus_1_4_structure("Billing Period", told).messages() == []
        assert (told[0]["BillingPeriodStatus"], told[0]["BillingPeriodStart"]) == (status, "2026-03-01T00:00:00Z")


def test_every_commitment_of_the_rates_is_a_row_with_all_that_is_paid_for_it() -> None:
    told = rows(contract_commitment_csv(RATES.commitments, DELIVERY))
    assert lint_focus_1_4_structure("Contract Commitment", told).messages() == []
    hours = 365 * 24 * 6
    assert Decimal(told[0]["ContractCommitmentCost"]) == Decimal("8760") + hours * Decimal("0.5")
    assert (told[0]["ContractCommitmentQuantity"], told[0]["ContractCommitmentLifecycleStatus"]) == (
        str(hours),
        "Active",
    )


def test_without_commitments_there_is_a_head_and_no_row() -> None:
    assert rows(contract_commitment_csv((), DELIVERY)) == []


def test_invoices_of_a_closed_month_sum_to_what_is_billed() -> None:
    charges = month_of_everything()
    told = rows(invoice_detail_csv(charges, CLOSED, CLOSED_AT))
    assert lint_focus_1_4_structure("Invoice Detail", told).messages() == []
    assert sum(Decimal(row["BilledCost"]) for row in told) == Decimal(sum(c.billed_nano for c in charges)).scaleb(-9)
    assert {row["InvoiceId"] for row in told} == {f"fleet-1-2026-03-{team}" for team in {c.team for c in charges}}
