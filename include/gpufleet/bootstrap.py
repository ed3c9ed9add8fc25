"""The one place that knows every class: settings in, a Fleet out. Called by each process once, never at import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpufleet.clock import SystemClock
from gpufleet.clouds.base import Cloud
from gpufleet.clusters.base import Cluster
from gpufleet.services.fleet import Fleet
from gpufleet.settings import (
    Settings,
    buying_policy,
    guards,
    home_from,
    load_settings,
    recovery_policy,
    scheduling_policy,
)
from gpufleet.settings.worlds import KubernetesWorld, SandboxWorld
from gpufleet.store.database import BUSY_SECONDS, Database

if TYPE_CHECKING:
    from gpufleet.clusters.kubernetes.access import Access
    from gpufleet.clusters.kubernetes.api import Api
    from gpufleet.clusters.kubernetes.config import PodConfig
    from gpufleet.clusters.kubernetes.connections import Lookup
    from gpufleet.clusters.kubernetes.labels import SeeingConfig


def fleet_from(
    environment: Mapping[str, str] = os.environ,
    home: str | None = None,
    *,
    patience: float = BUSY_SECONDS,
    connections: Lookup | None = None,
) -> Fleet:
    """The fleet that the environment (or `home`) names; its database must have been set up."""
    return bootstrap(
        load_settings(home_from(environment, home), environment), patience=patience, connections=connections
    )


def bootstrap(settings: Settings, *, patience: float = BUSY_SECONDS, connections: Lookup | None = None) -> Fleet:
    """A Fleet on these settings; `patience` is how long its callers wait for the database. Opens no connection yet.

    `connections` finds Airflow connections that fleet.yaml names; without it only the environment has them.
    """
    file = settings.file
    return Fleet(
        id=file.fleet,
        home=settings.home,
        database=Database(settings.database_url, patience=patience),
        clusters={w.name: _cluster(w, settings, connections) for w in file.clusters},
        clouds={w.name: _cloud(w, settings.home) for w in file.clouds},
        clock=SystemClock(),
        checkpoints_url=settings.checkpoints_url,
        scheduling=scheduling_policy(file),
        buying=buying_policy(file),
        guards=guards(file),
        recovery=recovery_policy(file),
        handed=settings.handed,
        portal_url=_portal_url(settings.home, file.portal_url),
        banner=file.banner,
    )


def set_up(settings: Settings) -> Fleet:
    """Migrate the database and write the config into it; safe to repeat."""
    from gpufleet.formats.rates import load_rates
    from gpufleet.services.apply_config import apply_config
    from gpufleet.store.migrate import migrate  # Alembic is for setting up; a task that only submits does without

    if settings.rates:
        load_rates(settings.home / "rates.yaml")  # a mistake in it shows now, not at night
    fleet = bootstrap(settings)
    migrate(fleet.database)
    apply_config(fleet, settings.teams, settings.queues, settings.rates)
    return fleet


def _portal_url(home: Path, configured: str) -> str:
    """Where the portal is: configured, or what `make up` wrote down when it chose a port."""
    written = home / "portal.url"
    if configured or not written.is_file():
        return configured
    return written.read_text().strip()


def _cluster(world: SandboxWorld | KubernetesWorld, settings: Settings, connections: Lookup | None) -> Cluster:
    if isinstance(world, KubernetesWorld):
        return _kubernetes(world, settings, connections)
    from gpufleet.clusters.sandbox import SandboxCluster

    return SandboxCluster(settings.home, world.name)


def _kubernetes(world: KubernetesWorld, settings: Settings, connections: Lookup | None) -> Cluster:
    """Nothing is read or opened before the cluster is used: a mistake in one must not stop the others."""
    from gpufleet.clusters.kubernetes.cluster import KubernetesCluster
    from gpufleet.clusters.kubernetes.measuring import MetricsConfig

    return KubernetesCluster(
        world.name,
        settings.file.fleet,
        _access(world, settings, connections),
        settings.home,
        pods=pod_config(world),
        seeing=seeing_of(world),
        metrics=MetricsConfig(**world.metrics.model_dump()),
        handoff=world.handed,
        stale_after=settings.file.recovery.observation_stale_after,
    )


def kubernetes_api(world: KubernetesWorld, settings: Settings) -> Api:
    """The client alone, for a look at the cluster."""
    from gpufleet.clusters.kubernetes.api import Api

    return Api(world.name, _access(world, settings))


def _access(world: KubernetesWorld, settings: Settings, connections: Lookup | None = None) -> Callable[[], Access]:
    from gpufleet.clusters.kubernetes.access import access_from

    if world.connection:
        from gpufleet.clusters.kubernetes.connections import access_by_connection, from_environment

        return lambda: access_by_connection(world.connection, world.context, connections or from_environment)
    file = str(settings.home / world.kubeconfig) if world.kubeconfig else ""
    return lambda: access_from(file, world.context)


def pod_config(world: KubernetesWorld) -> PodConfig:
    from gpufleet.clusters.kubernetes.config import DraConfig, PodConfig

    told = world.pods.model_dump(exclude={"dra"})
    dra = DraConfig(**world.pods.dra.model_dump(exclude_none=True))
    return PodConfig(**told, dra=dra, rendezvous_key=os.environ.get("GPUFLEET_RENDEZVOUS_KEY", ""))


def seeing_of(world: KubernetesWorld) -> SeeingConfig:
    from gpufleet.clusters.kubernetes.labels import seeing_config

    return seeing_config(
        levels=tuple((level.name, level.labels) for level in world.levels),
        models=world.models,
        tolerated=(*world.tolerated, *world.pods.taints),
        remake_mig=world.remake_mig,
    )


def _cloud(world: SandboxWorld, home: Path) -> Cloud:
    from gpufleet.clouds.sandbox import SandboxCloud

    return SandboxCloud(home, world.name)
