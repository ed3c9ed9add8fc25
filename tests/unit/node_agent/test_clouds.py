"""What the metadata services say, and what it means: small HTTP servers play the clouds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.builders import NOW
from tests.unit.node_agent.worlds import Served, metadata_service, served

from gpufleet.node_agent.clouds.aws import Aws
from gpufleet.node_agent.clouds.azure import Azure
from gpufleet.node_agent.clouds.gcp import Gcp
from gpufleet.node_agent.notices import Kind, Notice

SPOT = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
SCHEDULED = "/latest/meta-data/events/maintenance/scheduled"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
SOON = NOW + timedelta(minutes=2)


@pytest.fixture
def service() -> Iterator[Served]:
    with served(metadata_service()) as found:
        yield found


AWS = {
    "nothing is announced": ({}, ()),
    "a spot machine is taken in two minutes": (
        {SPOT: '{"action": "terminate", "time": "2026-01-01T00:02:00Z"}'},
        (Notice("aws-spot-2026-01-01T00:02:00+00:00", Kind.SPOT, NOW, SOON),),
    ),
    "a time that cannot be read is no reason to wait": (
        {SPOT: '{"action": "stop", "time": "soon"}'},
        (Notice("aws-spot-", Kind.SPOT, NOW, NOW),),
    ),
    "another action is none": ({SPOT: '{"action": "dance"}'}, ()),
    "what is no JSON is none": ({SPOT: "<html>"}, ()),
    "a recommendation is a risk without a deadline": (
        {REBALANCE: '{"noticeTime": "2026-01-01T00:00:00Z"}'},
        (Notice("aws-rebalance-2026-01-01T00:00:00+00:00", Kind.RISK, NOW),),
    ),
    "scheduled maintenance": (
        {
            SCHEDULED: '[{"EventId": "e-1", "State": "active", "NotBefore": "1 Jan 2026 00:02:00 GMT"},'
            ' {"EventId": "e-2", "State": "completed"}]'
        },
        (Notice("e-1", Kind.MAINTENANCE, NOW, SOON),),
    ),
}


@pytest.mark.parametrize(("said", "want"), AWS.values(), ids=AWS)
def test_aws_says(service: Served, said: dict[str, str], want: tuple[Notice, ...]) -> None:
    service.answers = {path: (200, text) for path, text in said.items()}
    assert Aws(service.url).notices(NOW) == want


def test_aws_gets_another_token_when_the_old_one_is_not_taken_any_more(service: Served) -> None:
    cloud = Aws(service.url)
    cloud.notices(NOW)
    service.needs["X-aws-ec2-metadata-token"] = "another"
    service.answers[REBALANCE] = (200, '{"noticeTime": "2026-01-01T00:00:00Z"}')
    assert len(cloud.notices(NOW)) == 1
    assert [verb for verb, _, _ in service.asked].count("PUT") == 2


def test_a_service_that_does_not_answer_is_told_and_not_taken_for_silence(service: Served) -> None:
    service.broken = True
    for cloud in (Aws(service.url), Gcp(service.url), Azure("vm-1", service.url)):
        with pytest.raises(httpx.HTTPError):
            cloud.notices(NOW)


def test_gcp_leaves_thirty_seconds_from_when_it_was_heard_first(service: Served) -> None:
    service.needs = {"Metadata-Flavor": "Google"}
    service.answers = {PREEMPTED: (200, "FALSE"), MAINTENANCE: (200, "NONE")}
    cloud = Gcp(service.url)
    assert cloud.notices(NOW) == ()
    service.answers[PREEMPTED] = (200, "TRUE\n")
    (first,) = cloud.notices(NOW)
    assert (first.kind, first.deadline) == (Kind.SPOT, NOW + timedelta(seconds=30))
    assert cloud.notices(NOW + timedelta(seconds=5)) == (first,)


def test_gcp_announces_maintenance_an_hour_ahead_and_the_next_one_is_another(service: Served) -> None:
    service.needs = {"Metadata-Flavor": "Google"}
    service.answers = {PREEMPTED: (200, "FALSE"), MAINTENANCE: (200, "TERMINATE_ON_HOST_MAINTENANCE")}
    cloud = Gcp(service.url)
    (first,) = cloud.notices(NOW)
    assert (first.kind, first.deadline) == (Kind.MAINTENANCE, NOW + timedelta(hours=1))
    service.answers[MAINTENANCE] = (200, "MIGRATE_ON_HOST_MAINTENANCE")
    assert cloud.notices(NOW) == ()
    service.answers[MAINTENANCE] = (200, "TERMINATE_ON_HOST_MAINTENANCE")
    (second,) = cloud.notices(NOW + timedelta(days=1))
    assert second.id != first.id


def event(**fields: Any) -> dict[str, Any]:
    return {"EventId": "e-1", "EventType": "Preempt", "Resources": ["vm-1", "vm-2"], **fields}


AZURE = {
    "nothing is scheduled": ([], ()),
    "a spot machine is taken": (
        [event(NotBefore="Thu, 01 Jan 2026 00:02:00 GMT")],
        (Notice("e-1", Kind.SPOT, NOW, SOON),),
    ),
    "an event without a time has begun": (
        [event(NotBefore="")],
        (Notice("e-1", Kind.SPOT, NOW, NOW + timedelta(seconds=30)),),
    ),
    "the machine moves": (
        [event(EventType="Redeploy", NotBefore="Thu, 01 Jan 2026 00:02:00 GMT")],
        (Notice("e-1", Kind.MAINTENANCE, NOW, SOON),),
    ),
    "a freeze of some seconds ends nothing": ([event(EventType="Freeze")], ()),
    "another machine of the group": ([event(Resources=["vm-3"])], ()),
    "something that is no event": (["x", event(EventId="")], ()),
}


@pytest.mark.parametrize(("events", "want"), AZURE.values(), ids=AZURE)
def test_azure_says(service: Served, events: list[Any], want: tuple[Notice, ...]) -> None:
    service.needs = {"Metadata": "true"}
    service.answers[EVENTS] = (200, json.dumps({"DocumentIncarnation": 1, "Events": events}))
    assert Azure("VM-1", service.url).notices(NOW) == want
