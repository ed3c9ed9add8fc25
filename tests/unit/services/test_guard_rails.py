"""What may be bought, what waits for a person, and what goes back: on a real sandbox and both databases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update
from tests.fleets import Played, played
from tests.sandboxes import eventually

from gpufleet.errors import Forbidden, Invalid, NotFound
from gpufleet.model.capacity import CapacityType
from gpufleet.model.policy import BuyingPolicy
from gpufleet.model.tenancy import Principal
from gpufleet.procurement.egress import GB, Egress
from gpufleet.procurement.guards import Guards, TeamGuard
from gpufleet.procurement.portfolio import Offer
from gpufleet.services.approve_purchase import (
    approve_purchase,
    ask_about,
    purchase_state,
    turn_down_purchase,
    waiting_purchases,
)
from gpufleet.services.review_capacity import capacity_view, review_capacity
from gpufleet.store import schema as t
from gpufleet.store import world

OPS, ADA = Principal("ops"), Principal("ada")
SPOT = {
    "name": "spot-east", "region": "east", "zone": "z", "leaf": "l", "instance_type": "gpu8", "capacity": "spot",
    "model": "H100-80", "gpus": 8, "price": "12.00", "launch_delay": "200ms", "available": 4,
}  # fmt: skip
WORLD = {
    "version": 1,
    "levels": ["zone", "leaf"],
    "nodes": [
        {"name": "n0", "model": "H100-80", "gpus": 8, "position": ["z", "l"], "capacity": "reserved", "region": "east"}
    ],
    "offerings": [SPOT, {**SPOT, "name": "spot-west", "region": "west", "zone": "w", "leaf": "w/l", "price": "13.00"}],
}


@pytest.fixture
def fleet(tmp_path: Path, database_url: str) -> Iterator[Played]:
    with played(tmp_path / "home", WORLD, database_url=database_url) as found:
        found.tick()
        yield found


def guarded(fleet: Played, *, idle_for: timedelta = timedelta(minutes=10), **guards: Any) -> Played:
    buying = BuyingPolicy(buy_after=timedelta(0), idle_for=idle_for, max_hourly=100)
    return replace(fleet, fleet=replace(fleet.fleet, buying=buying, guards=Guards(**guards)))


def machines(fleet: Played) -> list[str]:
    with fleet.fleet.database.read() as connection:
        return [i.offering for i in world.instances(connection)]


def audited(fleet: Played) -> list[str]:
    with fleet.fleet.database.read() as connection:
        return list(
            connection.execute(select(t.audit.c.action).where(t.audit.c.target.like("spot-%")).order_by("id")).scalars()
        )


def waits(fleet: Played, **asked: Any) -> str:
    """A job that only a purchase starts, after a few rounds."""
    job = fleet.submit(gpus=8, capacity=["spot"], **asked)
    for _ in range(3):
        fleet.tick()
    return job


def asked(fleet: Played) -> str:
    """The one purchase that waits."""
    (one,) = waiting_purchases(fleet.fleet)
    return str(one["purchase"])


BOUNDS = {
    "a budget of the day that is too small": Guards(daily=0),
    "a budget of the team that is too small": Guards(teams=(("vision", TeamGuard(daily=0)),)),
    "no more machines": Guards(max_instances=0),
    "no offering on the list": Guards(offerings=("on-demand-*",)),
    "no region on the list": Guards(regions=("north",)),
    "no type on the list": Guards(instance_types=("p5.*",)),
    "a team whose work must stay elsewhere": Guards(teams=(("vision", TeamGuard(regions=("eu",))),)),
}


@pytest.mark.parametrize("guards", BOUNDS.values(), ids=BOUNDS)
def test_a_bound_buys_nothing(fleet: Played, guards: Guards) -> None:
    bound = replace(guarded(fleet), fleet=replace(guarded(fleet).fleet, guards=guards))
    job = waits(bound)
    assert (bound.state(job), machines(bound), audited(bound)) == ("pending", [], [])


def test_inside_its_bounds_a_purchase_is_made_where_the_team_may_work(fleet: Played) -> None:
    bound = guarded(
        fleet, daily=1000, max_instances=1, offerings=("spot-*",), teams=(("vision", TeamGuard(400, ("west",))),)
    )
    bound.until(waits(bound), "running")
    assert machines(bound) == ["spot-west"]
    second = waits(bound)
    assert bound.state(second) == "pending" and machines(bound) == ["spot-west"]


def test_a_dry_run_writes_down_what_it_would_buy_once_and_buys_nothing(fleet: Played) -> None:
    dry = guarded(fleet, dry_run=True)
    waits(dry)
    assert (machines(dry), audited(dry), waiting_purchases(dry.fleet)) == ([], ["would-buy"], [])


# ------------------------------------------------------------------ a person's yes


def test_a_dear_purchase_waits_for_the_platform_and_is_made_after_its_yes(fleet: Played) -> None:
    bound = guarded(fleet, approve_above=10)
    job = waits(bound, runtime="2h")
    (told,) = waiting_purchases(bound.fleet)
    assert (told["job"], told["hourly"], told["total"], told["team"]) == (job, "12.00", "24.00", "vision")
    assert machines(bound) == [] and purchase_state(bound.fleet, told["purchase"])["state"] == "waiting"
    with pytest.raises(Forbidden, match="ada is not of the platform"):
        approve_purchase(bound.fleet, told["purchase"], ADA)
    assert approve_purchase(bound.fleet, told["purchase"], OPS) == "todo"
    bound.until(job, "running")
    assert approve_purchase(bound.fleet, told["purchase"], OPS) == "done"  # the same yes again changes nothing
    assert purchase_state(bound.fleet, told["purchase"])["state"] == "joined"
    assert audited(bound) == ["ask", "approve"] and machines(bound) == ["spot-east"]


def test_what_a_job_costs_in_all_may_need_a_yes_too(fleet: Played) -> None:
    bound = guarded(fleet, approve_total_above=20)
    waits(bound, runtime="1h")
    eventually(lambda: bound.tick() or machines(bound) == ["spot-east"])
    waits(bound, runtime="2h")
    assert len(waiting_purchases(bound.fleet)) == 1


def test_a_purchase_that_was_turned_down_is_not_asked_for_again_at_once(fleet: Played) -> None:
    bound = guarded(fleet, approve_above=10)
    job = waits(bound)
    name = asked(bound)
    turn_down_purchase(bound.fleet, name, OPS, "too dear")
    turn_down_purchase(bound.fleet, name, OPS)  # the same no again changes nothing
    for _ in range(3):
        bound.tick()
    assert (waiting_purchases(bound.fleet), machines(bound), bound.state(job)) == ([], [], "pending")
    assert purchase_state(bound.fleet, name) == {"state": "over", "machines": 0, "joined": 0, "why": "too dear"}
    with pytest.raises(Invalid, match="is over: too dear"):
        approve_purchase(bound.fleet, name, OPS)


def test_a_yes_that_comes_after_the_job_is_gone_buys_nothing(fleet: Played) -> None:
    from gpufleet.services.change_job import cancel_job

    bound = guarded(fleet, approve_above=10)
    job = waits(bound)
    name = asked(bound)
    cancel_job(bound.fleet, job, ADA)
    with pytest.raises(Invalid, match=f"cannot be made any more: job {job} does not wait any more"):
        approve_purchase(bound.fleet, name, OPS)
    bound.tick()
    assert machines(bound) == []


def test_a_purchase_whose_job_is_gone_waits_for_nobody(fleet: Played) -> None:
    from gpufleet.services.change_job import cancel_job

    bound = guarded(fleet, approve_above=10)
    cancel_job(bound.fleet, waits(bound), ADA)
    bound.tick()
    assert waiting_purchases(bound.fleet) == [] and audited(bound) == ["ask", "give-up"]


def test_a_yes_beyond_a_budget_that_is_used_up_meanwhile_buys_nothing(fleet: Played) -> None:
    waits(guarded(fleet, approve_above=10))
    poorer = guarded(fleet, approve_above=10, daily=0)
    with pytest.raises(Invalid, match="the budget of the day is used up"):
        approve_purchase(poorer.fleet, asked(poorer), OPS)


def test_each_purchase_is_asked_about_once_and_ends_when_nobody_answers(fleet: Played) -> None:
    bound = guarded(fleet, approve_above=10)
    waits(bound)
    assert len(ask_about(bound.fleet, "run-1")) == 1 == len(ask_about(bound.fleet, "run-1"))
    assert ask_about(bound.fleet, "run-2") == []
    late = guarded(fleet, approve_above=10, approval_for=timedelta(0))
    assert ask_about(late.fleet, "run-1") == [] == waiting_purchases(late.fleet)


def test_a_purchase_nobody_knows_is_not_found(fleet: Played) -> None:
    with pytest.raises(NotFound, match="there is no purchase 'buy/none'"):
        purchase_state(fleet.fleet, "buy/none")


# ------------------------------------------------------------------ giving back


def test_an_idle_machine_takes_no_more_work_and_goes_back(fleet: Played) -> None:
    bound = guarded(fleet, idle_for=timedelta(0))
    first = bound.submit(gpus=8, capacity=["spot"], command="true")
    bound.until(first, "succeeded")
    eventually(lambda: bound.tick() or not machines(bound))
    with bound.fleet.database.read() as connection:
        assert (
            connection.execute(select(t.audit.c.detail).where(t.audit.c.action == "release"))
            .scalars()
            .one()
            .endswith("stood idle")
        )


def test_a_machine_billed_by_the_hour_keeps_the_hour_that_is_paid(fleet: Played) -> None:
    bound = guarded(fleet, idle_for=timedelta(0), billed_by=(("sandbox", timedelta(hours=1)),))
    first = bound.submit(gpus=8, capacity=["spot"], command="true")
    bound.until(first, "succeeded")
    for _ in range(3):
        bound.tick()
    assert machines(bound) == ["spot-east"]


def test_a_machine_that_never_joins_is_given_back(fleet: Played) -> None:
    bound = guarded(fleet)
    waits(bound)
    eventually(lambda: bound.tick() or machines(bound))
    with bound.fleet.database.write() as connection:  # it was bought long ago, and its cluster never saw it
        connection.execute(update(t.instance).values(recorded_at=bound.fleet.clock.now() - timedelta(hours=1)))
        names = [i.name for i in world.instances(connection)]
        connection.execute(t.node.delete().where(t.node.c.name.in_(names)))
    from gpufleet.services.release_capacity import release_capacity

    release_capacity(bound.fleet, lambda: ())
    with bound.fleet.database.read() as connection:
        asked_back = connection.execute(select(t.operation.c.target).where(t.operation.c.kind == "release")).scalars()
        assert list(asked_back) == [f"instance/{name}" for name in names]


# ------------------------------------------------------------------ looking


def test_the_view_has_what_waits_the_money_and_a_portfolio(fleet: Played) -> None:
    bound = guarded(fleet, approve_above=10, daily=1000)
    waits(bound)
    view = capacity_view(bound.fleet)
    assert [one["team"] for one in view["waiting"]] == ["vision"]
    assert view["money"] == {"machines": 0, "hourly": "0.00", "today": "0.00", "daily": "1000"}
    assert view["portfolio"]["keeps_the_promise"] and view["portfolio"]["lines"]


def test_the_review_advises_a_commitment_where_a_service_needs_one_and_one_is_on_offer(fleet: Played) -> None:
    """Two whole nodes for a service: one is there, the second may be committed to, and inference never stands on spot."""
    fleet.submit(gpus=8, pods=2, kind="inference", priority=60)
    fleet.tick()
    without = capacity_view(fleet.fleet)["portfolio"]
    reserve = Offer("reserve-h100", CapacityType.RESERVED, "H100-80", 8, Fraction("4.30"), "east", most=4)
    with_it = capacity_view(replace(fleet.fleet, commitments=(reserve,)))["portfolio"]
    assert not without["keeps_the_promise"]
    assert with_it["keeps_the_promise"] and any("reserve-h100" in line for line in with_it["lines"])


def test_the_weekly_review_tells_how_busy_committed_nodes_were(fleet: Played) -> None:
    fleet.until(fleet.submit(gpus=8), "running")
    report = review_capacity(fleet.fleet)
    (node,) = report["committed"]
    assert (node["node"], node["capacity"]) == ("n0", "reserved") and 0 <= node["utilisation"] < 1
    assert report["portfolio"]["keeps_the_promise"] and report["owned"] is None


def test_the_weekly_review_weighs_owned_hardware_as_busy_as_it_was(tmp_path: Path) -> None:
    example = Path(__file__).parents[3] / "config" / "examples" / "break-even" / "on-demand.yaml"
    owned_node = {**WORLD["nodes"][0], "capacity": "owned"}  # type: ignore[index]
    with played(tmp_path / "home", {**WORLD, "nodes": [owned_node]}) as found:
        found.tick()
        (found.fleet.home / "ownership.yaml").write_text(example.read_text())
        owned = review_capacity(found.fleet)["owned"]
    assert (owned["months"], owned["utilisation"]) == ("14.90", 0.8)
    assert (owned["measured_utilisation"], owned["months_as_measured"]) == (0.0, "never within the horizon")


def test_the_commands_show_approve_and_turn_down(
    fleet: Played, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpufleet.commands import procurement

    bound = guarded(fleet, approve_above=10)
    waits(bound)
    procurement.plan(bound.fleet, as_json=False)
    told = capsys.readouterr().out
    assert (
        "waits for a yes: buy/demo-" in told and "1 x spot-east at 12.00/h" in told and "0 machines at 0.00/h" in told
    )
    monkeypatch.setenv("GPUFLEET_USER", "ops")
    procurement.approve(bound.fleet, asked(bound), as_json=False)
    assert ": joining, " in capsys.readouterr().out
    assert machines(bound) == ["spot-east"]
    waits(bound)
    procurement.reject(bound.fleet, asked(bound), "not today", as_json=False)
    assert "over, 0 of 0 machines at work not today" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("saved", "bought"),
    [(500 * GB, "spot-west"), (5 * GB, "spot-east"), (0, "spot-east")],
    ids=["much to fetch: where it lies", "little to fetch: where the hour is cheaper", "nothing saved yet"],
)
def test_a_purchase_is_weighed_with_what_its_data_costs_to_fetch(fleet: Played, saved: int, bought: str) -> None:
    """West costs a dollar an hour more for about a day; a GB from there to the east costs nine cents."""
    egress = Egress("sandbox", "west", other_region=Fraction("0.09"), other_cloud=Fraction("0.20"))
    told = replace(guarded(fleet).fleet, egress=egress)
    job = fleet.submit(gpus=8, capacity=["spot"])
    with fleet.fleet.database.write() as connection:
        if saved:
            now = fleet.fleet.clock.now()
            connection.execute(insert(t.checkpoint).values(job=job, attempt=1, step=5, at=now, bytes=saved))
    for _ in range(3):
        replace(fleet, fleet=told).tick()
    assert machines(fleet) == [bought]
