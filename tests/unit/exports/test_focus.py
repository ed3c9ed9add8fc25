"""FOCUS 1.4 files of a month with every kind of charge, read by an independent checker."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from focus_data_toolkit.model.validator import lint_focus_1_4_structure
from tests.money_stories import MONTH, month_of_everything

from gpufleet.exports.focus import COLUMNS, DECIMALS, Delivery
from gpufleet.exports.focus_files import CSV, PARQUET, write_files
from gpufleet.model.charge import Charge, ChargeKind
from gpufleet.model.statement import Standing

DELIVERY = Delivery(
    "fleet-1",
    "USD",
    "gpufleet",
    datetime(2026, 3, 1, tzinfo=UTC),
    datetime(2026, 4, 1, tzinfo=UTC),
    Standing.PROVISIONAL,
    7,
)
SUPPORTED = ("SupportsMultiplePricingCategories", "SupportsUnitPricing")
"""Conditions of the model that the checker knows; the others are columns we always write."""


@pytest.fixture(scope="module")
def charges() -> list[Charge]:
    return month_of_everything()


def rows(charges: list[Charge], delivery: Delivery = DELIVERY) -> list[dict[str, str]]:
    with TemporaryDirectory() as folder:
        assert write_files(Path(folder), charges, delivery) == len(charges)
        return list(csv.DictReader(io.StringIO((Path(folder) / CSV).read_text())))


@pytest.mark.parametrize("standing", [Standing.PROVISIONAL, Standing.CLOSED])
def test_an_independent_checker_finds_no_error(charges: list[Charge], standing: Standing) -> None:
    from dataclasses import replace

    told = rows(charges, replace(DELIVERY, standing=standing))
    assert lint_focus_1_4_structure("Cost and Usage", told, supported_conditions=SUPPORTED).messages() == []


def test_every_kind_of_charge_is_there(charges: list[Charge]) -> None:
    assert {c.kind for c in charges} == set(ChargeKind)
    assert any(c.corrects for c in charges) and any(c.profile for c in charges) and any(c.fraction for c in charges)


def test_effective_cost_is_what_the_charges_say(charges: list[Charge]) -> None:
    told = sum(Decimal(r["EffectiveCost"]) for r in rows(charges))
    assert told == Decimal(sum(c.cost_nano for c in charges)).scaleb(-9)
    billed = sum(Decimal(r["BilledCost"]) for r in rows(charges))
    assert billed == Decimal(sum(c.billed_nano for c in charges)).scaleb(-9)


def test_price_by_quantity_is_cost(charges: list[Charge]) -> None:
    priced = [r for r in rows(charges) if r["SkuPriceId"]]
    assert priced
    for r in priced:
        assert Decimal(r["ListUnitPrice"]) * Decimal(r["PricingQuantity"]) == Decimal(r["ListCost"])
        assert Decimal(r["ContractedUnitPrice"]) * Decimal(r["PricingQuantity"]) == Decimal(r["ContractedCost"])
        close = abs(Decimal(r["ContractedCost"]) - Decimal(r["BilledCost"]))
        assert r["CommitmentDiscountId"] or close <= Decimal("0.00000001"), r


def test_a_purchase_is_billed_and_not_effective_and_unused_is_its_own_row(charges: list[Charge]) -> None:
    told = rows(charges)
    (upfront,) = [r for r in told if r["ChargeFrequency"] == "One-Time"]
    assert (upfront["ChargeCategory"], upfront["EffectiveCost"]) == ("Purchase", "0")
    assert upfront["ResourceId"] == upfront["CommitmentDiscountId"]
    unused = [r for r in told if r["CommitmentDiscountStatus"] == "Unused"]
    assert unused and all(r["BilledCost"] == "0" and r["ConsumedQuantity"] == "" for r in unused)
    used = [r for r in told if r["CommitmentDiscountStatus"] == "Used"]
    assert used and all(r["PricingCategory"] == "Committed" and r["BilledCost"] == "0" for r in used)


def test_a_correction_keeps_its_time_and_says_which_month(charges: list[Charge]) -> None:
    (late,) = [r for r in rows(charges) if r["ChargeClass"]]
    assert (late["ChargeClass"], late["x_CorrectsMonth"]) == ("Correction", "2026-02")
    assert late["ChargePeriodStart"].startswith("2026-02") and late["BillingPeriodStart"].startswith("2026-03")
    assert late["SkuPriceId"] == late["PricingQuantity"] == late["ListUnitPrice"] == ""


def test_names_that_a_spreadsheet_would_run_are_tamed(charges: list[Charge]) -> None:
    from dataclasses import replace

    (told,) = rows([replace(charges[0], project="=cmd()", job="+1")])
    assert (told["x_Project"], told["x_JobId"]) == ("'=cmd()", "'+1")


def test_parquet_holds_the_same_exact_amounts_and_the_same_bytes_again(charges: list[Charge], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        assert write_files(folder, charges, DELIVERY) == len(charges)
    first, second = tmp_path / "first" / PARQUET, tmp_path / "second" / PARQUET
    assert first.read_bytes() == second.read_bytes()
    table = pq.read_table(first)
    assert table.column_names == list(COLUMNS)
    for name in DECIMALS:
        told = [r[name] for r in rows(charges)]
        assert [("" if v is None else v) for v in table[name].to_pylist()] == [Decimal(t) if t else "" for t in told]


def test_our_own_columns_stand_behind_those_of_focus_and_all_are_in_order() -> None:
    names = list(COLUMNS)
    ours = [n for n in names if n.startswith("x_")]
    assert names == sorted(n for n in names if n not in ours) + sorted(ours) and MONTH == "2026-03"
