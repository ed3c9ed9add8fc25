"""Clouds of fleet.yaml: what is wrong is named, what is right becomes a cloud that runs dry until it is told not to."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fleets import WORLD, lay_out_home

from gpufleet.bootstrap import bootstrap
from gpufleet.clouds.base import DryRun
from gpufleet.errors import Invalid
from gpufleet.formats.price_list import load_price_list
from gpufleet.settings import load_settings

SOLD = {"name": "spot-a", "instance_type": "p5.48xlarge", "capacity": "spot", "model": "H100-80", "gpus": 8}
AWS = {
    "name": "east", "kind": "aws", "region": "us-east-1",
    "offerings": [{**SOLD, "zone": "us-east-1a", "image": "ami-1"}],
}  # fmt: skip
GCP = {
    "name": "central", "kind": "gcp", "project": "p1",
    "offerings": [{**SOLD, "name": "g", "zone": "us-central1-a", "image": "i", "nics": [{"network": "n"}]}],
}  # fmt: skip
AZURE = {
    "name": "west", "kind": "azure", "region": "westus", "subscription": "s", "resource_group": "g", "retail_prices": "",
    "offerings": [{**SOLD, "name": "z", "zone": "2", "image": "i", "subnet": "n", "ssh_key": "k"}],
}  # fmt: skip


def home(tmp_path: Path, *clouds: dict[str, Any]) -> Path:
    lay_out_home(tmp_path, WORLD)
    path = tmp_path / "fleet.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), "clouds": list(clouds)}))
    return tmp_path


def changed(cloud: dict[str, Any], **change: Any) -> dict[str, Any]:
    """The cloud with its one offering changed."""
    return {**cloud, "offerings": [{**cloud["offerings"][0], **change}]}


WRONG = {
    "an unknown key": ({**AWS, "regoin": "x"}, "clouds.0.regoin: is not a known key"),
    "an unknown key of an offering": (changed(AWS, sise=8), "clouds.0.offerings.0.sise: is not a known key"),
    "a secret in the file": ({**AWS, "aws_secret_access_key": "s"}, "aws_secret_access_key: is not a known key"),
    "a model nobody makes": (changed(AWS, model="H1000"), "GPU model 'H1000', which is not in the catalogue"),
    "owned machines are not bought": (changed(AWS, capacity="owned"), "clouds.0.offerings.0.capacity"),
    "efa without a subnet": (changed(AWS, efa=True), "with efa needs a subnet and security groups"),
    "a block without its id": (changed(AWS, is_block=True), "is of a capacity block and needs its id"),
    "neither image nor template": (changed(AWS, image=""), "needs an image or a launch template"),
    "a Google zone that is a region": (changed(GCP, zone="us-central1"), "needs a zone like us-central1-a"),
    "a kind nobody sells": ({**AWS, "kind": "oracle"}, "clouds.0.kind"),
}


@pytest.mark.parametrize(("cloud", "sentence"), WRONG.values(), ids=WRONG)
def test_wrong_clouds(tmp_path: Path, cloud: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as told:
        load_settings(home(tmp_path, cloud), {})
    assert sentence in str(told.value)


def test_an_offering_has_one_name_in_the_whole_fleet(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="offering 'spot-a' stands there twice"):
        load_settings(home(tmp_path, AWS, {**AWS, "name": "other"}), {})


PRICES = """region,instance_type,capacity,price,source,fetched_at,zone,gpus,valid_for
us-east-1,p5.48xlarge,spot,14.55,a price page,2026-11-30T00:00:00Z,,8,3650d
"""


def test_each_kind_becomes_a_cloud_that_only_says_what_it_would_buy(tmp_path: Path) -> None:
    fleet = bootstrap(load_settings(home(tmp_path, AWS, GCP, AZURE), {}))
    assert list(fleet.clouds) == ["east", "central", "west"]
    for name, offering in (("east", "spot-a"), ("central", "g"), ("west", "z")):
        with pytest.raises(DryRun, match=f"Cloud {name} runs dry and did not buy 2 x {offering} .*dry_run: false"):
            fleet.clouds[name].launch(offering, 2, token="t")
    with pytest.raises(DryRun):
        fleet.clouds["east"].terminate("i-1")
    with pytest.raises(DryRun):
        fleet.clouds["east"].reserve("spot-a", 1, token="t")


def test_zones_are_told_apart_across_clouds(tmp_path: Path) -> None:
    (tmp_path / "prices.csv").write_text(PRICES.replace("us-east-1,p5", "westus,p5"))
    fleet = bootstrap(load_settings(home(tmp_path, {**AZURE, "prices": "prices.csv"}), {}))
    (offering,) = fleet.clouds["west"].offerings()
    assert (offering.zone, offering.region, offering.cloud) == ("westus-2", "westus", "west")
    assert float(offering.price) == 14.55


def test_a_listed_on_demand_price_judges_spot_that_is_sold_alone(tmp_path: Path) -> None:
    listed = PRICES.replace("us-east-1,p5", "westus,p5")
    on_demand = listed.splitlines()[1].replace("spot,14.55", "on-demand,14.55")
    (tmp_path / "prices.csv").write_text(f"{listed}{on_demand}\n")
    fleet = bootstrap(load_settings(home(tmp_path, {**AZURE, "prices": "prices.csv"}), {}))
    (offering,) = fleet.clouds["west"].offerings()
    assert not offering.available  # no discount, no capacity


@pytest.mark.parametrize(
    ("change", "sentence"),
    {
        "a price nobody can read": (("14.55", "cheap"), "line 2: price: 'cheap' cannot be read"),
        "an instant without a zone": (("T00:00:00Z", "T00:00:00"), "line 2: fetched_at:"),
        "an unknown column": (("gpus", "gpu"), "line 1: gpu is not a known column"),
        "a column too few": (("source,", ""), "line 1: column source is missing"),
    }.values(),
)
def test_wrong_price_lists(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    (tmp_path / "prices.csv").write_text(PRICES.replace("3650d", "7d").replace(*change))
    with pytest.raises(Invalid) as told:
        bootstrap(load_settings(home(tmp_path, {**AWS, "prices": "prices.csv"}), {}))
    assert sentence in str(told.value)


def test_a_connection_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings(home(tmp_path, {**AWS, "connection": "aws_gpus"}), {})
    with pytest.raises(Invalid, match="AIRFLOW_CONN_AWS_GPUS"):
        bootstrap(settings)
    monkeypatch.setenv("AIRFLOW_CONN_AWS_GPUS", "aws://AKIA:very-secret@/")
    fleet = bootstrap(settings)
    assert "very-secret" not in repr(fleet)


def test_a_join_template_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = load_settings(home(tmp_path, {**AWS, "join": {"cluster": "east", "template": "join.yaml"}}), {})
    with pytest.raises(Invalid, match=r"join\.yaml is missing"):
        bootstrap(settings)
    (tmp_path / "join.yaml").write_text("labels=${labels}")
    assert "east" in bootstrap(settings).clouds


def test_no_sdk_is_loaded_before_a_cloud_is_asked(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gpufleet.bootstrap import bootstrap; "
        "from gpufleet.settings import load_settings; "
        f"bootstrap(load_settings(Path({str(home(tmp_path, AWS, GCP, AZURE))!r}), {{}})); "
        "print([m for m in sys.modules if m in ('boto3', 'botocore', 'google.cloud.compute_v1', 'azure.mgmt.compute')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def example(language: str) -> str:
    """The first example of that language in docs/clouds.md."""
    text = (Path(__file__).parents[3] / "docs" / "clouds.md").read_text()
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_examples_of_the_documentation_make_a_cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_AWS_GPUS", "aws://AKIA:secret@/")
    (tmp_path / "prices.csv").write_text(example("csv"))
    found = home(tmp_path, *yaml.safe_load(example("yaml"))["clouds"])
    fleet = bootstrap(load_settings(found, {}))
    with pytest.raises(DryRun):
        fleet.clouds["aws-east"].launch("p5-spot-a", 2, token="t")
    (listed,) = load_price_list(found / "prices.csv")
    assert (listed.instance_type, float(listed.price or 0), listed.gpus) == ("p5.48xlarge", 55.04, 8)
