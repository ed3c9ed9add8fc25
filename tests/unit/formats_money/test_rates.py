"""The rates file: its defaults, and how each mistake is named."""

from __future__ import annotations

from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpufleet.chargeback.rates import IdlePolicy, MigShare, Rates, Split
from gpufleet.errors import Invalid
from gpufleet.formats.rates import day, load_rates, rates_of, read_rates

LEAST: dict[str, Any] = {"version": 1, "currency": "USD", "prices": [{"per_gpu_hour": "1"}]}
TERM = {"id": "c", "gpus": 8, "from": "2026-03-01T00:00:00Z", "to": "2027-03-01T00:00:00Z"}
COST = {"name": "s", "amount": "1", "from": "2026-03-10", "to": "2026-03-11", "split": "even"}
DEMO = Path(__file__).parents[3] / "config" / "demo" / "rates.yaml"


def given(**keys: Any) -> Rates:
    return read_rates(yaml.safe_dump(LEAST | keys, sort_keys=False), "rates.yaml")


def test_defaults() -> None:
    rates = given()
    assert (str(rates.timezone), rates.mig_share, rates.idle) == ("UTC", MigShare.DOMINANT, IdlePolicy.PLATFORM)
    assert (rates.quota, rates.over_quota_factor, rates.commitments, rates.shared_costs) == (None, 1, (), ())


def test_all_of_it() -> None:
    rates = given(
        timezone="Asia/Tokyo",
        idle="quota-holders",
        quota={"vision": "3.5", "nlp": 4},
        prices=[{"match": {"model": "T4-16", "node": 7}, "from": "2026-03-10T10:00:00+09:00", "per_node_hour": 8}],
        commitments=[TERM | {"owner": "nlp", "upfront": "0.000000001"}],
        shared_costs=[COST, COST | {"split": {"vision": 2, "nlp": "0.5"}}],
    )
    assert rates.quota == {"vision": Fraction(7, 2), "nlp": 4}
    (price,) = rates.prices
    assert (price.match, price.per_node_hour, price.per_gpu_hour) == ({"model": "T4-16", "node": "7"}, 8, None)
    assert price.begin == datetime(2026, 3, 10, 1, tzinfo=UTC)
    assert (rates.commitments[0].owner, rates.commitments[0].upfront) == ("nlp", Fraction(1, 10**9))
    assert [c.split for c in rates.shared_costs] == [Split.EVEN, {"vision": 2, "nlp": Fraction(1, 2)}]
    assert rates.shared_costs[0].begin == date(2026, 3, 10)


def test_an_empty_quota_list_is_a_list() -> None:
    assert given(quota={}).quota == {}


def test_prices_may_follow_each_other_and_differ_by_match() -> None:
    cut = "2026-03-10T10:00:00Z"
    prices = [
        {"from": cut, "per_gpu_hour": "1"},
        {"to": cut, "per_gpu_hour": "2"},
        {"match": {"node": "n"}, "per_gpu_hour": "3"},
    ]
    assert len(given(prices=prices).prices) == 3


def test_the_rates_of_the_demo_are_read() -> None:
    assert len(load_rates(DEMO).prices) == 4


def test_what_the_ledger_keeps_is_the_same() -> None:
    stored = yaml.safe_load(DEMO.read_text())
    assert rates_of(stored, "ledger") == load_rates(DEMO)


ONE = {"per_gpu_hour": "1"}
LATER = {"from": "2026-03-10T10:00:00Z", "per_gpu_hour": "2"}


def priced(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"prices": list(entries)}


def promised(**keys: Any) -> dict[str, Any]:
    return {"commitments": [TERM | keys]}


