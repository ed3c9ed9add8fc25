"""Two profiles for one definition: `make test` draws the same 200 examples every time, `make test-long` 2,000 new ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings

LONG = "long"
PATIENCE = {False: 600, True: 3 * 3600}
"""Seconds for one test, in the default profile and in the long one: a busy machine is no fault of the engine."""

settings.register_profile(
    "default", max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.register_profile(LONG, max_examples=2_000, deadline=None, suppress_health_check=list(HealthCheck))


def _is_long(config: pytest.Config) -> bool:
    return str(config.option.markexpr).strip() == LONG


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(LONG if _is_long(config) else "default")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Properties of the engine may take their time; in the long profile they are long tests."""
    for item in items:
        if item.path.name in ("test_engine.py", "test_optimum.py"):
            item.add_marker(pytest.mark.timeout(PATIENCE[_is_long(config)]))
            if _is_long(config):
                item.add_marker(LONG)
