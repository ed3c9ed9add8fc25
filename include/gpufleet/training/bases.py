"""What an attempt resumes from: chosen once by rank 0, read by all, and the same again after a restart."""

from __future__ import annotations

from collections.abc import Callable

from gpufleet.training.clock import Clock, Patience
from gpufleet.training.environment import Environment
from gpufleet.training.errors import CheckpointError, WorldSizeChanged, note
from gpufleet.training.manifest import (
    Base,
    base_path,
    choose,
    dump_base,
    judge,
    parse_base,
    save_folder,
    sha256_of,
    shard_name,
)
from gpufleet.training.stores import Store


def choose_base(store: Store, place: Environment, clock: Clock) -> Base:
    """Rank 0's part. A base that is there already stays, even when newer saves exist by now."""
    if there := _read_base(store, place):
        return there
    found, skipped = choose(store, place.job, below=place.attempt, verify=True)
    manifest = found.manifest if found else None
    base = Base(
        job=place.job,
        attempt=place.attempt,
        base=manifest.ref if manifest else None,
        digest=manifest.digest if manifest else None,
        chosen_at=clock.now(),
        skipped=skipped,
    )
    for skip in skipped:
        note(f"skipped a save: {skip.why}")
    store.create(base_path(place.job, place.attempt), dump_base(base))
    # What counts is what is there now: another process may have been first.
    return _read_base(store, place) or base


def await_base(store: Store, place: Environment, patience: Patience, check: Callable[[], None]) -> Base:
    """The other ranks' part; *check* is called between looks and may end the process."""
    while not (base := _read_base(store, place)):
        check()
        if not patience.again():
            path = store.location(base_path(place.job, place.attempt))
            raise CheckpointError(f"Rank 0 did not write {path} in time; see its log for why.")
    return base


def read_part(store: Store, place: Environment, base: Base, rank: int | None) -> bytes | None:
    """One rank's part of the base, its hash checked; this rank's own when *rank* is None."""
    if base.base is None:
        return None
    folder = save_folder(place.job, base.base)
    manifest = judge(store, place.job, base.base, verify=False).manifest
    if manifest is None or manifest.digest != base.digest:
        raise CheckpointError(f"The save {folder} was removed or replaced since this attempt chose to resume from it.")
    if rank is None and manifest.world_size != place.world_size:
        raise WorldSizeChanged(
            f"The save {folder} is of {manifest.world_size} ranks and this attempt has {place.world_size}; when every"
            " rank holds the same state call restore(rank=0), else read the parts with restore(rank=r) and re-shard."
        )
    want = place.rank if rank is None else rank
    if not 0 <= want < manifest.world_size:
        raise ValueError(f"The save {folder} has the ranks 0 to {manifest.world_size - 1}; {want} is none of them.")
    data = store.read(f"{folder}/{shard_name(want)}")
    if data is None or sha256_of(data) != manifest.ranks[want].sha256:
        raise CheckpointError(f"{folder}/{shard_name(want)} does not match its sha256.")
    return data


def saved_world_size(store: Store, place: Environment, base: Base) -> int | None:
    """How many parts the base has."""
    if base.base is None:
        return None
    manifest = judge(store, place.job, base.base, verify=False).manifest
    return manifest.world_size if manifest else None


def _read_base(store: Store, place: Environment) -> Base | None:
    path = base_path(place.job, place.attempt)
    data = store.read(path)
    if data is None:
        return None
    try:
        base = parse_base(data, store.location(path))
    except ValueError as error:
        raise CheckpointError(f"{error} It is written once and cannot be made again; start a new attempt.") from error
    if (base.job, base.attempt) != (place.job, place.attempt):
        raise CheckpointError(f"{store.location(path)} is that of job {base.job}, attempt {base.attempt}.")
    return base