def shared(**keys: Any) -> dict[str, Any]:
    return {"shared_costs": [COST | keys]}


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"over_quota_faktor": "2"}, "over_quota_faktor: unknown key"),
    "version": ({"version": 2}, "version: version 2 is not known"),
    "currency": ({"currency": "XBT"}, "currency: 'XBT' is not a currency"),
    "zone": ({"timezone": "Mars/Olympus"}, "timezone: 'Mars/Olympus' is not a time zone"),
    "a path for a zone": ({"timezone": "../UTC"}, "timezone: "),
    "mig_share": ({"mig_share": "half"}, "mig_share: 'half' is not known"),
    "idle": ({"idle": "nobody"}, "idle: 'nobody' is not known"),
    "quota-holders without quota": ({"idle": "quota-holders"}, "idle: quota-holders needs the key 'quota'"),
    "a binary fraction": ({"over_quota_factor": 1.5}, "over_quota_factor: '1.5' is not an amount; write it in quotes"),
    "prices as a mapping": ({"prices": {}}, "prices: must be a list"),
    "currency in a price": (priced({"per_gpu_hour": "3.00 USD"}), "prices[0].per_gpu_hour: '3.00 USD'"),
    "below 0": (priced({"per_gpu_hour": "-1"}), "prices[0].per_gpu_hour: must be at least 0"),
    "two amounts": (priced(ONE | {"per_node_hour": "1"}), "prices[0]: needs either"),
    "no amount": (priced({"match": {}}), "prices[0]: needs either"),
    "a key of match": (priced(ONE | {"match": {"modle": "x"}}), "prices[0].match.modle: unknown key"),
    "no zone": (priced(ONE | {"from": "2026-03-10T10:00:00"}), "prices[0].from: '2026-03-10T10:00:00' is not an"),
    "backwards": (priced(LATER | {"to": LATER["from"]}), "prices[0]: 'from' must be before 'to'"),
    "overlap": (priced(ONE, LATER), "prices[1]: overlaps prices[0]"),
    "overlap, other order": (priced(LATER, ONE), "prices[0]: overlaps prices[1]"),
    "one id twice": ({"commitments": [TERM, TERM]}, "commitments[1]: commitment 'c' appears twice"),
    "half an hour": (promised(to="2027-03-01T00:30:00Z"), "commitments[0].to: the term must be a whole number of"),
    "no term": (promised(to=TERM["from"]), "commitments[0]: 'from' must be before 'to'"),
    "ten decimals": (promised(upfront="0.0000000001"), "commitments[0].upfront: may have at most nine decimals"),
    "no GPUs": (promised(gpus=0), "commitments[0].gpus: must be a whole number of GPUs, at least 1"),
    "half a GPU": (promised(gpus="0.5"), "commitments[0].gpus: must be a whole number"),
    "cost backwards": (shared(to="2026-03-10"), "shared_costs[0]: 'from' must be before 'to'"),
    "an instant for a day": (shared(**{"from": "2026-03-10T00:00:00Z"}), "shared_costs[0].from: "),
    "split": (shared(split="fair"), "shared_costs[0].split: 'fair' is not known"),
    "weight": (shared(split={"a": "x"}), "shared_costs[0].split.a: 'x' is not an amount"),
    "missing": ({"shared_costs": [{"name": "s"}]}, "shared_costs[0]: the key 'split' is missing"),
}


@pytest.mark.parametrize(("keys", "says"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named_with_line_place_and_key(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid) as caught:
        given(**keys)
    assert str(caught.value).startswith("rates.yaml, line ")
    assert says in str(caught.value)


def test_an_octal_number_is_not_taken_for_a_decimal_one() -> None:
    with pytest.raises(Invalid, match="over_quota_factor: '010' is not an amount"):
        read_rates("version: 1\ncurrency: USD\nprices: []\nover_quota_factor: 010\n", "rates.yaml")


@pytest.mark.parametrize("missing", LEAST)
def test_what_is_required_is_asked_for(missing: str) -> None:
    with pytest.raises(Invalid, match=f"the key '{missing}' is missing"):
        rates_of({k: v for k, v in LEAST.items() if k != missing}, "rates.yaml")


@pytest.mark.parametrize(
    "text", ["", "2026-3-10", "20260310", "2026-W11-2", "2026-02-30", "tomorrow", "0001-01-01", "2026-03-10 "]
)
def test_a_day_has_one_form(text: str) -> None:
    with pytest.raises(Invalid, match="is not a day; write it as 2026-03-10"):
        day(text)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"currency: \xe9")
    with pytest.raises(Invalid, match=r"latin\.yaml is not text in UTF-8"):
        load_rates(tmp_path / "latin.yaml")
    with pytest.raises(Invalid, match="cannot be read: Is a directory"):
        load_rates(tmp_path)
