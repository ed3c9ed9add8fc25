"""Pages made of results: only what stands between markers changes, figures agree with results, nothing comes from elsewhere."""

from __future__ import annotations

import re
import struct
import zlib
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from benchmarks.charts import CHARTS
from benchmarks.experiments import PROJECT, Experiment, experiments
from benchmarks.figures import figures
from benchmarks.goals import goals
from benchmarks.known import Known
from benchmarks.markers import rewritten
from benchmarks.paired import differences, gains
from benchmarks.png import MARK, squeezed
from benchmarks.published import NAMES, published
from benchmarks.ranges import read_ranges, wrong
from benchmarks.report import PAGES, PICTURES, TABLES, write
from benchmarks.results import Outcome
from benchmarks.tables import WORDS, words

from gpufleet.errors import Invalid

SEEDS = (42, 43)
AHEAD = 0.9
"""Points by which ours leads in these made-up results."""


def openb(experiment: Experiment) -> dict[str, Any]:
    """The published rules to the letter; ours ahead of FGD by .9 and, for the second seed, by 1.0."""
    ours = experiment.name not in NAMES
    rule = "fgd" if ours else experiment.name
    told = [published(experiment.group, rule, seed) for seed in SEEDS]
    lead = [AHEAD + 0.1 * i if ours else 0.0 for i in range(len(SEEDS))]
    runs = [{"seed": s, "1.0": c[100] + a, "1.3": c[130] + a} for s, c, a in zip(SEEDS, told, lead, strict=True)]
    curve = {str(share): sum(c[share] for c in told) / 2 + sum(lead) / 2 for share in range(1, 131)}
    return {"mean": {"1.0": curve["100"], "1.3": curve["130"]}, "sd": {"1.3": 0.05}, "curve": curve, "runs": runs}


def fleet(policy: str, throughput: float) -> dict[str, Any]:
    told = {"mean": throughput, "ci95": 0.02}
    return {
        "policy": policy, "seeds": 2, "effective_throughput": told, "useful_utilisation": told, "oom_kills": 0,
        "wait_seconds": {
            "training": {"p50": 60.0, "p99": 7200.0}, "inference": {"p50": 1.0, "p99": 30.0},
            "largest_gangs": {"p50": 90_000.0, "p99": 180_000.0},
        },
        "mean_wait_hours": {"1": {"jobs": 9, "mean": 0.5, "p50": 0.0}, "64": {"jobs": 2, "mean": 25.0, "p50": 25.0}},
        "evictions": 3, "moves": 0, "lost_gpu_hours": 12.5, "bound": {"mean": 0.95, "ci95": 0.01},
        "bounds": {"useful": 0.96, "cards_at_peak": 0.7, "ideal_integer_load": 0.4}, "fairness": [],
        "runs": [{"seed": s, "effective_throughput": throughput, "bound": 0.95} for s in (1, 2)],
    }  # fmt: skip


def result(experiment: Experiment) -> dict[str, Any]:
    if experiment.kind == "openb":
        return openb(experiment)
    if experiment.kind == "fleet":
        return fleet("gpufleet", 0.9) if experiment.name == "ours" else fleet("kube-default", 0.75)
    if experiment.kind == "ceiling":
        tops = {s: published(experiment.group, "fgd", s)[130] + 1.2 for s in SEEDS}
        runs = [{"seed": s, "ceiling": top, "first_refusal": 96.0} for s, top in tops.items()]
        return {"mean": sum(tops.values()) / len(tops), "runs": runs}
    timed = [{"name": name, "seconds": 0.5, "times": 4.0} for name in WORDS]
    return {"figures": timed, "memory_mib": 200.0}


@pytest.fixture(scope="module")
def known() -> Known:
    listed = tuple(experiments("full"))
    outcomes = {e.label: Outcome(e.label, "command", "digest", "2026-03-01", 60.0, 0.05, result(e)) for e in listed}
    return Known(listed, outcomes)


# ---------------------------------------------------------------- figures


def test_gains_are_in_pairs_by_seed(known: Known) -> None:
    found = figures(known.listed, known.outcomes)
    assert found["openb.default.known.gain_130"] == pytest.approx(AHEAD + 0.05)
    assert found["openb.default.known.gain_130_least"] == pytest.approx(AHEAD)
    assert found["openb.default.known.below_ceiling_least"] == pytest.approx(0.2)
    assert found["openb.default.fgd.off_published"] == pytest.approx(0)
    assert found["fleet.gangs.ours.gain_over.hold"] == pytest.approx(20)
    assert found["fleet.gangs.ours.part_of_bound"] == pytest.approx(0.9 / 0.95)


def test_one_column_off_the_published_curve_is_seen(known: Known) -> None:
    moved = openb(known.experiment("openb.default.bestfit"))
    moved["curve"]["57"] += 0.03
    label = "openb.default.bestfit"
    outcomes = {label: Outcome(label, "", "", "", 1, 1, moved)}
    sentences = wrong(figures(known.listed, outcomes), read_ranges("full"))
    assert any(s.startswith("openb.default.bestfit.off_published is 0.03") for s in sentences)


def test_pairs_are_of_seeds_that_both_have() -> None:
    assert differences({1: 5.0, 2: 7.0}, {2: 6.0, 3: 0.0}).by_seed == {2: 1.0}
    assert gains({1: 6.0}, {1: 4.0}).mean == pytest.approx(50)


# ---------------------------------------------------------------- markers

PAGE = "# Words\n\n<!-- bench:table -->\nold\n<!-- /bench:table -->\n\nIt is <!-- bench:figure -->1<!-- /bench:figure --> %.\n"


