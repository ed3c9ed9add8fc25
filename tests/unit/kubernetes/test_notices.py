"""What the node agent writes is what the cluster reads."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as some
from tests.builders import NOW

from gpufleet.clusters.kubernetes.labels import SeeingConfig
from gpufleet.clusters.kubernetes.seeing.nodes import node_fact
from gpufleet.model.capacity import InterruptionNotice
from gpufleet.node_agent.notices import Kind, Notice, dump

SOON = NOW + timedelta(seconds=30)


def read(text: Any, node: str = "n0") -> tuple[InterruptionNotice, ...]:
    metadata = {"name": node, "annotations": {"gpufleet.io/notices": text}}
    return node_fact({"metadata": metadata, "spec": {"providerID": "aws:///z/i-1"}}, SeeingConfig()).notices


def test_a_notice_with_a_deadline_is_heard_and_a_mere_risk_is_not() -> None:
    told = dump([Notice("e-1", Kind.MAINTENANCE, NOW, SOON), Notice("e-2", Kind.RISK, NOW)])
    assert read(told) == (InterruptionNotice("n0/e-1", "i-1", "n0", NOW, SOON, "maintenance"),)


def test_one_event_for_many_machines_is_a_notice_for_each() -> None:
    told = dump([Notice("e-1", Kind.SPOT, NOW, SOON)])
    assert read(told, "n0")[0].id != read(told, "n1")[0].id
    assert len(read(told, "n" * 253)[0].id) <= 128


@given(
    some.text() | some.none() | some.sampled_from(["{}", "[1]", '[{"id": "a", "at": "x"}]', '[{"id": 1}]', "[" * 5000])
)
def test_whatever_else_stands_there_is_no_notice(text: str | None) -> None:
    assert read(text) == ()
