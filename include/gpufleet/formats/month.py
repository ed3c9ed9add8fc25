"""A month and a reconciliation as lines for a person; no colours, so they read the same in a log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpufleet.model.statement import MONEY, hours, money

NANO_DIGITS: Final = 9


def month_lines(view: Mapping[str, Any]) -> list[str]:
    """One line a team and project, then what stays with the platform, then budgets and closes."""
    decimals = view["decimals"]
    lines = [f"{view['month']}, {view['standing']}, in {view['currency']}, up to {view['to']} (not included)"]
    lines.append(_cells("team", "project", "GPU-hours", *MONEY))
    for (team, project), sums in sorted(_by_project(view["rows"]).items()):
        amounts = (money(sums[name], decimals) for name in MONEY)
        lines.append(_cells(team, project or "-", hours(sums["hours"])[:-3], *amounts))
    lines.append(f"idle, kept by the platform: {money(view['idle_cost'], decimals)}")
    lines.append(f"commitments that nobody used: {money(view['unused_cost'], decimals)}")
    lines.append(f"total: {money(view['total'], decimals)} {view['currency']}")
    lines += [_wasted(w) for w in view["wasted"]]
    lines += [_budget(b, decimals) for b in view["budgets"] if b["budget"] is not None]
    return lines + [_close(c) for c in view["closes"]]


def reconciliation_lines(report: Mapping[str, Any]) -> list[str]:
    """Counts, what differs machine by machine, and what was booked."""
    counts = report["counts"]
    final = "issued" if report["final"] else "not issued yet, its lines may still change"
    lines = [
        f"{report['month']}, {report['provider']}, in {report['currency']}: the invoice is {final}",
        f"machine days: {counts['matched']} matched, {counts['price']} at another price, "
        f"{counts['only-ours']} only ours, {counts['only-theirs']} only theirs",
    ]
    for one in report["differences"]:
        ours, theirs = (_nano(one[key]) if one[key] is not None else "-" for key in ("ours_nano", "theirs_nano"))
        lines.append(f"{one['day']}  {one['verdict']:11}  {one['machine']}: ours {ours}, theirs {theirs}")
    lines += [f"{kind}, of no machine: {_nano(amount)}" for kind, amount in report["beside_nano"].items()]
    ours, theirs, booked = (_nano(report[key]) for key in ("ours_nano", "theirs_nano", "adjusted_nano"))
    return [*lines, f"ours {ours} + adjustments {booked} = invoice {theirs}"]


def _by_project(rows: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, int]]:
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        sums = found.setdefault((row["team"], row["project"]), dict.fromkeys(("hours", *MONEY), 0))
        sums["hours"] += row["guaranteed_hours"] + row["over_quota_hours"]
        for name in MONEY:
            sums[name] += row[name]
    return found


def _cells(team: str, project: str, *numbers: str) -> str:
    return f"{team:16} {project:16} " + " ".join(f"{n:>12}" for n in numbers)


def _nano(amount: int) -> str:
    """All nine decimals, without the zeros that say nothing, at least two."""
    whole, _, rest = money(amount, NANO_DIGITS).partition(".")
    return f"{whole}.{rest.rstrip('0'):0<2}"


def _wasted(told: Mapping[str, Any]) -> str:
    """Exact amounts, cut down to what people read."""
    held, cost = (
        {kind: _nano(told[f"{kind}_{what}"]) for kind in ("lost", "idle", "over")} for what in ("hours", "cost")
    )
    return (
        f"wasted by {told['team']}: {held['lost']} GPU-hours lost ({cost['lost']}), "
        f"{held['idle']} held and not busy ({cost['idle']}), {held['over']} asked for beyond the need ({cost['over']})"
    )


def _budget(told: Mapping[str, Any], decimals: int) -> str:
    actual, forecast, budget = (money(told[key], decimals) for key in ("actual", "forecast", "budget"))
    how = "over it" if told["actual"] > told["budget"] else "within it"
    if told["actual"] <= told["budget"] < told["forecast"]:
        how = "will be over it"
    return f"budget of {told['team']}: {actual} of {budget}, {forecast} expected: {how}"


def _close(told: Mapping[str, Any]) -> str:
    again = f"; re-opened by {told['reopened_by']}: {told['why']}" if told["reopened_by"] else ""
    return f"closed by {told['closed_by']} at {told['closed_at']}, sha256 {told['sha256']}{again}"
