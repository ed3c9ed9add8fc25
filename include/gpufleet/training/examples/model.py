"""A small network for scikit-learn's handwritten digits, with a training state that is saved to the last bit."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

LAYERS: Final = (64, 32, 10)
BATCH: Final = 128
"""Samples of one step over all ranks together."""
_RATE: Final = 0.1
_MOMENTUM: Final = 0.9
_TEST: Final = 297
"""Samples kept out of training, the last of the 1797."""

PARAMETERS: Final = sum((wide + 1) * narrow for wide, narrow in pairwise(LAYERS))


@dataclass(frozen=True, slots=True)
class Digits:
    """Pixels between 0 and 1, one row a digit, and which digit it is."""

    pixels: Vector
    labels: npt.NDArray[np.int64]

    def part(self, rows: slice | npt.NDArray[np.int64]) -> Digits:
        return Digits(self.pixels[rows], self.labels[rows])

    @property
    def training(self) -> Digits:
        return self.part(slice(0, -_TEST))

    @property
    def test(self) -> Digits:
        return self.part(slice(-_TEST, None))


def load_digits() -> Digits:
    """Read the data file that comes with scikit-learn, without importing it: that takes seconds in every rank."""
    package = importlib.util.find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise SystemExit("The digits come with scikit-learn: pip install scikit-learn.")
    rows = np.loadtxt(Path(package.submodule_search_locations[0], "datasets/data/digits.csv.gz"), delimiter=",")
    return Digits(rows[:, :-1] / 16, rows[:, -1].astype(np.int64))


@dataclass(slots=True)
class State:
    """All that decides the next step. Every rank holds the same."""

    step: int
    weights: Vector
    momentum: Vector
    random: np.random.Generator

    @classmethod
    def fresh(cls, seed: int) -> State:
        random = np.random.default_rng(seed)
        return cls(0, random.normal(0, 0.1, PARAMETERS), np.zeros(PARAMETERS), random)

    def draw(self, samples: int) -> npt.NDArray[np.int64]:
        """The rows of the next batch, the same on all ranks."""
        return self.random.integers(0, samples, BATCH)

    def apply(self, gradient: Vector) -> None:
        self.momentum = _MOMENTUM * self.momentum - _RATE * gradient
        self.weights = self.weights + self.momentum
        self.step += 1

    def dump(self) -> bytes:
        header = {"step": self.step, "random": self.random.bit_generator.state}
        return _framed(header, self.weights, self.momentum)

    @classmethod
    def parse(cls, data: bytes) -> State:
        header, numbers = _unframed(data, 2 * PARAMETERS)
        random = np.random.default_rng()
        random.bit_generator.state = header["random"]
        return cls(header["step"], numbers[:PARAMETERS], numbers[PARAMETERS:], random)


def dump_weights(weights: Vector) -> bytes:
    return _framed({"layers": LAYERS}, weights)


def parse_weights(data: bytes) -> Vector:
    return _unframed(data, PARAMETERS)[1]


def gradient_of(weights: Vector, batch: Digits) -> tuple[Vector, float]:
    """This part's share of the gradient and of the loss of the whole batch: shares of all ranks are added up."""
    (first, first_bias), (second, second_bias) = _layers(weights)
    hidden = np.tanh(batch.pixels @ first + first_bias)
    chances = _softmax(hidden @ second + second_bias)
    rows = np.arange(len(batch.labels))
    loss = -np.log(chances[rows, batch.labels] + 1e-12).sum() / BATCH
    chances[rows, batch.labels] -= 1
    outer = chances / BATCH
    inner = (outer @ second.T) * (1 - hidden**2)
    parts = (batch.pixels.T @ inner, inner.sum(axis=0), hidden.T @ outer, outer.sum(axis=0))
    return np.concatenate([part.ravel() for part in parts]), float(loss)


def chances_of(weights: Vector, pixels: Vector) -> Vector:
    """How likely each digit is, one row per row of *pixels*."""
    (first, first_bias), (second, second_bias) = _layers(weights)
    return _softmax(np.tanh(pixels @ first + first_bias) @ second + second_bias)


def accuracy(weights: Vector, digits: Digits) -> float:
    return float((chances_of(weights, digits.pixels).argmax(axis=1) == digits.labels).mean())


def train_alone(seed: int, steps: int) -> Vector:
    """A quick model, for a replica that was given none."""
    digits, state = load_digits().training, State.fresh(seed)
    for _ in range(steps):
        state.apply(gradient_of(state.weights, digits.part(state.draw(len(digits.labels))))[0])
    return state.weights


def _layers(weights: Vector) -> list[tuple[Vector, Vector]]:
    layers, at = [], 0
    for wide, narrow in pairwise(LAYERS):
        matrix = weights[at : at + wide * narrow].reshape(wide, narrow)
        at += wide * narrow
        layers.append((matrix, weights[at : at + narrow]))
        at += narrow
    return layers


def _softmax(values: Vector) -> Vector:
    raised = np.exp(values - values.max(axis=1, keepdims=True))
    share: Vector = raised / raised.sum(axis=1, keepdims=True)
    return share


def _framed(header: dict[str, Any], *numbers: Vector) -> bytes:
    """A line of JSON, then the numbers as they are: equal states are equal bytes, and nothing in it is executed."""
    raw = b"".join(vector.astype("<f8").tobytes() for vector in numbers)
    return json.dumps(header, sort_keys=True).encode() + b"\n" + raw


def _unframed(data: bytes, count: int) -> tuple[dict[str, Any], Vector]:
    line, _, raw = data.partition(b"\n")
    if len(raw) != 8 * count:
        raise ValueError(f"Expected {count} numbers after the first line, found {len(raw) / 8:g}.")
    return json.loads(line), np.frombuffer(raw, "<f8").astype(np.float64)
