"""Invoices of three clouds as they export them, and what is said of those that cannot be read."""

from __future__ import annotations

import csv
import gzip
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from gpufleet.errors import GpufleetError
from gpufleet.formats.invoices import load_invoice
from gpufleet.model.invoice import InvoiceKind

INVOICES = Path(__file__).parent / "invoices"


def read(name: str, provider: str) -> list[tuple[str, str, str]]:
    return [
        (str(x.kind), x.resource.rpartition("/")[2], str(x.amount)) for x in load_invoice(INVOICES / name, provider)
    ]


def test_an_aws_line_costs_what_it_effectively_costs() -> None:
    assert read("aws.csv", "aws") == [
        ("usage", "i-0aaa", "4.0"),
        ("usage", "i-0aaa", "4.0"),
        ("usage", "i-0bbb", "2.5"),
        ("commitment", "i-0bbb", "0"),
        ("commitment", "s", "0.5"),
        ("usage", "i-0ccc", "1.25"),
        ("commitment", "arn:ri", "10.0"),
        ("other", "arn:ri", "0"),
        ("tax", "", "1.9"),
        ("credit", "", "-2.0"),
        ("support", "", "100"),
    ]


def test_a_gcp_machine_costs_less_by_its_commitment_and_promotions_stand_alone() -> None:
    assert read("gcp.jsonl", "gcp") == [
        ("usage", "a3-1", "58.023456789"),
        ("credit", "a3-1", "-5"),
        ("tax", "", "9.5"),
        ("rounding", "", "-0.000001"),
    ]


def test_an_azure_row_is_a_machine_and_a_day() -> None:
    assert read("azure.csv", "azure") == [
        ("usage", "ND96-1", "98.32"),
        ("usage", "ND96-2", "41.5"),
        ("commitment", "", "12.25"),
        ("rounding", "", "-0.01"),
    ]
    first = next(iter(load_invoice(INVOICES / "azure.csv", "azure")))
    assert (first.start, first.end) == (datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 3, 11, tzinfo=UTC))


def test_a_gzipped_export_and_flat_gcp_columns_say_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "aws.csv.gz"
    packed.write_bytes(gzip.compress((INVOICES / "aws.csv").read_bytes()))
    assert list(load_invoice(packed, "aws")) == list(load_invoice(INVOICES / "aws.csv", "aws"))
    flat = tmp_path / "gcp.csv"
    with flat.open("w", newline="") as file:
        told = csv.writer(file)
        told.writerow(
            ["invoice.month", "cost_type", "resource.name", "usage_start_time", "usage_end_time", "cost", "currency",
             "credits"]
        )  # fmt: skip
        start, end = "2026-03-10 10:00:00 UTC", "2026-03-10 11:00:00 UTC"
        given = '[{"type":"SUSTAINED_USAGE_DISCOUNT","amount":-1.5}]'
        told.writerow(["202603", "regular", "a3-1", start, end, "10.00", "EUR", given])
    (line,) = load_invoice(flat, "gcp")
    assert (line.kind, line.amount, line.currency) == (InvoiceKind.USAGE, Decimal("8.50"), "EUR")


@pytest.mark.parametrize(
    ("name", "text", "provider", "told"),
    [
        ("x.csv", "a\n1\n", "ibm", "'ibm' is not a provider whose invoices are read; it is one of aws, azure, gcp."),
        ("x.csv", "a\n1\n", "aws", "row 1: the column 'line_item_line_item_type' is missing; export it too."),
        ("x.csv", "line_item_line_item_type\nGift\n", "aws", "row 1: line_item_line_item_type 'Gift' is not known"),
        ("x.csv", "line_item_line_item_type\n", "aws", "has no rows."),
        ("x.csv", "a,b\n1\n", "aws", "row 1: has not as many cells as the header."),
        ("x.txt", "a", "aws", "is none of .csv, .csv.gz, .jsonl and .parquet."),
        ("x.csv.gz", "not packed", "aws", "cannot be read"),
        ("x.jsonl", "{", "gcp", "row 1: is not JSON."),
        ("x.jsonl", "[1]", "gcp", "row 1: must be an object"),
        ("x.jsonl", '{"cost_type": "regular", "credits": "x"}', "gcp", "row 1: credits is not a JSON array."),
        (
            "x.jsonl",
            '{"cost_type": "regular", "credits": [], "cost": "NaN"}',
            "gcp",
            "row 1: cost 'NaN' is not an amount",
        ),
        ("x.csv", "ChargeType,Date\nUsage,soon\n", "azure", "row 1: date 'soon' is not an instant"),
        (
            "x.csv",
            "ChargeType,Date\nUsage,12/31/9999\n",
            "azure",
            "row 1: date '12/31/9999' is not an instant of our time",
        ),
        ("x.csv", "ChargeType,Date\nUsage,0001-01-01T00:00:00+05:00\n", "azure", "is not an instant of our time"),
        ("x.csv", "ChargeType,Date\nUsage,9999-12-31T23:59:59-05:00\n", "azure", "is not an instant of our time"),
        ("x.csv", "ChargeType,Date,Date\nUsage,a,b\n", "azure", "its header names the column 'Date' twice"),
        ("x.csv", "ChargeType,a.b,a_b\nUsage,a,b\n", "azure", "row 1: names the column 'a_b' twice"),
        ("x.jsonl", '{"cost": 3.5, "cost": 9}\n', "gcp", "row 1: names the column 'cost' twice"),
        ("x.jsonl", "[" * 100_000 + "\n", "gcp", "row 1: is not JSON"),
    ],
)
def test_what_cannot_be_read_says_where_and_what_to_do(
    tmp_path: Path, name: str, text: str, provider: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(GpufleetError) as why:
        list(load_invoice(tmp_path / name, provider))
    assert told in str(why.value)


def test_the_actual_cost_of_azure_says_nothing_about_machines() -> None:
    with pytest.raises(GpufleetError, match="the amortised one is needed"):
        read("azure-actual.csv", "azure")


def test_parquet_without_its_library_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(GpufleetError, match="reading Parquet needs pyarrow; install it, or export CSV"):
        list(load_invoice(tmp_path / "x.parquet", "aws"))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpufleetError, match="there is no such file"):
        list(load_invoice(tmp_path / "none.csv", "aws"))
