"""YAML files as checked models; every mistake is one sentence that names file and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from gpufleet.errors import Invalid
from gpufleet.settings.clouds import REAL_KINDS
from gpufleet.settings.worlds import KINDS

M = TypeVar("M", bound=BaseModel)


def read_yaml(path: Path, loader: type[yaml.SafeLoader | yaml.BaseLoader] = yaml.SafeLoader) -> dict[str, Any]:
    try:
        value = yaml.load(path.read_text(), Loader=loader)
    except FileNotFoundError:
        raise Invalid(f"{path} is missing.") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not text in UTF-8.") from None
    except yaml.YAMLError as e:
        raise Invalid(f"{path} is not YAML: {str(e).splitlines()[0]}.") from None
    if not isinstance(value, dict):
        raise Invalid(f"{path} must be a mapping of keys.")
    return value


def load_file(path: Path, kind: type[M]) -> M:
    try:
        return kind.model_validate(read_yaml(path))
    except ValidationError as e:
        first = e.errors()[0]
        key = _key(first["loc"], without_kind=first["type"].startswith("union_tag"))
        what = (
            "is not a known key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        )
        raise Invalid(f"{path}: {key + ': ' if key else ''}{what}.") from None


def _key(loc: tuple[int | str, ...], *, without_kind: bool) -> str:
    """As a person finds it in the file: pydantic also names the kind of world whose keys were tried."""
    return ".".join(
        str(part) for part in (*(p for p in loc if p not in (*KINDS, *REAL_KINDS)), *(["kind"] if without_kind else []))
    )
