"""The file of `gpufleet break-even`: exact values in, one clear sentence for each thing that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from gpufleet.errors import Invalid
from gpufleet.formats.ownership import load_ownership, read_ownership

EXAMPLES = Path(__file__).parents[3] / "config" / "examples" / "break-even"
GOOD = (EXAMPLES / "on-demand.yaml").read_text()

WRONG = {
    "an unknown key": ("horizon_months: 60", "horizon_months: 60\ncolour: red", "unknown key 'colour'"),
    "an unknown key inside": ('install: "0.00"', 'install: "0.00"\n  rails: "1"', "hardware.rails: unknown key"),
    "a missing key": ('  staff_per_month: "1500.00"\n', "", "the key 'staff_per_month' is missing"),
    "another version": ("version: 1", "version: 2", "version: version '2' is not known"),
    "a currency nobody has": ("currency: USD", "currency: XQQ", "currency: 'XQQ' is not a currency"),
    "shares below one": ('share: "1"', 'share: "0.9"', "cloud.mix: the shares sum to 0.9, not to 1"),
    "a share above one": ('share: "1"', 'share: "1.5"', "cloud.mix[0].share: must be from 0 to 1"),
    "no mix": ('    - {name: on-demand, share: "1", per_gpu_hour: "6.88", pay: use}', "    []", "shares sum to 0"),
    "another way to pay": ("pay: use", "pay: sometimes", "it is one of use, committed"),
    "a negative price": ('"325000.00"', '"-1"', "hardware.price_per_server: must be at least 0"),
    "a price that lost digits": ('"325000.00"', "325000.5", "write it in quotes"),
    "use above all hours": ('utilisation: "0.80"', 'utilisation: "80"', 'write 80 % as "0.80"'),
    "a negative use": ('utilisation: "0.80"', 'utilisation: "-0.1"', "utilisation: must be at least 0"),
    "a horizon of nothing": ("horizon_months: 60", "horizon_months: 0", "horizon_months: must be at least 1"),
    "half a month": ("horizon_months: 60", "horizon_months: 1.5", "must be a whole number"),
    "a horizon of centuries": ("horizon_months: 60", "horizon_months: 6000", "must be at most 360"),
    "no server": ("servers: 1", "servers: 0", "hardware.servers: must be at least 1"),
    "more salvage than was paid": ('salvage_fraction: "0.00"', 'salvage_fraction: "1.01"', "salvage_fraction: must be"),
    "a month too long": ("hours_per_month: 730", "hours_per_month: 7300", "at most 744"),
    "power that nobody priced": ("includes_power: true", "includes_power: false", "the key 'pue' is missing"),
    "a building that makes power": (
        "includes_power: true",
        'includes_power: false\n  pue: "0.9"\n  power_per_kwh: "0.1"',
        "pue: must be at least 1",
    ),
    "a rate with a tail": ('discount_rate_per_year: "0.00"', 'discount_rate_per_year: "0.12345678901"', "10 decimals"),
}


@pytest.mark.parametrize(("old", "new", "told"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_in_a_sentence_with_its_place(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(Invalid) as why:
        read_ownership(GOOD.replace(old, new, 1), "own.yaml")
    sentence = str(why.value)
    assert told in sentence and sentence.startswith("own.yaml, line ") and "\n" not in sentence


def test_the_same_part_twice_is_refused() -> None:
    twice = GOOD.replace('share: "1"', 'share: "0.5"')
    row = next(line for line in twice.splitlines() if "on-demand, share" in line)
    with pytest.raises(Invalid, match="the part 'on-demand' appears twice"):
        read_ownership(twice.replace(row, f"{row}\n{row}"), "own.yaml")


def test_amounts_are_exact() -> None:
    asked = load_ownership(EXAMPLES / "spot.yaml")
    assert asked.mix[0].per_gpu_hour == Fraction(181_875, 100_000)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpufleet", "break-even", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_answers_in_json_and_draws(tmp_path: Path) -> None:
    picture = tmp_path / "even.png"
    done = run("--input", str(EXAMPLES / "mix.yaml"), "--chart", str(picture), "--json")
    found = json.loads(done.stdout)
    assert (found["break_even_month"], found["break_even_months"], found["cloud_per_month"]) == (
        29,
        "28.67",
        "20353.57",
    )
    assert len(found["curves"]) == 61 and found["curves"][0]["own"] == found["capital"] == "365625.00"
    assert {one["input"] for one in found["sensitivity"]} >= {"utilisation", "salvage fraction", "staff, times"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_is_not_there_is_status_two(tmp_path: Path) -> None:
    done = run("--input", str(tmp_path / "none.yaml"))
    assert done.returncode == 2 and "there is no such file" in done.stderr and "Traceback" not in done.stderr
