"""Writing one save: every rank its part and a marker, rank 0 the manifest when all markers are there.

Between two saves the trainer has combined its wishes over all ranks, so when any rank begins a save every rank has
started and has left the save before. That is why old parts without a manifest can be removed without asking anyone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gpufleet.training.clock import Clock, Patience
from gpufleet.training.environment import Environment
from gpufleet.training.errors import SaveFailed, in_words, try_or_note
from gpufleet.training.manifest import (
    MANIFEST_NAME,
    Manifest,
    Marker,
    SaveRef,
    Shard,
    attempt_folder,
    dump_manifest,
    dump_marker,
    judge,
    manifest_path,
    marker_name,
    parse_marker,
    save_folder,
    sha256_of,
    shard_name,
    steps_among,
)
from gpufleet.training.stores import Store

PeerAlive = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Saved:
    """`size` in bytes (of all parts on rank 0, of its own part elsewhere); `request`: the newest request it answers."""

    size: int
    request: int


class Saver:
    """Saves of one rank in one attempt. *wait* bounds how long rank 0 waits for the others' markers."""

    def __init__(self, store: Store, place: Environment, clock: Clock, *, wait: float) -> None:
        self._store, self._place, self._clock, self._wait = store, place, clock, wait

    def clear_leftovers(self) -> None:
        """Remove what this rank left half done before a restart, lest rank 0 take an old marker for a new one."""
        for step in self._steps():
            ref = self._ref(step)
            if judge(self._store, self._place.job, ref, verify=False).manifest is None:
                self._remove_part(ref)

    def save(self, step: int, data: bytes, request: int, peer_alive: PeerAlive) -> Saved:
        """Raises whatever kept this rank from doing its part, after removing it."""
        ref = self._ref(step)
        if there := judge(self._store, self._place.job, ref, verify=False).manifest:
            # Saved before a restart of this attempt from the same base. Every rank sees it and leaves it alone.
            return Saved(there.size, request)
        self._make_room(max(1, self._place.keep - 1), step)
        try:
            marker = self._write_part(ref, data, request)
            saved = self._complete(ref, marker, peer_alive) if self._place.rank == 0 else Saved(len(data), request)
        except Exception as error:
            self._withdraw(ref, error)
            raise
        self._make_room(self._place.keep, step)
        return saved

    def _write_part(self, ref: SaveRef, data: bytes, request: int) -> Marker:
        folder, rank = save_folder(self._place.job, ref), self._place.rank
        self._store.write(f"{folder}/{shard_name(rank)}", data)
        shard = Shard(rank, shard_name(rank), sha256_of(data), len(data))
        marker = Marker(self._place.job, ref, shard, request)
        self._store.write(f"{folder}/{marker_name(rank)}", dump_marker(marker))
        return marker

    def _complete(self, ref: SaveRef, own: Marker, peer_alive: PeerAlive) -> Saved:
        markers = [own, *self._await_markers(ref, peer_alive)]
        shards = tuple(sorted((marker.shard for marker in markers), key=lambda shard: shard.rank))
        manifest = Manifest(self._place.job, ref, shards, self._clock.now())
        self._store.write(manifest_path(self._place.job, ref), dump_manifest(manifest))
        return Saved(manifest.size, max(marker.request for marker in markers))

    def _await_markers(self, ref: SaveRef, peer_alive: PeerAlive) -> Iterable[Marker]:
        patience = Patience.of(self._wait, self._clock)
        missing, markers = set(range(1, self._place.world_size)), list[Marker]()
        while True:
            # Asked before the look: a peer that stops writes its marker first and leaves then.
            gone = {rank for rank in missing if not peer_alive(rank)}
            there = set(self._store.names(save_folder(self._place.job, ref)))
            found = [self._marker(ref, rank) for rank in sorted(missing) if marker_name(rank) in there]
            markers += filter(None, found)
            missing -= {marker.shard.rank for marker in markers}
            if not missing:
                return markers
            if lost := gone & missing:
                raise SaveFailed(f"The part of rank {_listed(lost)} did not come: the process is gone.")
            if not patience.again():
                raise SaveFailed(f"The part of rank {_listed(missing)} was not there after {self._wait:g} s.")

    def _marker(self, ref: SaveRef, rank: int) -> Marker | None:
        path = f"{save_folder(self._place.job, ref)}/{marker_name(rank)}"
        try:
            marker = parse_marker(self._store.read(path) or b"", path)
        except ValueError:  # half written, on a store whose writes are not whole
            return None
        if marker.error:
            raise SaveFailed(f"Rank {rank} could not write its part: {marker.error}")
        return marker if (marker.job, marker.ref, marker.shard.rank) == (self._place.job, ref, rank) else None

    def _withdraw(self, ref: SaveRef, error: Exception) -> None:
        """Make room again, and tell rank 0 at once rather than let it wait. The store is in trouble: all may fail."""
        try_or_note("remove a part", lambda: self._remove_part(ref))
        if self._place.rank == 0:
            return
        shard = Shard(self._place.rank, shard_name(self._place.rank), sha256_of(b""), 0)
        marker = Marker(self._place.job, ref, shard, error=in_words(error))
        path = f"{save_folder(self._place.job, ref)}/{marker_name(self._place.rank)}"
        try_or_note("tell rank 0", lambda: self._store.write(path, dump_marker(marker)))

    def _remove_part(self, ref: SaveRef) -> None:
        folder = save_folder(self._place.job, ref)
        if self._place.rank == 0:  # a put that reported a failure may have landed all the same
            self._store.remove(manifest_path(self._place.job, ref))
        self._store.remove(f"{folder}/{marker_name(self._place.rank)}")
        self._store.remove(f"{folder}/{shard_name(self._place.rank)}")

    def _make_room(self, keep: int, step: int) -> None:
        """Rank 0 removes old saves, before a save as well, so that a disk with room for *keep* of them is enough."""
        if self._place.rank == 0:
            try_or_note("remove old saves", lambda: self._trim(keep, step))

    def _trim(self, keep: int, step: int) -> None:
        """Keep the newest complete saves and the one of *step*; unfinished ones are of no use to anyone."""
        steps = self._steps()
        complete = [old for old in steps if MANIFEST_NAME in self._store.names(self._folder(old))]
        others = [old for old in complete if old != step]
        spared = {step, *others[: keep - (step in complete)]}
        for old in steps:
            if old not in spared:
                self._store.remove_save(self._folder(old))

    def _steps(self) -> list[int]:
        return steps_among(self._store.names(attempt_folder(self._place.job, self._place.attempt)))

    def _ref(self, step: int) -> SaveRef:
        return SaveRef(self._place.attempt, step)

    def _folder(self, step: int) -> str:
        return save_folder(self._place.job, self._ref(step))


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
