"""`gpufleet simulate spot` as scripts use it: the promised keys, lines for a person, one sentence for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.simulation.spot.markets import PRICES, TRACE
from typer.testing import CliRunner

from gpufleet.cli import app
from gpufleet.errors import GpufleetError, NotFound

KEYS = {
    "policy", "starts", "finished", "missed", "cost_ratio", "preemptions_per_job", "wall_hours", "on_demand_hours",
    "idle_hours", "definition", "cost_ratio_is", "files",
}  # fmt: skip
HEAD = "scheduled_at,duration_sec,aa-1,bb-1\n"
ROWS = HEAD + "".join(f"2026-01-05T00:{n}0:00,1,16,{8 * (n % 2)}\n" for n in range(6))
PRICE = '{"aa-1": [2.0, 10.0], "bb-1": [3.0, 12.0]}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(ROWS)
    Path("p.json").write_text(PRICE)
    return tmp_path


def spot(*more: str, policy: str = "greedy", trace: str = "t.csv", prices: str = "p.json") -> str:
    words = {"--trace": trace, "--prices": prices, "--gang": "8", "--zones": "all", "--work": "2h", "--deadline": "5h"}
    words |= {"--checkpoint": "10m", "--policy": policy, **dict(zip(more[::2], more[1::2], strict=False))}
    flat = [word for pair in words.items() for word in pair if word]
    done = CliRunner().invoke(app, ["simulate", "spot", *flat])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


@pytest.mark.parametrize("policy", ["on-demand", "spot", "greedy", "uniform-progress", "gpufleet"])
def test_an_answer_has_the_promised_keys(folder: Path, policy: str) -> None:
    found = json.loads(spot("--starts", "2", "--json", "", policy=policy))
    assert (
        set(found) == KEYS
        and set(found["cost_ratio"]) == {"mean", "p90"}
        and set(found["files"]) == {"t.csv", "p.json"}
    )
    assert (found["policy"], found["starts"], found["finished"], found["missed"]) == (policy, 3, 3, 0)
    assert found["cost_ratio"]["mean"] <= 1.1 and found["definition"]


def test_the_optimum_on_demand(folder: Path) -> None:
    found = json.loads(spot("--json", "", "--optimum", ""))
    assert 0 < found["optimum"]["mean"] <= found["cost_ratio"]["mean"]


def test_a_person_reads_lines(folder: Path) -> None:
    assert spot("--optimum", "").splitlines() == [
        "greedy: on-demand once remaining work + 2 delays + checkpoint interval >= time left; "
        "else a zone, the cheapest, or wait",
        "  1 jobs, 1 ended, 0 missed the deadline",
        "  cost against on-demand only   0.2121 mean, 0.2121 p90",
        "  preemptions for each job      0.00",
        "  hours to the end              2.33, of them 0.00 on demand, 0.00 without machines",
        "  with the future known         0.2121",
    ]


def test_on_the_recorded_market_within_seconds(folder: Path) -> None:
    more = ("--zones", "us", "--gang", "16", "--work", "48h", "--deadline", "60h", "--starts", "500", "--json", "")
    found = json.loads(spot(*more, policy="gpufleet", trace=str(TRACE), prices=str(PRICES)))
    assert found["starts"] == 5 and found["missed"] == 0


WRONG = {
    "a policy nobody knows": (("--policy", "best"), "--policy: 'best' is not known; it is one of on-demand, spot,"),
    "a zone nobody knows": (("--zones", "aa,cc"), "--zones: 'cc' names no zone of the trace; known are aa-1, bb-1."),
    "an empty word among the zones": (("--zones", "aa,"), "--zones: '' names no zone of the trace"),
    "work between two units": (("--work", "5m"), "--work: '5m' is not a multiple of 2 minutes above 0"),
    "no work at all": (("--work", "0m"), "--work: '0m' is not a multiple of 2 minutes above 0"),
    "work that is no duration": (("--work", "long"), "--work: 'long' is not a duration"),
    "a deadline in a year": (("--deadline", "365d"), "--deadline: '365d' is longer than 40 days"),
    "a gang of none": (("--gang", "0"), "--gang and --starts are whole numbers of at least 1."),
    "no starts": (("--starts", "0"), "--gang and --starts are whole numbers of at least 1."),
}


@pytest.mark.parametrize(("words", "sentence"), WRONG.values(), ids=WRONG)
def test_words_that_are_wrong_get_a_sentence(folder: Path, words: tuple[str, str], sentence: str) -> None:
    with pytest.raises(GpufleetError) as why:
        spot(*words)
    assert sentence in str(why.value) and "\n" not in str(why.value)


TRACES = {
    "an empty file": ("", "t.csv: the file is empty"),
    "only the names": (HEAD, "t.csv: no rows after the first line"),
    "no zone": ("scheduled_at,duration_sec\n1,2\n", "t.csv, line 1: no column for a zone"),
    "a zone twice": ("aa-1,aa-1\n1,2\n", "t.csv, line 1: zone aa-1 appears twice."),
    "a column without a name": ("aa-1,\n1,2\n", "t.csv, line 1: a column has no name."),
    "a ragged row": (HEAD + "x,1,16\n", "t.csv, line 2: 3 values where the first line names 4 columns."),
    "not a number": (HEAD + "x,1,16,many\n", "t.csv, line 2: bb-1: 'many' is not a count"),
    "a negative count": (HEAD + "x,1,-1,3\n", "t.csv, line 2: aa-1: '-1' is not a count"),
}


@pytest.mark.parametrize(("text", "sentence"), TRACES.values(), ids=TRACES)
def test_a_trace_that_is_wrong_gets_a_sentence(folder: Path, text: str, sentence: str) -> None:
    Path("t.csv").write_text(text)
    with pytest.raises(GpufleetError) as why:
        spot()
    assert sentence in str(why.value)


PRICE_FILES = {
    "a zone without a price": ('{"aa-1": [2.0, 10.0]}', "the prices lack zone bb-1"),
    "not JSON": ("{aa", "p.json, line"),
    "a list": ("[1, 2]", "p.json, line 1: must be a mapping."),
    "nothing in it": ("{}", "p.json: no prices"),
    "one price": ('{"aa-1": [2.0]}', "p.json, line 1: aa-1: must be two prices per GPU-hour"),
    "a price that is text": ('{"aa-1": ["cheap", 10]}', "'cheap' is not a number"),
    "a price of nothing": ('{"aa-1": [0, 10]}', "must be above 0."),
}


@pytest.mark.parametrize(("text", "sentence"), PRICE_FILES.values(), ids=PRICE_FILES)
def test_prices_that_are_wrong_get_a_sentence(folder: Path, text: str, sentence: str) -> None:
    Path("p.json").write_text(text)
    with pytest.raises(GpufleetError) as why:
        spot()
    assert sentence in str(why.value)


def test_a_file_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(NotFound, match=r"nowhere\.csv: there is no such file"):
        spot(trace="nowhere.csv")
