"""What it costs to fetch a job's data: nothing inside the region, by the GB elsewhere."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gpufleet.model.capacity import CapacityType, Offering
from gpufleet.procurement.egress import GB, Egress

FROM = Egress("aws", "us-east-1", other_region=Fraction("0.02"), other_cloud=Fraction("0.09"))


@pytest.mark.parametrize(
    ("cloud", "region", "cost"),
    [
        ("aws", "us-east-1", "0"),
        ("aws", "eu-west-1", "2"),
        ("gcp", "us-east-1", "9"),
    ],
    ids=["where it lies", "another region", "another cloud, whatever its regions are called"],
)
def test_a_hundred_gigabytes_cost(cloud: str, region: str, cost: str) -> None:
    offering = Offering("o", cloud, region, f"{region}a", "t", CapacityType.SPOT, "H100-80", 8, Fraction(20))
    assert FROM.cost(offering, 100 * GB) == Fraction(cost)
    assert FROM.cost(offering, 0) == 0
