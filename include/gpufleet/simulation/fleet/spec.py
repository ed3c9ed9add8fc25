"""What is simulated. Durations are seconds; every default is a stated assumption (docs/benchmarks.md)."""

from __future__ import annotations

from dataclasses import dataclass, field

HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Equal nodes, so many to a leaf."""

    nodes: int = 16
    model: str = "H100-80"
    gpus: int = 8
    per_leaf: int = 4

    @property
    def total(self) -> int:
        return self.nodes * self.gpus


@dataclass(frozen=True, slots=True)
class Training:
    """Jobs drawn from (duration, GPUs) pairs; some of the 8-GPU jobs become gangs of several nodes."""

    tail: tuple[tuple[int, float], ...] = ((16, 0.25), (32, 0.15), (64, 0.10))
    longest: float = 3 * DAY
    checkpointable: float = 0.9
    """Part of the jobs that save at all."""
    intervals: tuple[float, ...] = (600.0, 1200.0, 1800.0, 3600.0)
    declared: float = 5.0
    """Declared runtime = true runtime x U(1, declared)."""
    pod: int = 8
    """Most GPUs of one pod: 8 = a pod per node, 1 = a pod per GPU."""


@dataclass(frozen=True, slots=True)
class Serving:
    """Replicas that ask for a slice of a card: what a service needs, and how long a replica lives."""

    needs: tuple[tuple[float, float, float], ...] = ()
    """(part of the replicas, part of the card's memory, part of its compute) it needs."""
    life: float = 4 * HOUR
    swing: float = 0.35
    """The arrival rate over the day: 1 + swing x sin."""
    sized: bool = True
    """Replicas take traffic until they fill the smallest slice that holds them (`serving.sized`)."""
    fill: float = 0.92
    """Of a slice's compute that a sized replica fills at most."""
    margin: float = 0.10
    """Of memory asked on top of the estimate. Zero kills need margin >= the largest error: 3.3 standard deviations here."""
    error: float = 0.03
    """Standard deviation of the memory estimate."""
    clip: float = 0.10
    """The largest error of the estimate, either way."""
    first: bool = True
    """Baselines: replicas go before training, by their priority class. False: all as they came."""
    restart: float = 60.0
    """A replica that is moved or stopped serves nobody for so long."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The communication model: factors on the run time."""

    leaf: float = 1.1
    """A job on more leaves than it needs."""
    scattered: float = 1.3
    """A job on more nodes than it needs."""
    restart: float = 300.0
    """After every stop."""
    move: float = 60.0
    """A planned move, before the restart."""
    evict: float = 30.0
    """Until a place is free whose holder is stopped: the grace in which it may save."""
    convert: float = 10.0
    """Until a card that was whole can be cut, or the other way round: MIG mode is set per card, as on Hopper."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Nodes that go and come back. Off unless `every` is given."""

    every: float = 0.0
    """Mean seconds between two losses of one node; 0: nodes never go."""
    away: float = 2 * HOUR
    """Until it is there again."""
    noticed: float = 0.0
    """Part of the losses that come with a notice (spot reclaims); jobs there save at once."""
    notice: float = 120.0
    """Between notice and loss."""


@dataclass(frozen=True, slots=True)
class Spec:
    """One experiment. `load` = offered work over capacity until the last arrival."""

    fleet: Fleet = Fleet()
    jobs: int = 1200
    load: float = 1.1
    training_share: float = 1.0
    """Part of the offered work that is training; the rest is serving."""
    training: Training = Training()
    serving: Serving = Serving()
    speed: Speed = Speed()
    faults: Faults = Faults()
    warmup: float = 0.0
    """Utilisation, its bound and the waits are counted from here on: filling an empty fleet is not what is asked."""
    moves: float | None = None
    """Ours: pods that may be moved in all, as a part of the pods placed so far. None: as many as the policy allows."""
    release: float | None = None
    """Baselines: a gang that is not whole after so many seconds gives its GPUs back. None: it holds them for ever."""
    teams: tuple[tuple[float, float], ...] = ()
    """(part of the training work, GPUs deserved) of each team; none = one queue for all training."""
    pairs: tuple[tuple[float, int], ...] = field(default=(), repr=False)
    """(duration, GPUs) that training jobs are drawn from."""