def test_only_what_stands_between_markers_changes() -> None:
    found = rewritten(PAGE, {"table": "| a |\n", "figure": "2"}, "page.md")
    assert found == PAGE.replace("\nold\n", "\n\n| a |\n\n").replace("->1<", "->2<")
    assert rewritten(found, {"table": "| a |\n", "figure": "2"}, "page.md") == found


LOOSE = {
    "a part that nobody makes": ("<!-- bench:other --><!-- /bench:other -->", "part 'other' is not known"),
    "a beginning without an end": ("<!-- bench:table -->", "has no partner"),
    "an end without a beginning": ("<!-- /bench:table -->", "has no partner"),
    "parts that overlap": (
        "<!-- bench:table --><!-- bench:figure --><!-- /bench:table --><!-- /bench:figure -->",
        "partner",
    ),
}


@pytest.mark.parametrize(("page", "says"), LOOSE.values(), ids=LOOSE)
def test_markers_that_are_refused(page: str, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        rewritten(page, {"table": "", "figure": ""}, "page.md")


# ---------------------------------------------------------------- the whole report


@pytest.fixture(scope="module")
def root(known: Known, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project's pages, written once."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "docs" / "pictures").mkdir(parents=True)
    for page in PAGES:
        (folder / page).write_text("Kept. <!-- bench:default-ours -->old<!-- /bench:default-ours -->\n")
    write(known, folder)
    return folder


def test_pages_tell_what_was_measured(root: Path, known: Known) -> None:
    mean = known.result("openb.default.known")["mean"]["1.3"]
    for page in PAGES:
        text = (root / page).read_text()
        assert text.startswith("Kept. ") and f"{mean:.2f} %" in text and "old" not in text


def test_the_page_asks_nothing_of_any_other_place(root: Path) -> None:
    page = (root / "docs" / "benchmarks.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) >= 5 and {s.partition(",")[0] for s in sources} == {"data:image/svg+xml;base64"}
    assert "<script" not in page and "@import" not in page


def test_pictures_are_pictures_and_the_same_results_give_the_same(root: Path, known: Known) -> None:
    before = {path: path.read_bytes() for path in sorted(root.rglob("*.*"))}
    assert sum(data.startswith(b"\x89PNG") for data in before.values()) >= 5
    write(known, root)
    assert {path: path.read_bytes() for path in sorted(root.rglob("*.*"))} == before


def test_goals_say_what_was_reached_and_what_no_policy_could(known: Known) -> None:
    told = {goal.what: goal for goal in goals(known)}
    part = told["gangs3000: part of the bound"]
    assert (part.goal, part.measured, part.reached) == ("97.5 %", "94.7 %", False)
    gain = told["gangs3000: effective throughput over hold, 2 seeds"]
    assert (gain.measured, gain.most, gain.reached) == ("+20.0 +- 0.0 %", "+26.7 %", False)
    assert told["openb default, mix learnt: least lead over FGD at 100 %, of ten seeds"].reached
    assert told["gangs: median wait of 64-GPU gangs, hours (hold 25, release 25, packed 25)"].reached
    less = Known(known.listed, {label: o for label, o in known.outcomes.items() if "gangs3000" not in label})
    assert {goal.what for goal in goals(less)} == {what for what in told if "gangs3000" not in what}


def test_our_pages_have_a_place_for_every_table_and_none_that_nobody_fills(known: Known) -> None:
    names = {*TABLES, *words(known)}
    pages = [(PROJECT / page).read_text() for page in PAGES]
    for page in pages:
        assert rewritten(rewritten(page, dict.fromkeys(names, ""), "page"), dict.fromkeys(names, "x"), "page")
    assert [name for name in TABLES if f"<!-- bench:{name} -->" not in pages[0]] == []


def test_every_picture_that_a_page_shows_is_there_and_drawn_by_a_chart() -> None:
    shown = {
        match for page in PAGES for match in re.findall(r"pictures/(bench-\w+)\.png", (PROJECT / page).read_text())
    }
    assert shown <= {f"bench-{name}" for name in CHARTS}
    assert [name for name in shown if not (PROJECT / PICTURES / f"{name}.png").is_file()] == []


def test_a_picture_pressed_harder_shows_the_same_points() -> None:
    lines = b"".join(b"\x00" + bytes([row % 5] * 30) for row in range(40))
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", 10, 40, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 0)),
        (b"IEND", b""),
    ]
    drawn = MARK + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    pressed = squeezed(drawn)
    assert len(pressed) < len(drawn) / 4 and squeezed(pressed) == pressed
    start, end = pressed.index(b"IDAT") + 4, pressed.index(b"IEND") - 8
    assert pressed[: start - 8] == drawn[: start - 8] and zlib.decompress(pressed[start:end]) == lines


def test_a_result_that_is_missing_is_named_and_no_page_is_touched(root: Path, known: Known) -> None:
    before = (root / PAGES[0]).read_text()
    some = {label: outcome for label, outcome in known.outcomes.items() if label != "speed"}
    with pytest.raises(Invalid, match="speed was not measured"):
        write(Known(known.listed, some), root)
    assert (root / PAGES[0]).read_text() == before


def test_a_load_counts_as_served_only_while_replicas_start_within_a_minute(known: Known) -> None:
    (line,) = [goal for goal in goals(known) if goal.what.startswith("mixed-50: load 1.1")]
    wait = known.result("fleet.mixed-50.ours")["wait_seconds"]["inference"]["p99"]
    assert (line.measured, line.reached) == ("2.75", wait < 60)
    slower = deepcopy(known)
    slower.result("fleet.mixed-50.ours")["wait_seconds"]["inference"]["p99"] = 61.0
    (late,) = [goal for goal in goals(slower) if goal.what.startswith("mixed-50: load 1.1")]
    assert (late.measured, late.reached) == ("2.75", False)
