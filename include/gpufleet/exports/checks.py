"""The night's last look before anything is published, with Great Expectations: schema, keys, ranges, references, sums.

Money and hours are whole numbers here, so sums are exact. An expectation that breaks counts as failed. Data Docs are
kept as an artefact. The library takes seconds to import, so it is imported here alone, when a night is checked.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpufleet.model.charge import Charge, ChargeKind

COLUMNS: Final = ("id", "kind", "team", "project", "node", "cost_nano", "hours_nano", "price_nano")
DEAREST: Final = 1000 * 10**9
"""No GPU-hour costs more, in any currency we know of with two decimals: a slip of the keyboard does."""
ROWS_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Expected:
    """What the charges of the night must agree with: the bill's exact total and hours, and who and what is known."""

    total_nano: int
    hours_nano: int
    """Held and idle."""
    slack_nano: int
    """The bill is told in minor units: half a unit either way. The charges themselves are exact."""
    hours_slack_nano: int
    teams: frozenset[str]
    nodes: frozenset[str]
    dearest_nano: int = DEAREST


def check_night(charges: Iterable[Charge], expected: Expected, name: str, docs: Path) -> tuple[int, list[str]]:
    """How many charges there are, and what is wrong, a sentence each with the check and the first rows; none: sound.

    Data Docs are written to `docs`. Prices of currencies without decimals are higher: say so in `expected`.
    """
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import pandas as pd

    rows = [(c.id, c.kind.value, c.team, c.project, c.node, c.cost_nano, _hours(c), c.price_nano or 0) for c in charges]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    with _quiet():
        result = _checkpoint(table, expected, name, docs)
    return len(table), [sentence for run in result.run_results.values() for sentence in _failures(run, name)]


def _hours(charge: Charge) -> int:
    """Only held and idle hours are owned hours; unused ones are promises."""
    return 0 if charge.kind is ChargeKind.UNUSED else charge.hours_nano


def _checkpoint(table: Any, expected: Expected, name: str, docs: Path) -> Any:
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    backend = {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs)}
    for site in list(context.get_site_names()):
        context.delete_data_docs_site(site)
    context.add_data_docs_site("night", {"class_name": "SiteBuilder", "store_backend": backend})
    batch = context.data_sources.add_pandas("night").add_dataframe_asset("charges")
    whole = batch.add_batch_definition_whole_dataframe("all")
    wanted = list(_expectations(gx.expectations, expected, len(table)))
    suite = context.suites.add(gx.ExpectationSuite(name="charges", expectations=wanted))
    validation = context.validation_definitions.add(gx.ValidationDefinition(name="charges", data=whole, suite=suite))
    checkpoint = gx.Checkpoint(name=name, validation_definitions=[validation], result_format="COMPLETE")
    result = context.checkpoints.add(checkpoint).run(
        batch_parameters={"dataframe": table}, run_id=gx.RunIdentifier(run_name=name)
    )
    context.build_data_docs()
    return result


def _expectations(gxe: Any, expected: Expected, rows: int) -> Iterator[Any]:
    yield gxe.ExpectTableColumnsToMatchOrderedList(column_list=list(COLUMNS))
    # an empty table would pass nearly everything
    yield gxe.ExpectTableRowCountToBeBetween(min_value=1 if expected.total_nano or expected.hours_nano else 0)
    yield gxe.ExpectColumnSumToBeBetween(column="cost_nano", **_about(expected.total_nano, expected.slack_nano))
    yield gxe.ExpectColumnSumToBeBetween(column="hours_nano", **_about(expected.hours_nano, expected.hours_slack_nano))
    if not rows:
        return
    for column in COLUMNS:
        yield gxe.ExpectColumnValuesToNotBeNull(column=column)
    yield gxe.ExpectColumnValuesToBeUnique(column="id")
    yield gxe.ExpectColumnValuesToBeInSet(column="kind", value_set=[kind.value for kind in ChargeKind])
    yield gxe.ExpectColumnValuesToBeInSet(column="team", value_set=sorted(expected.teams))
    yield gxe.ExpectColumnValuesToBeInSet(column="node", value_set=["", *sorted(expected.nodes)])
    yield gxe.ExpectColumnValuesToBeBetween(column="hours_nano", min_value=0)
    yield gxe.ExpectColumnValuesToBeBetween(column="price_nano", min_value=0, max_value=expected.dearest_nano)


def _about(amount: int, slack: int) -> dict[str, int]:
    return {"min_value": amount - slack, "max_value": amount + slack}


def _failures(run: Any, name: str) -> Iterator[str]:
    for result in run.results:
        if result.success:
            continue
        config = result.expectation_config
        where = config.kwargs.get("column", "the table")
        if (broken := _broken(result.exception_info)) is not None:
            yield f"check of {name}: {config.type} on {where} could not be made: {broken}"
        else:
            yield f"check of {name}: {config.type} on {where} failed: {_seen(result.result, config.kwargs)}"


def _broken(info: Mapping[str, Any]) -> str | None:
    """An expectation that crashes does not raise: it says so in one of two shapes."""
    for one in (info, *(v for v in info.values() if isinstance(v, dict))):
        if one.get("raised_exception"):
            return str(one.get("exception_message"))[:200]
    return None


def _seen(result: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    if rows := result.get("partial_unexpected_list"):
        indices = list(result.get("unexpected_index_list") or [])[:ROWS_NAMED]
        at = f" in rows {', '.join(map(str, indices))}" if indices else ""
        return f"{result.get('unexpected_count')} rows, such as {', '.join(map(repr, rows[:ROWS_NAMED]))}{at}"
    return f"found {result.get('observed_value')}, expected {asked.get('min_value', asked.get('column_list'))}"


@contextmanager
def _quiet() -> Iterator[None]:
    """The library prints progress and says hundreds of things by the way; a task's log is for what happened."""
    real, speaks = sys.stdout, logging.getLogger("great_expectations")
    level = speaks.level
    with Path(os.devnull).open("w") as nowhere:
        sys.stdout = nowhere
        speaks.setLevel(logging.WARNING)
        try:
            yield
        finally:
            sys.stdout = real
            speaks.setLevel(level)
