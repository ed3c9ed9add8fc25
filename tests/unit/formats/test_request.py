"""What a person asks for: every wrong key is refused with one sentence that names it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpufleet.errors import Invalid
from gpufleet.formats.request import parse_request
from gpufleet.model.capacity import CapacityType
from gpufleet.model.workload import PodSet, Share, Slice, Whole, Workload

GOOD = {"team": "vision", "project": "digits", "command": "python train.py --lr 0.1"}

REFUSED = {
    "an unknown key": ({"gpu": 8}, "'gpu' is not a key"),
    "no team": ({"team": None}, "'team' is missing"),
    "no command": ({"command": ""}, "'command' is missing"),
    "a command that cannot be split": ({"command": "echo 'half"}, "command cannot be read"),
    "no GPUs": ({"gpus": 0}, "gpus must be a whole number above 0"),
    "fewer than no GPUs": ({"gpus": -2}, "gpus must be a whole number above 0"),
    "half a GPU as a whole one": ({"gpus": 0.5}, "gpus must be a whole number above 0"),
    "GPUs as a flag": ({"gpus": True}, "gpus must be a whole number above 0"),
    "no pods": ({"pods": 0}, "pods must be a whole number above 0"),
    "an interval of nothing": ({"checkpoint_interval": "0s"}, "checkpoint_interval must be longer than 0"),
    "an interval in no unit we know": (
        {"checkpoint_interval": "soon"},
        "checkpoint_interval: 'soon' is not a duration",
    ),
    "an interval without a unit but with a sign": ({"checkpoint_interval": "-5m"}, "checkpoint_interval"),
    "memory of nothing": ({"memory_gib": 0}, "memory_gib must be above 0"),
    "memory that is no number": ({"memory_gib": "lots"}, "memory_gib must be a number of GiB"),
    "GPUs and a slice": ({"gpus": 1, "memory_gib": 9}, "gpus and memory_gib exclude each other"),
    "GPUs and a profile": ({"gpus": 1, "profile": "1g.10gb"}, "gpus and profile exclude each other"),
    "a share above one": ({"share": 1.5, "memory_gib": 4}, "share must be above 0 and at most 1"),
    "a share without its memory": ({"share": 0.5}, "memory_gib is missing"),
    "a kind nobody knows": ({"kind": "batch"}, "kind must be one of training, inference, interactive"),
    "a priority nobody has": ({"priority": 5000}, "priority must be from 0 to 1000"),
    "a capacity type nobody sells": ({"capacity": ["cheap"]}, "capacity must be among"),
    "a model nobody makes": ({"models": ["H1000"]}, "'H1000' is not in the catalogue"),
    "an environment that is no mapping": ({"env": "A=1"}, "env must map names to values"),
    "an environment with a bad name": ({"env": {"A B": "1"}}, "env has 'A B'"),
    "a digit that is none": ({"pods": "²"}, "pods must be a whole number above 0"),
    "pods beyond any fleet": ({"pods": 10**30}, "pods must be a whole number above 0"),
    "a number of five thousand digits": ({"pods": "9" * 5000}, "pods must be a whole number above 0"),
    "a priority without end": ({"priority": float("inf")}, "priority must be a whole number"),
    "a priority in between": ({"priority": 50.9}, "priority must be a whole number"),
    "a priority as a flag": ({"priority": True}, "priority must be a whole number"),
    "models that are a number": ({"models": 5}, "models must be a list of names"),
    "a command that is a number": ({"command": 5}, "command must be a command line"),
    "a command that is a mapping": ({"command": {"a": 1}}, "command must be a command line"),
    "a command of nothing in quotes": ({"command": "''"}, "command must be a command line"),
    "capacity that is a flag": ({"capacity": True}, "capacity must be a list of names"),
    "a kind in a list": ({"kind": ["training"]}, "kind must be one of"),
    "a share without end": ({"share": float("inf"), "memory_gib": 4}, "share must be"),
    "a share as a flag": ({"share": True, "memory_gib": 4}, "share must be above 0"),
    "a runtime beyond the calendar": ({"runtime": "9999999999d"}, "runtime: '9999999999d' is longer than"),
    "a runtime of years": ({"runtime": "900000000d"}, "runtime: '900000000d' is longer than"),
    "a deadline without a zone": ({"deadline": "2026-03-10T18:00:00", "runtime": "2h"}, "deadline must say its zone"),
    "a deadline in words": ({"deadline": "tomorrow", "runtime": "2h"}, "deadline must be an instant such as"),
    "a deadline that is a number": ({"deadline": 5, "runtime": "2h"}, "deadline must be an instant such as"),
    "a deadline beyond the calendar": (
        {"deadline": "0001-01-01T00:00:00+14:00", "runtime": "2h"},
        "beyond the calendar",
    ),
    "a deadline alone": ({"deadline": "2026-03-10T18:00:00Z"}, "a deadline needs a runtime"),
    "memory with an exponent": ({"memory_gib": "1e99999999"}, "memory_gib must be a number of GiB"),
    "half a character": ({"name": "\ud800"}, "name must be plain text"),
    "a NUL in the command": ({"command": ["echo", "a\0b"]}, "command must be plain text"),
    "a NUL in the environment": ({"env": {"A": "\0"}}, "env must be plain text"),
    "an environment of nothing": ({"env": {"A": None}}, "env: the value of A must be text or a number"),
    "memory asked for and learned": (
        {"memory_gib": 9, "like": "w"},
        "memory_gib and like exclude each other; the memory of a slice is named, asked for, or",
    ),
    "whole GPUs like a workload": ({"gpus": 1, "like": "w"}, "gpus and like exclude each other; whole GPUs have all"),
    "a profile like a workload": ({"profile": "1g.10gb", "like": "w"}, "profile and like exclude each other"),
    "a workload without a name": (
        {"workload": {"batch": 2}},
        "workload.workload must name the workload in at most 200",
    ),
    "a workload of a page": (
        {"workload": {"workload": "w" * 201}},
        "workload.workload must name the workload in at most 200",
    ),
    "a workload with a key nobody knows": ({"workload": {"workload": "w", "gpus": 2}}, "workload has the key 'gpus'"),
    "a batch of nothing": ({"like": {"workload": "w", "batch": 0}}, "like.batch must be a whole number above 0"),
    "a size in words": ({"like": "w; batch two"}, "like.batch must be a whole number above 0"),
    "a size nobody knows": ({"like": "w; tokens 9"}, "like has the key 'tokens'"),
    "a workload that is a number": (
        {"workload": 7},
        "workload must name a workload with its batch and sequence, not 7",
    ),
    "a leader without workers": ({"leader_gpus": 8}, "leader_gpus is for a gang of whole GPUs"),
    "a leader of workers on slices": ({"pods": 3, "memory_gib": 9, "leader_gpus": 8}, "leader_gpus is for a gang"),
    "a leader without a GPU": ({"pods": 3, "leader_gpus": 0}, "leader_gpus must be a whole number above 0"),
    "more members than pods": ({"pods": 2, "min_members": 3}, "min_members 3 is more than the 2 pods"),
}


@pytest.mark.parametrize(("change", "sentence"), REFUSED.values(), ids=REFUSED)
def test_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_request({**GOOD, **change})
    assert sentence in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


TAKEN = {
    "nothing asked for is one whole GPU": ({}, "demand", Whole(1)),
    "whole GPUs, also as a form writes them": ({"gpus": "8"}, "demand", Whole(8)),
    "a slice by its memory": ({"memory_gib": 9.5}, "demand", Slice(memory_mib=9728)),
    "a slice by name": ({"profile": "3g.40gb"}, "demand", Slice(profile="3g.40gb")),
    "a share": ({"share": "0.25", "memory_gib": 4}, "demand", Share(250, 4096)),
    "what it runs": ({"workload": {"workload": "w", "batch": 2, "sequence": 2048}}, "workload", Workload("w", 2, 2048)),
    "what it runs, in one line": (
        {"workload": "my net ; sequence 512; batch 2"},
        "workload",
        Workload("my net", 2, 512),
    ),
    "a need to be learned": ({"like": "w; batch 2"}, "like", Workload("w", 2)),
    "a slice whose memory is to be learned": ({"like": "w"}, "demand", Slice()),
    "a share whose memory is to be learned": ({"share": 0.5, "like": "w"}, "demand", Share(500, 0)),
    "capacity types with commas": (
        {"capacity": "spot, reserved"},
        "capacity",
        (CapacityType.SPOT, CapacityType.RESERVED),
    ),
    "a command line is split as a shell would": ({"command": "echo 'a b'"}, "command", ("echo", "a b")),
    "a runtime": ({"runtime": "1h30m"}, "runtime", timedelta(minutes=90)),
    "a deadline": (
        {"deadline": "2026-03-10T18:00:00+01:00", "runtime": "2h"},
        "deadline",
        datetime(2026, 3, 10, 17, tzinfo=UTC),
    ),
    "what a form leaves empty is not asked for": ({"models": [], "name": "", "env": {}}, "models", ()),
}


@pytest.mark.parametrize(("change", "field", "want"), TAKEN.values(), ids=TAKEN)
def test_taken(change: dict[str, Any], field: str, want: Any) -> None:
    assert getattr(parse_request({**GOOD, **change}), field) == want


def test_a_leader_may_ask_for_other_gpus_than_its_workers() -> None:
    asked = parse_request({**GOOD, "pods": 4, "gpus": 8, "leader_gpus": "2"})
    job = asked.to_job(id="j", queue="a", submitted_by="ada", at=datetime(2026, 1, 1, tzinfo=UTC))
    assert job.pod_sets == (PodSet(1, Whole(2)), PodSet(3, Whole(8))) and job.pods == 4
