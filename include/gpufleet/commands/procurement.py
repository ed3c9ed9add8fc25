"""Verbs about what capacity costs, on a file, and about what the fleet buys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.formats.break_even import break_even_lines, to_json
from gpufleet.formats.ownership import load_ownership
from gpufleet.procurement.break_even import break_even as when_paid_back
from gpufleet.procurement.sensitivity import claim, sensitivity

if TYPE_CHECKING:
    from gpufleet.services.fleet import Fleet


def break_even(source: Path, *, chart: Path | None, as_json: bool) -> int:
    """Owned hardware against the cloud, month by month; raises Invalid naming file, line and key."""
    asked = load_ownership(source)
    found, turned = when_paid_back(asked), sensitivity(asked)
    told = claim(asked, found)
    if chart is not None:
        from gpufleet.exports.break_even_chart import draw_break_even

        draw_break_even(asked, found, turned, chart)
    if as_json:
        print(json.dumps(to_json(asked, found, told, turned), indent=2))
    else:
        print("\n".join(break_even_lines(asked, found, told, turned)))
    return 0


# ------------------------------------------------------------------ on the live fleet


def plan(fleet: Fleet, *, as_json: bool) -> None:
    """What waits for a yes, what was bought, and the portfolio."""
    from gpufleet.services.review_capacity import capacity_view

    view = capacity_view(fleet)
    if as_json:
        print(json.dumps(view, indent=2))
        return
    for one in view["waiting"]:
        print(f"waits for a yes: {one['purchase']}: {one['told']} ({one['total']} in all; {one['why']})")
    money = view["money"]
    print(
        f"{money['machines']} machines at {money['hourly']}/h; today {money['today']} of {money['daily'] or 'no bound'}"
    )
    print("\n".join(view["portfolio"]["lines"]))


def approve(fleet: Fleet, name: str, *, as_json: bool) -> None:
    """Approve as GPUFLEET_USER."""
    from gpufleet.commands.live import me
    from gpufleet.services.approve_purchase import approve_purchase
    from gpufleet.services.prompt_tick import prompt_tick

    approve_purchase(fleet, name, me())
    prompt_tick(fleet)
    _say(fleet, name, as_json=as_json)


def reject(fleet: Fleet, name: str, why: str, *, as_json: bool) -> None:
    """Turn it down as GPUFLEET_USER."""
    from gpufleet.commands.live import me
    from gpufleet.services.approve_purchase import turn_down_purchase

    turn_down_purchase(fleet, name, me(), why)
    _say(fleet, name, as_json=as_json)


def _say(fleet: Fleet, name: str, *, as_json: bool) -> None:
    from gpufleet.services.approve_purchase import purchase_state

    state = {"purchase": name, **purchase_state(fleet, name)}
    told = f"{name}: {state['state']}, {state['joined']} of {state['machines']} machines at work {state['why']}"
    print(json.dumps(state, indent=2) if as_json else told.rstrip())
