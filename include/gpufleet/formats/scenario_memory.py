"""What a scenario file says of measured memory (docs/formats-memory.md): runs, and asks that refer to them."""

from __future__ import annotations

from gpufleet.formats.cell import Cell
from gpufleet.model.workload import Kind, Workload
from gpufleet.placement.memory import Measured, MemoryPoint, Need, Unknown, need

Points = tuple[MemoryPoint, ...]

SIZES = ("batch", "sequence")
POINT_KEYS = ("workload", *SIZES, "peak_gib", "measured", "killed", "source")


def read_points(cells: list[Cell]) -> Points:
    """The measured runs of a file."""
    return tuple(map(_point, cells))


def _point(cell: Cell) -> MemoryPoint:
    fields = cell.fields(POINT_KEYS)
    peak = fields["peak_gib"].mib()
    if not peak:
        raise fields["peak_gib"].wrong("a run used more than 0 GiB.")
    return MemoryPoint(
        _workload(cell, POINT_KEYS),
        peak,
        fields.get("measured", lambda c: c.choice(Measured), Measured.ALLOCATOR),
        fields.get("killed", Cell.boolean, False),
        fields.get("source", Cell.text, ""),
    )


def _workload(cell: Cell, known: tuple[str, ...]) -> Workload:
    fields = cell.fields(known)
    batch, sequence = (fields.get(key, lambda c: c.integer(1), 1) for key in SIZES)
    return Workload(fields["workload"].text(), batch, sequence)


def like(cell: Cell, kind: Kind, points: Points) -> Need:
    """What a pod needs that is like a measured workload; raises Invalid with what to do where that is not known."""
    found = need(points, _workload(cell, ("workload", *SIZES)), kind)
    if isinstance(found, Unknown):
        raise cell.wrong(found.why)
    return found
