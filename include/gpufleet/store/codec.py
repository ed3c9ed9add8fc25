"""Frozen facts to JSON columns and back.

The model knows nothing of this; a field added there with a default still reads old rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from gpufleet.model.capacity import Offering
from gpufleet.model.catalogue import gpu_model
from gpufleet.model.hardware import Node
from gpufleet.model.workload import Job

T = TypeVar("T")


_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """Building one takes milliseconds, using it microseconds."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def dump(fact: Any) -> Any:
    """JSON-ready value of any frozen fact."""
    return _adapter(type(fact)).dump_python(fact, mode="json")


def load(kind: type[T], value: Any) -> T:
    """The fact of that kind out of its JSON value; raises pydantic's ValidationError when the row is not one."""
    fact: T = _adapter(kind).validate_python(value)
    return fact


def dump_job(job: Job) -> Any:
    return dump(job)


@lru_cache(maxsize=20_000)
def load_job(text: str) -> Job:
    """Out of the JSON text of a row: what was asked for does not change, and every look and every plan reads them all."""
    return load(Job, json.loads(text))


def dump_node(node: Node) -> Any:
    """The GPU model is kept by name: its tables belong to the catalogue, not to a row."""
    bare = replace(node, model=replace(node.model, profiles=(), aliases=()))
    return dump(bare) | {"model": node.model.name}


@lru_cache(maxsize=20_000)
def load_node(text: str) -> Node:
    """Out of the JSON text of a row. A fleet's nodes hardly change, and every look and every plan reads them all."""
    value = json.loads(text)
    model = gpu_model(value["model"])
    bare = dump(replace(model, profiles=(), aliases=()))
    return replace(load(Node, {**value, "model": bare}), model=model)


def dump_offering(offering: Offering) -> Any:
    return dump(offering)


def load_offering(value: Any) -> Offering:
    return load(Offering, value)
