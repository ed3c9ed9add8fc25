"""What to do next about a node whose MIG layout shall change. Pure: what is seen goes in, one step comes out.

True limits of the MIG manager: it neither cordons nor drains; it clears every GPU whose profiles change; a change of MIG
mode on Ampere resets all GPUs of the node; while it works the node shows no GPU resource at all; when a pod it waits for
does not go it stays `pending` for ever, and when an instance is in use it says `failed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gpufleet.clusters.kubernetes.mig.layouts import Layout
from gpufleet.model.hardware import MigRemake

AMPERE: Final = 8
"""Major compute capability: up to it a change of MIG mode resets the whole node."""
STUCK_AFTER: Final = timedelta(minutes=30)
"""The manager waits up to five minutes for each of its six operands, then works."""
SETTLE: Final = timedelta(seconds=30)
"""After the label was set an old `success`, or `failed`, may still stand there."""
VERIFY_WITHIN: Final = timedelta(minutes=5)
"""From `success` until the restarted device plugin shows what is there."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod with GPUs of the node. `gpus` is None where nobody told which ones."""

    name: str
    namespace: str
    gpus: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change of ours under way, as the node's annotation remembers it."""

    config: str
    cordoned_by_us: bool
    labelled_at: datetime | None = None
    succeeded_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as the API shows it. `offers` is what is allocatable of GPU resources, without zeros."""

    name: str
    capability: int
    strategy: str
    cordoned: bool
    config: str
    state: str
    offers: Mapping[str, int]
    now_has: Layout
    holders: tuple[Holder, ...] = ()
    known_configs: frozenset[str] = frozenset()
    change: Change | None = None
    remake: MigRemake = MigRemake.EMPTY_GPU


@dataclass(frozen=True, slots=True)
class Cordon:
    """Let nothing new start there, and remember that it was us."""

    change: Change


@dataclass(frozen=True, slots=True)
class Publish:
    """The MIG manager does not know the layout yet: write it into its file."""

    layout: Layout


@dataclass(frozen=True, slots=True)
class Drain:
    """End these pods, those of ours by their attempts (checkpoint first), those of others by eviction."""

    pods: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Label:
    """Ask the MIG manager for the layout."""

    config: str
    change: Change


@dataclass(frozen=True, slots=True)
class Note:
    """Remember when the manager said `success`, or that it no longer does."""

    change: Change


@dataclass(frozen=True, slots=True)
class Uncordon:
    """It is verified: let pods start there again (where it was us who kept them away), and forget the change."""

    open: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    why: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The node stays cordoned: a person must look."""

    why: str


@dataclass(frozen=True, slots=True)
class Done:
    """The node has the layout and serves."""


Step = Cordon | Publish | Drain | Label | Note | Uncordon | Waiting | Failed | Done


def next_step(wanted: Layout, seen: NodeSeen, now: datetime) -> Step:
    """Raises Refused for a layout that the node's MIG strategy cannot show."""
    expected = wanted.resources(single=seen.strategy == "single")
    if refusal := _impossible(wanted, seen):
        return Failed(refusal)
    change = seen.change
    if change is None and seen.offers == expected and seen.now_has == wanted:
        return Done()
    if change is None or change.config != wanted.name:
        return _begin(wanted, seen, change)
    if change.labelled_at is None:
        return _clear_the_way(wanted, seen, change, now)
    return _follow(wanted, expected, seen, change, now)


def _impossible(wanted: Layout, seen: NodeSeen) -> str | None:
    if seen.remake is MigRemake.NEVER:
        return f"The MIG layout of node {seen.name} is never remade."
    if len(wanted.gpus) != len(seen.now_has.gpus):
        return f"Node {seen.name} has {len(seen.now_has.gpus)} GPUs; the layout is for {len(wanted.gpus)}."
    return None


def _begin(wanted: Layout, seen: NodeSeen, before: Change | None) -> Step:
    """A change that another one overtakes is not forgotten: who cordoned stays known."""
    at_work = before is not None and before.labelled_at is not None and seen.state != "failed"
    if at_work or seen.state in ("pending", "rebooting"):
        return Waiting(f"node {seen.name} is still at an earlier MIG change ({seen.state})")
    ours = before.cordoned_by_us if before else not seen.cordoned
    return Cordon(Change(wanted.name, cordoned_by_us=ours))


def _clear_the_way(wanted: Layout, seen: NodeSeen, change: Change, now: datetime) -> Step:
    if not seen.cordoned:
        return Cordon(change)
    if wanted.name not in seen.known_configs:
        return Publish(wanted)
    if in_the_way := tuple(h for h in seen.holders if _stands_in(h, scope(wanted, seen))):
        return Drain(in_the_way)
    return Label(wanted.name, Change(wanted.name, change.cordoned_by_us, labelled_at=now))


def scope(wanted: Layout, seen: NodeSeen) -> frozenset[int]:
    """The GPUs that must be empty: those that change, or all where a change of mode resets the node."""
    changing = {n for n, (has, wants) in enumerate(zip(seen.now_has.gpus, wanted.gpus, strict=True)) if has != wants}
    switching = any(bool(seen.now_has.gpus[n]) != bool(wanted.gpus[n]) for n in changing)
    whole_node = seen.remake is MigRemake.EMPTY_NODE or (switching and seen.capability <= AMPERE)
    return frozenset(range(len(wanted.gpus))) if whole_node else frozenset(changing)


def _stands_in(holder: Holder, gpus: frozenset[int]) -> bool:
    """Where nobody told which GPU a pod has, it may be any."""
    return bool(gpus) if holder.gpus is None else bool(holder.gpus & gpus)


def _follow(wanted: Layout, expected: Mapping[str, int], seen: NodeSeen, change: Change, now: datetime) -> Step:
    since = now - change.labelled_at if change.labelled_at else timedelta(0)
    if seen.config != wanted.name:
        return Failed(f"somebody set the MIG label of node {seen.name} to '{seen.config}' while we changed it")
    if seen.state == "failed" and since >= SETTLE:
        return Failed(f"the MIG manager failed on node {seen.name}: an instance was in use, or a reset did not work")
    if seen.state != "success":
        return _wait(seen, since) if change.succeeded_at is None else Note(replace(change, succeeded_at=None))
    if since < SETTLE and seen.offers != expected:
        return Waiting(f"node {seen.name}: the MIG manager has not begun yet")
    if change.succeeded_at is None:
        return Note(replace(change, succeeded_at=now))
    if seen.offers != expected:
        return _unverified(expected, seen, now - change.succeeded_at)
    return Uncordon(open=change.cordoned_by_us) if since >= SETTLE else Waiting(f"node {seen.name} settles")


def _wait(seen: NodeSeen, since: timedelta) -> Step:
    if since > STUCK_AFTER:
        return Failed(
            f"the MIG manager of node {seen.name} is '{seen.state or 'silent'}' for {since // timedelta(minutes=1)} min: "
            "one of its operands did not leave; restart its pod on that node"
        )
    return Waiting(f"node {seen.name}: the MIG manager is {seen.state or 'not heard yet'}; its GPUs are away meanwhile")


def _unverified(expected: Mapping[str, int], seen: NodeSeen, since: timedelta) -> Step:
    if since <= VERIFY_WITHIN:
        return Waiting(f"node {seen.name}: the device plugin has not shown the new layout yet")
    return Failed(f"node {seen.name} offers {_told(seen.offers)} where {_told(expected)} should be")


def _told(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(resources.items())) or "no GPU"
