"""Verbs about what capacity costs that work on files and need no fleet."""

from __future__ import annotations

import json
from pathlib import Path

from gpufleet.formats.break_even import break_even_lines, to_json
from gpufleet.formats.ownership import load_ownership
from gpufleet.procurement.break_even import break_even as when_paid_back
from gpufleet.procurement.sensitivity import claim, sensitivity


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
