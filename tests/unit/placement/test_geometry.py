"""The tables of MIG geometry: every claim about a card is exact."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import pytest
from tests.builders import node, pending, plan_of, pods, queue

from gpufleet.model.catalogue import gpu_model, gpu_models
from gpufleet.model.hardware import MigInstance, illegal_layout
from gpufleet.model.workload import Slice
from gpufleet.placement.geometry import geometry
from gpufleet.units import mib

FIRST = {
    "H100-80 1g.10gb": "1g.10gb@6",
    "H100-80 1g.20gb": "1g.20gb@6",
    "H100-80 2g.20gb": "2g.20gb@4",
    "H100-80 3g.40gb": "3g.40gb@4",
    "H100-80 4g.40gb": "4g.40gb@0",
    "H100-80 7g.80gb": "7g.80gb@0",
    "RTXPRO6000-96 1g.24gb": "1g.24gb@9",
    "RTXPRO6000-96 2g.48gb": "2g.48gb@6",
    "A30-24 1g.6gb": "1g.6gb@3",
}


@pytest.mark.parametrize(("what", "instance"), FIRST.items(), ids=FIRST)
def test_the_first_slice_on_an_empty_card(what: str, instance: str) -> None:
    model, profile = what.split()
    plan = plan_of(node(model=model, gpus=1), pending("p", pods(profile=profile)))
    assert [str(i) for r in plan.repartitions for i in r.create] == [instance]


def feasible(model: str, names: tuple[str, ...]) -> bool:
    """Whether these profiles can exist together on one card, by trying every start."""

    def place(rest: tuple[str, ...], layout: list[MigInstance]) -> bool:
        if not rest:
            return True
        profile = gpu_model(model).profile(rest[0])
        assert profile is not None
        return any(
            illegal_layout(gpu_model(model), [*layout, MigInstance(s, rest[0])]) is None
            and place(rest[1:], [*layout, MigInstance(s, rest[0])])
            for s in profile.starts
        )

    return place(names, [])


@pytest.mark.parametrize("model", ["H100-80", "A30-24", "RTXPRO6000-96"])
def test_every_feasible_set_of_slices_of_one_job_fits_one_card(model: str) -> None:
    plain = [p.name for p in gpu_model(model).profiles if p.name.endswith("gb")]
    sets = [s for size in range(1, 5) for s in combinations_with_replacement(plain, size)]
    for names in (s for s in sets if feasible(model, s)):
        asked = [pods(count, profile=name) for name, count in sorted(Counter(names).items())]
        plan = plan_of(node(model=model, gpus=1), queue("a", 4), pending("p", *asked))
        assert plan.placements, names


@pytest.mark.parametrize("name", [m for m in gpu_models() if gpu_models()[m].profiles])
def test_slots_count_what_really_fits(name: str) -> None:
    model = gpu_model(name)
    for profile in model.profiles:
        found = geometry(model).slots(profile, 0)
        assert min(found, profile.max_instances) == profile.max_instances


NEEDS = {
    "seventeen GiB on an H200 need more than 1g.18gb, which reports sixteen": ("H200-141", 17, 1, "1g.35gb"),
    "twenty GiB on an H100 do not fit 20gb": ("H100-80", 20, 1, "3g.40gb"),
    "nine GiB fit 10gb": ("H100-80", 9, 1, "1g.10gb"),
    "more compute needs the larger slice of the same memory": ("H100-80", 15, 2, "2g.20gb"),
}


@pytest.mark.parametrize(("model", "gib", "compute", "profile"), NEEDS.values(), ids=NEEDS)
def test_the_smallest_profile_that_serves(model: str, gib: int, compute: int, profile: str) -> None:
    assert geometry(gpu_model(model)).suitable(Slice(mib(gib), compute))[0].name == profile


def test_media_variants_are_used_only_when_named() -> None:
    suitable = geometry(gpu_model("H100-80")).suitable(Slice(mib(1)))
    assert not any("me" in p.name for p in suitable)
