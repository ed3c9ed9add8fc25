"""What a change would make different on the live fleet as it stands. Changes nothing."""

from __future__ import annotations

from pathlib import Path

from gpufleet.formats.change import load_change
from gpufleet.model.snapshot import Snapshot
from gpufleet.scheduling import Difference
from gpufleet.scheduling import what_if as decide
from gpufleet.services.fleet import Fleet
from gpufleet.services.frozen import frozen


def what_if(fleet: Fleet, change: Path) -> tuple[Snapshot, Difference]:
    """The fleet of this moment, and the difference that the change file makes to its next plan."""
    now = fleet.clock.now()
    with fleet.database.read() as connection:
        snapshot = frozen(connection, fleet, now)
    return snapshot, decide(snapshot, load_change(change, snapshot), fleet.scheduling, now)
