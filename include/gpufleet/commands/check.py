"""`gpufleet doctor`: looks at everything a fleet needs, one line each, and says what to do about what is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from gpufleet.clouds.base import Cloud
from gpufleet.commands.live import show
from gpufleet.errors import GpufleetError
from gpufleet.model.capacity import CapacityType
from gpufleet.model.tenancy import ANY_MODEL, Queue
from gpufleet.services.fleet import Fleet
from gpufleet.settings import Settings, home_from, load_settings

OK: Final = "ok"
WARNING: Final = "warning"
BROKEN: Final = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do."""

    what: str
    how: str
    detail: str


def doctor(home: str | None, *, migrate: bool, as_json: bool) -> int:
    """Exit status 1 when something is broken, else 0."""
    settings = load_settings(home_from(os.environ, home))
    findings = [Finding("config", OK, f"{settings.home}: {len(settings.teams)} teams, {len(settings.queues)} queues")]
    findings += _with_fleet(settings, migrate=migrate)
    findings += list(_airflow())
    return tell([(f.what, f.how, f.detail) for f in findings], as_json=as_json)


def tell(findings: list[tuple[str, str, str]], *, as_json: bool) -> int:
    """Print (what, how, detail), a line each; the exit status is 1 when something is broken, else 0."""
    if as_json:
        show({"findings": [{"what": what, "how": how, "detail": detail} for what, how, detail in findings]})
    else:
        for what, how, detail in findings:
            print(f"{how:8} {what}: {detail}")
    return 1 if any(how == BROKEN for _, how, _ in findings) else 0


def _with_fleet(settings: Settings, *, migrate: bool) -> list[Finding]:
    from gpufleet.bootstrap import bootstrap, set_up

    fleet = set_up(settings) if migrate else bootstrap(settings)
    return [_try("database", lambda: _database(fleet)), *_worlds(fleet), *_quota(fleet, settings.queues)]


def _try(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, OK, look())
    except GpufleetError as e:
        return Finding(what, BROKEN, str(e))


def _database(fleet: Fleet) -> str:
    from gpufleet.store import leases
    from gpufleet.store.migrate import require_migrated

    with fleet.database.read() as connection:
        require_migrated(connection)
        holder = leases.holder(connection, "controller", fleet.clock.now())
    return f"{fleet.database.engine.dialect.name}; controller: {holder or 'none, fleet_sync ticks every minute'}"


def _worlds(fleet: Fleet) -> Iterator[Finding]:
    for name, cluster in sorted(fleet.clusters.items()):
        yield _try(f"cluster {name}", lambda c=cluster: f"{len(c.observe().nodes)} nodes")  # type: ignore[misc]  # bound now
    for name, cloud in sorted(fleet.clouds.items()):
        yield _try(f"cloud {name}", lambda c=cloud: _sold(c))  # type: ignore[misc]  # bound now


def _sold(cloud: Cloud) -> str:
    offerings = cloud.offerings()
    for_sale = sum(offering.available for offering in offerings)
    return f"{len(offerings)} offerings" + (f", {for_sale} of them for sale" if for_sale < len(offerings) else "")


def _quota(fleet: Fleet, queues: tuple[Queue, ...]) -> Iterator[Finding]:
    """What is promised should be owned or reserved: spot may be gone when the promise is called."""
    from gpufleet.store import world

    try:
        with fleet.database.read() as connection:
            nodes = world.nodes(connection)
    except GpufleetError:
        return  # said under `database`
    parents = {q.parent for q in queues}
    promised = sum(
        (amount.gpus for q in queues if q.name not in parents for key, amount in q.deserved if key == ANY_MODEL),
        Fraction(0),
    )
    steady = sum(len(n.devices) for n in nodes if n.capacity in (CapacityType.OWNED, CapacityType.RESERVED))
    if promised > steady:
        detail = (
            f"deserved sums to {float(promised):g} GPUs, owned and reserved are {steady}; "
            "when capacity is short all are scaled down pro rata"
        )
        yield Finding("quota", WARNING, detail)
    else:
        yield Finding("quota", OK, f"deserved sums to {float(promised):g} of {steady} owned and reserved GPUs")


NEEDED: Final = 10_000
"""Jobs that may wait at once: Airflow's own limits must not hide our queue."""


def _airflow() -> Iterator[Finding]:
    """Airflow's limits as this shell sees them; silent where no Airflow is configured here."""
    keys = (
        "AIRFLOW__TRIGGERER__CAPACITY",
        "AIRFLOW__CORE__MAX_ACTIVE_TASKS_PER_DAG",
        "AIRFLOW__CORE__MAX_ACTIVE_RUNS_PER_DAG",
    )
    if not any(name.startswith("AIRFLOW") for name in os.environ):
        return
    for key in keys:
        value = os.environ.get(key, "")
        if value.isdigit() and int(value) >= NEEDED:
            yield Finding(key, OK, value)
        else:
            yield Finding(
                key, WARNING, f"is {value or 'not set'}; set it to {NEEDED}, or Airflow hides part of our queue"
            )
