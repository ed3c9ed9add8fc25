"""The one place that knows every class: settings in, a Fleet out. Called by each process once, never at import."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpufleet.clock import SystemClock
from gpufleet.clouds.base import Cloud
from gpufleet.clusters.base import Cluster
from gpufleet.errors import Invalid
from gpufleet.model.capacity import Offering
from gpufleet.services.fleet import Fleet
from gpufleet.settings import (
    Settings,
    buying_policy,
    commitments,
    egress,
    guards,
    home_from,
    load_settings,
    recovery_policy,
    scheduling_policy,
)
from gpufleet.settings.clouds import (
    AnyCloud,
    AwsWorld,
    AzureWorld,
    GcpWorld,
    JoinEntry,
    RealCloud,
    SaleEntry,
    facts_of,
)
from gpufleet.settings.worlds import KubernetesWorld, SandboxWorld
from gpufleet.store.database import BUSY_SECONDS, Database

if TYPE_CHECKING:
    from gpufleet.clouds.joining import Join
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
        clouds={w.name: _cloud(w, settings, os.environ) for w in file.clouds},
        clock=SystemClock(),
        checkpoints_url=settings.checkpoints_url,
        scheduling=scheduling_policy(file),
        buying=buying_policy(file),
        guards=guards(file),
        commitments=commitments(file),
        egress=egress(file),
        recovery=recovery_policy(file),
        handed=settings.handed,
        portal_url=_portal_url(settings.home, file.portal_url),
        banner=file.banner,
    )


def set_up(settings: Settings) -> Fleet:
    """Migrate the database and write the config into it; safe to repeat."""
    from gpufleet.formats.finance import load_finance
    from gpufleet.formats.rates import load_rates
    from gpufleet.services.apply_config import apply_config
    from gpufleet.store.migrate import migrate  # Alembic is for setting up; a task that only submits does without

    load_finance(settings.home / "finance.yaml")  # a mistake shows now, not at night
    if settings.rates:
        load_rates(settings.home / "rates.yaml")
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


def _cloud(world: AnyCloud, settings: Settings, environment: Mapping[str, str]) -> Cloud:
    """Each SDK is loaded where its cloud is first asked: a fleet pays only for what it uses."""
    if isinstance(world, SandboxWorld):
        from gpufleet.clouds.sandbox import SandboxCloud

        return SandboxCloud(settings.home, world.name)
    if isinstance(world, AwsWorld):
        cloud = _aws(world, settings, environment)
    elif isinstance(world, GcpWorld):
        cloud = _gcp(world, settings, environment)
    else:
        cloud = _azure(world, settings, environment)
    if not world.dry_run:
        return cloud
    from gpufleet.clouds.dry import DryCloud

    return DryCloud(cloud)


def _aws(world: AwsWorld, settings: Settings, environment: Mapping[str, str]) -> Cloud:
    from gpufleet.clouds.aws.cloud import AwsCloud
    from gpufleet.clouds.aws.config import AwsConfig, AwsSale
    from gpufleet.clouds.credentials import aws_session, connection_named

    sales = tuple(
        AwsSale(_offering(world.name, world.region, o), **facts_of(o, *SaleEntry.model_fields)) for o in world.offerings
    )
    found = aws_session(connection_named(world.connection, environment)) if world.connection else {}
    told = facts_of(world, *_APART)
    return AwsCloud(AwsConfig(**told, **_alike(world, sales, settings, environment), credentials=found), SystemClock())


def _gcp(world: GcpWorld, settings: Settings, environment: Mapping[str, str]) -> Cloud:
    from gpufleet.clouds.credentials import connection_named, gcp_key
    from gpufleet.clouds.gcp.cloud import GcpCloud
    from gpufleet.clouds.gcp.config import GcpConfig, GcpSale, Nic

    sales = []
    for entry in world.offerings:
        nics = tuple(Nic(**facts_of(nic)) for nic in entry.nics)
        offering = _offering(world.name, entry.zone.rpartition("-")[0], entry)
        sales.append(GcpSale(offering, nics=nics, **facts_of(entry, "nics", *SaleEntry.model_fields)))
    found = gcp_key(connection_named(world.connection, environment)) if world.connection else None
    told = facts_of(world, *_APART)
    alike = _alike(world, tuple(sales), settings, environment)
    return GcpCloud(GcpConfig(**told, **alike, credentials=found), SystemClock())


def _azure(world: AzureWorld, settings: Settings, environment: Mapping[str, str]) -> Cloud:
    from gpufleet.clouds.azure.cloud import AzureCloud
    from gpufleet.clouds.azure.config import RETAIL_PRICES, AzureConfig, AzureSale
    from gpufleet.clouds.credentials import azure_secret, connection_named

    sales = tuple(
        AzureSale(_offering(world.name, world.region, o), **facts_of(o, *SaleEntry.model_fields))
        for o in world.offerings
    )
    found = azure_secret(connection_named(world.connection, environment)) if world.connection else {}
    told = facts_of(world, "retail_prices", *_APART)
    told["retail_prices"] = RETAIL_PRICES if world.retail_prices is None else world.retail_prices
    return AzureCloud(
        AzureConfig(**told, **_alike(world, sales, settings, environment), credentials=found), SystemClock()
    )


_APART: Final = ("kind", "dry_run", "connection", "join", "prices", "offerings")
"""Keys of a cloud that its own configuration does not have under that name."""


def _alike(
    world: RealCloud, sales: tuple[Any, ...], settings: Settings, environment: Mapping[str, str]
) -> dict[str, Any]:
    """What every real cloud is told beside its own keys."""
    from gpufleet.clouds.shop import twins
    from gpufleet.formats.price_list import load_price_list, quotes_of

    listed = load_price_list(settings.home / world.prices) if world.prices else ()
    sold = tuple(sale.offering for sale in sales)
    quotes = quotes_of(listed, (*sold, *twins(sold)))
    join = _join(world.join, settings.home, environment) if world.join is not None else None
    return {"fleet": settings.file.fleet, "sales": sales, "listed_prices": quotes, "join": join}


def _join(entry: JoinEntry, home: Path, environment: Mapping[str, str]) -> Join:
    from gpufleet.clouds.joining import BUILT_IN, Join, built_in

    file = home / entry.template
    if entry.template not in BUILT_IN and not file.is_file():
        raise Invalid(f"{file} is missing; `join.template` is a file or one of {', '.join(BUILT_IN)}.")
    text = built_in(entry.template) if entry.template in BUILT_IN else file.read_text()
    told = facts_of(entry, "template", "secret_variable", "labels")
    secret = environment.get(entry.secret_variable, "")
    return Join(template=text, secret=secret, labels=tuple(sorted(entry.labels.items())), **told)


def _offering(cloud: str, region: str, entry: SaleEntry) -> Offering:
    """Its price is told by the cloud's sources; a zone without a name of its own is one of its region."""
    zone = f"{region}-{entry.zone}" if entry.zone.isdigit() else entry.zone or region
    told = {name: getattr(entry, name) for name in SaleEntry.model_fields if name != "zone"}
    return Offering(cloud=cloud, region=region, zone=zone, price=Fraction(0), position=(zone,), **told)
