"""The first boot of a machine: a template and a few values, and nobody reads the secret anywhere else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import yaml

from gpufleet.clouds.joining import BUILT_IN, Join, built_in, node_labels, user_data
from gpufleet.errors import Invalid
from gpufleet.model.capacity import CapacityType, Offering

OFFERING = Offering(
    "spot-a",
    "aws",
    "us-east-1",
    "us-east-1a",
    "p5.48xlarge",
    CapacityType.SPOT,
    "H100-80",
    8,
    Fraction(12),
    fabric="efa",
)
SECRET = "abcdef.0123456789abcdef"
JOIN = Join(
    "east",
    built_in("kubeadm"),
    endpoint="10.0.0.1:6443",
    ca_hash="sha256:aa",
    certificate="Q0E=",
    service_cidr="10.100.0.0/16",
    secret=SECRET,
)


def test_a_node_says_what_it_is_from_its_first_moment() -> None:
    assert node_labels(OFFERING, fleet="f1", token="f1-job-1", more=(("pool", "gpus"),)) == {
        "gpufleet.io/fleet": "f1",
        "gpufleet.io/token": "f1-job-1",
        "gpufleet.io/offering": "spot-a",
        "gpufleet.io/capacity": "spot",
        "gpufleet.io/model": "H100-80",
        "gpufleet.io/fabric": "efa",
        "topology.kubernetes.io/region": "us-east-1",
        "topology.kubernetes.io/zone": "us-east-1a",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "pool": "gpus",
    }


def test_values_are_such_as_kubernetes_takes() -> None:
    token = node_labels(OFFERING, fleet="f1", token="-a/b c" + "x" * 80)["gpufleet.io/token"]
    assert len(token) <= 63
    assert token.startswith("a-b-c")


def test_kubeadm_joins_with_labels_and_taints() -> None:
    told = yaml.safe_load(user_data(JOIN, OFFERING, fleet="f1", token="t"))
    join = yaml.safe_load(told["write_files"][0]["content"])
    assert join["discovery"]["bootstrapToken"]["token"] == SECRET
    given = {arg["name"]: arg["value"] for arg in join["nodeRegistration"]["kubeletExtraArgs"]}
    assert "gpufleet.io/capacity=spot" in given["node-labels"]
    assert given["register-with-taints"] == "nvidia.com/gpu=present:NoSchedule"
    assert told["write_files"][0]["permissions"] == "0600"
    assert "$?" in told["runcmd"][0][2]


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_comes_with_gpufleet_leaves_nothing_open(name: str) -> None:
    text = user_data(replace(JOIN, template=built_in(name)), OFFERING, fleet="f1", token="t")
    assert "${" not in text
    assert "gpufleet.io/fleet=f1" in text


@pytest.mark.parametrize("missing", ["endpoint", "ca_hash", "secret"])
def test_what_the_template_needs_and_nobody_gives_is_named(missing: str) -> None:
    with pytest.raises(Invalid, match="join_secret" if missing == "secret" else missing) as told:
        user_data(replace(JOIN, **{missing: ""}), OFFERING, fleet="f1", token="t")
    assert SECRET not in str(told.value)


def test_an_unknown_value_of_a_template_is_named() -> None:
    with pytest.raises(Invalid, match="'subnet'"):
        user_data(replace(JOIN, template="${subnet}"), OFFERING, fleet="f1", token="t")


def test_there_is_no_such_template() -> None:
    with pytest.raises(Invalid, match="use one of kubeadm, eks"):
        built_in("gke")


def test_the_secret_is_in_no_repr() -> None:
    assert SECRET not in repr(JOIN)
