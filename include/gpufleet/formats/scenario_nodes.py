"""Nodes and queues of a scenario file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpufleet.errors import Invalid
from gpufleet.formats.cell import Cell, Fields, unique
from gpufleet.model.capacity import CapacityType
from gpufleet.model.catalogue import gpu_model, gpu_models
from gpufleet.model.hardware import (
    MOST_GPUS,
    Device,
    GpuModel,
    Link,
    MigInstance,
    MigRemake,
    Node,
    NodeState,
    illegal_layout,
)
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.units import NO_GPU, GpuAmount, total

NODE_KEYS = (
    "name",
    "count",
    "model",
    "gpus",
    "path",
    "capacity",
    "link",
    "mig",
    "layout",
    "unhealthy",
    "sharing",
    "state",
    "cpu",
    "memory_gib",
)
QUEUE_KEYS = ("name", "parent", "deserved", "limit", "weight", "min_runtime", "used_lately")
ROOT = "root"
MOST_NODES = 100_000
"""A template that makes more, or a node with more, is a typing error, and would only exhaust the memory."""
MOST_GPUS_IN_ALL = 1_000_000
MOST_LEVELS = 20
"""A deeper tree of queues is nobody's organisation."""


def read_nodes(cells: list[Cell], levels: tuple[str, ...]) -> tuple[Node, ...]:
    """All nodes, templates written out."""
    _check_size(cells)
    found = [(node, cell) for cell in cells for node in _template(cell, levels)]
    unique([(node.name, cell) for node, cell in found], "node")
    return tuple(node for node, _ in found)


def _check_size(cells: list[Cell]) -> None:
    """Before a node is made: there are not too many of them."""
    nodes = gpus = 0
    for cell in cells:
        fields = cell.fields(NODE_KEYS)
        count = fields.get("count", lambda c: c.at_most(MOST_NODES, 1), 1)
        nodes, gpus = nodes + count, gpus + count * fields["gpus"].at_most(MOST_GPUS)
        if nodes > MOST_NODES or gpus > MOST_GPUS_IN_ALL:
            raise cell.wrong(f"more than {MOST_NODES} nodes in all, or more than {MOST_GPUS_IN_ALL} GPUs in all.")


def _template(cell: Cell, levels: tuple[str, ...]) -> list[Node]:
    fields = cell.fields(NODE_KEYS)
    name = fields["name"].text()
    if "count" not in fields:
        return [_node(fields, name, levels)]
    count = fields["count"].at_most(MOST_NODES, 1)
    if "{}" not in name:
        raise fields["name"].wrong(f"'{name}' with a count must contain {{}} for the number.")
    first = _node(fields, name.replace("{}", "0"), levels)
    return [first, *(_renamed(first, name.replace("{}", str(i))) for i in range(1, count))]


def _renamed(node: Node, name: str) -> Node:
    return Node(
        name,
        node.model,
        node.devices,
        node.position,
        node.capacity,
        node.state,
        node.link,
        node.mig,
        node.sharing,
        node.exactness,
        node.cpu,
        node.memory_mib,
    )


def _node(fields: Fields, name: str, levels: tuple[str, ...]) -> Node:
    model = read_model(fields["model"])
    gpus = fields["gpus"].at_most(MOST_GPUS)
    mig = fields.get("mig", lambda c: c.choice(MigRemake), MigRemake.SLICE if model.profiles else MigRemake.NEVER)
    cpu = fields.get("cpu", lambda c: float(c.number()), None)
    return Node(
        name=name,
        model=model,
        devices=_devices(fields, name, model, gpus),
        position=_path(fields, levels),
        capacity=fields.get("capacity", lambda c: c.choice(CapacityType), CapacityType.OWNED),
        state=fields.get("state", lambda c: c.choice(NodeState), NodeState.READY),
        link=fields.get("link", lambda c: c.choice(Link), model.link),
        mig=mig,
        sharing=fields.get("sharing", Cell.boolean, True),
        cpu=cpu,
        memory_mib=fields.get("memory_gib", Cell.mib, None),
    )


def read_model(cell: Cell) -> GpuModel:
    try:
        return gpu_model(cell.text())
    except Invalid as why:
        raise cell.wrong(str(why)) from None


def _path(fields: Fields, levels: tuple[str, ...]) -> tuple[str, ...]:
    path = fields.get("path", lambda c: tuple("" if v.is_empty or v.raw == "" else v.text() for v in c.cells()), ())
    if len(path) > len(levels):
        raise fields["path"].wrong(f"has {len(path)} parts, the file names {len(levels)} levels.")
    return path


