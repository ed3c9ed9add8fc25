"""Train a digits classifier on several processes: `python -m gpufleet.training.examples.digits --steps 200 --seed 1`.

Interrupted and resumed as often as you like, it ends with the same weights, to the last bit.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np

from gpufleet.training import Run, Wish, start
from gpufleet.training.clock import CLOCK
from gpufleet.training.examples.group import Group, PeerGone
from gpufleet.training.examples.joining import Seat, join, read_seat
from gpufleet.training.examples.model import State, accuracy, dump_weights, gradient_of, load_digits
from gpufleet.training.manifest import sha256_of

PEER_GONE: Final = 75
"""EX_TEMPFAIL: nothing is wrong with this rank, and another attempt may well succeed."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    run, seat = start(total_steps=options.steps), read_seat(os.environ)
    try:
        with closing(join(seat, seconds=options.join_seconds, leave=lambda: _leave_when_stopped(run))) as group:
            state = train(run, seat, group, options)
    except PeerGone as error:
        print(f"rank {seat.rank}: {error}; leaving, so that a new attempt can start", file=sys.stderr, flush=True)
        return PEER_GONE
    if seat.rank == 0:
        _hand_in(run, state, options.out)
    run.finish(state.step)
    return 0


def train(run: Run, seat: Seat, group: Group, options: argparse.Namespace) -> State:
    """The loop: part of a gradient, sum over the ranks, step, and what the largest wish of all says."""
    digits = load_digits().training
    saved = run.restore()
    state = State.parse(saved) if saved else State.fresh(options.seed)
    while state.step < options.steps:
        rows = state.draw(len(digits.labels))[seat.rank :: seat.world_size]
        gradient, loss = gradient_of(state.weights, digits.part(rows))
        CLOCK.sleep(options.step_seconds)
        total, wish = group.total(np.append(gradient, loss), run.wish())
        state.apply(total[:-1])
        run.progress(state.step, loss=total[-1])
        if wish >= Wish.SAVE:
            run.save(state.step, state.dump(), peer_alive=group.alive)
        if wish is Wish.STOP:
            run.stopped()
    return state


def _leave_when_stopped(run: Run) -> None:
    if run.wish() is Wish.STOP:
        run.stopped()


def _hand_in(run: Run, state: State, out: Path | None) -> None:
    weights = dump_weights(state.weights)
    if out:
        out.write_bytes(weights)
    if where := run.publish("weights.bin", weights):
        print(f"weights at {where}")
    print(f"weights sha256={sha256_of(weights)}")
    print(f"accuracy={accuracy(state.weights, load_digits().test):.4f}", flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="digits", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, required=True, help="steps in all, those of earlier attempts included")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-seconds", type=float, default=0.0, help="pretend that a step takes so much longer")
    parser.add_argument("--join-seconds", type=float, default=60.0, help="how long to wait for the other ranks")
    parser.add_argument("--out", type=Path, help="also write the weights here")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