def _devices(fields: Fields, name: str, model: GpuModel, gpus: int) -> tuple[Device, ...]:
    layout = _layout(fields["layout"], name, model, gpus) if "layout" in fields else {}
    sick = {gpu_index(c, name, gpus) for c in fields.cells("unhealthy")}
    return tuple(Device(i, layout.get(i, ()), i not in sick) for i in range(gpus))


def gpu_index(cell: Cell, node: str, gpus: int) -> int:
    """The number of a GPU the node has."""
    found = int(cell.number())  # a key of a JSON object is text
    if found >= gpus or found != cell.number():
        raise cell.wrong(f"{node} has no GPU {found}; it has {gpus}, numbered from 0.")
    return found


def _layout(cell: Cell, node: str, model: GpuModel, gpus: int) -> dict[int, tuple[MigInstance, ...]]:
    found = {}
    for key, value in cell.pairs():
        instances = tuple(read_instance(c) for c in value.cells())
        if why := illegal_layout(model, instances):
            raise value.wrong(f"{node} cannot have this layout: {why}.")
        found[gpu_index(key, node, gpus)] = instances
    return found


def read_instance(cell: Cell) -> MigInstance:
    """`profile@start`."""
    profile, at, start = cell.text().rpartition("@")
    if not at or not start.isdecimal() or len(start) > 3:
        raise cell.wrong(f"{cell.shown} is not a MIG instance; write it as 1g.10gb@6.")
    return MigInstance(int(start), profile)


# ---------------------------------------------------------------- queues


def read_queues(cells: list[Cell], before: Iterable[Queue] = ()) -> tuple[Queue, ...]:
    """All queues; parents exist and there is no cycle. One that was there before keeps what its cell does not say."""
    by_name = {q.name: q for q in before}
    found = [(_queue(cell, by_name), cell) for cell in cells]
    unique([(q.name, cell) for q, cell in found], "queue")
    by_name |= {q.name: q for q, _ in found}
    for queue, cell in found:
        _check_parents(queue, by_name, cell)
    return tuple(by_name.values())


def _queue(cell: Cell, before: Mapping[str, Queue]) -> Queue:
    fields = cell.fields(QUEUE_KEYS)
    name = fields["name"].text()
    if name == ROOT:
        raise fields["name"].wrong("'root' is the root of all queues and cannot be declared.")
    old = before.get(name, Queue(name))
    parent = fields.get("parent", Cell.text, old.parent)
    queue = Queue(
        name,
        None if parent == ROOT else parent,
        fields.get("deserved", _amounts, old.deserved),
        fields.get("limit", _amounts, old.limit),
        fields.get("weight", lambda c: float(c.number()), old.weight),
        fields.get("min_runtime", Cell.span, old.min_runtime),
        fields.get("used_lately", _share, old.used_lately),
    )
    _check_limits(queue, fields)
    return queue


def _share(cell: Cell) -> float:
    """A part of the whole, from 0 to 1."""
    found = cell.number()
    if found > 1:
        raise cell.wrong(f"must be a share from 0 to 1, not {cell.raw}.")
    return float(found)


def _check_limits(queue: Queue, fields: Fields) -> None:
    """No limit is below what is deserved under the same key; the limit of `*` bounds the models together."""
    deserved = dict(queue.deserved)
    together = total(amount for key, amount in queue.deserved if key != ANY_MODEL)
    for key, most in queue.limit:
        due = max(together, deserved.get(key, NO_GPU)) if key == ANY_MODEL else deserved.get(key, NO_GPU)
        if most < due:
            raise fields["limit" if "limit" in fields else "deserved"].wrong(
                f"queue '{queue.name}' deserves {due} of {key} but its limit is {most}."
            )


def _amounts(cell: Cell) -> tuple[tuple[str, GpuAmount], ...]:
    """GPUs by model and `*`."""
    found = []
    for key, value in cell.pairs():
        if key.raw != ANY_MODEL and key.raw not in gpu_models():
            raise value.wrong(f"{key.shown} is neither * nor a GPU model; known are {', '.join(sorted(gpu_models()))}.")
        try:
            found.append((key.text(), GpuAmount.of(value.number())))
        except Invalid as why:
            raise value.wrong(str(why)) from None
    return tuple(sorted(found))


def _check_parents(queue: Queue, by_name: dict[str, Queue], cell: Cell) -> None:
    seen, here = [queue.name], queue
    while here.parent is not None:
        if here.parent not in by_name:
            raise cell.wrong(f"queue '{here.name}' has the parent '{here.parent}', which does not exist.")
        here = by_name[here.parent]
        if here.name in seen:
            raise cell.wrong(f"queue '{queue.name}' is its own ancestor: {' -> '.join([*seen, here.name])}.")
        seen.append(here.name)
        if len(seen) > MOST_LEVELS:
            raise cell.wrong(f"queue '{queue.name}' is more than {MOST_LEVELS} levels deep.")
