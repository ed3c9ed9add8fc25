"""`gpufleet kubernetes`: what a cluster must be told once, and what it has and lacks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gpufleet.errors import GpufleetError, Invalid

if TYPE_CHECKING:
    from gpufleet.model.hardware import Node
    from gpufleet.settings import Settings
    from gpufleet.settings.worlds import KubernetesWorld

app: Final = typer.Typer(no_args_is_help=True, help="A Kubernetes cluster: what it must be told, and what it lacks.")

Home = Annotated[str | None, typer.Option("--home", help="The fleet's folder; default: GPUFLEET_HOME.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Cluster = Annotated[str | None, typer.Option(help="Which cluster of fleet.yaml; needless where there is one.")]


@app.command()
def manifests(
    cluster: Cluster = None,
    queues: Annotated[str | None, typer.Option(help="Quotas also as queues of kueue, volcano or kai.")] = None,
    agent_image: Annotated[str | None, typer.Option(help="With the node agent, from this image.")] = None,
    agent_cloud: Annotated[str, typer.Option(help="Whose notices it hears: aws, gcp or azure.")] = "",
    controller_image: Annotated[str | None, typer.Option(help="With the controller, from this image.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Namespaces, rights, quotas and priority classes as YAML, for `kubectl apply --server-side -f -`."""
    import json

    import yaml

    from gpufleet.clusters.kubernetes.rendering.controllers import controller

    settings, world = _named(home, cluster)
    nodes = _known_nodes(settings, world.name)
    if not nodes:
        print(f"gpufleet: no node of {world.name} has been seen yet: quotas are left open.", file=sys.stderr)
    found = _objects(settings, world, nodes, agent_image, agent_cloud)
    if controller_image:
        found.append(controller(settings.file.fleet, controller_image))
    found += _queue_objects(settings, world, nodes, queues)
    if as_json:
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}, indent=2))
    else:
        print(yaml.safe_dump_all(found, sort_keys=False, width=120), end="")


@app.command()
def check(cluster: Cluster = None, home: Home = None, as_json: Json = False) -> None:
    """Look at a cluster: GPUs, labels, the operator, MIG, rights; say what to do about what is wrong."""
    from gpufleet.bootstrap import kubernetes_api, pod_config, seeing_of
    from gpufleet.clusters.kubernetes.checking import check as look
    from gpufleet.commands.check import tell

    settings, world = _named(home, cluster)
    api = kubernetes_api(world, settings)
    try:
        found = look(api, settings.file.fleet, settings.teams, seeing_of(world), pod_config(world))
    finally:
        api.close()
    raise typer.Exit(tell([(f.what, f.how, f.detail) for f in found], as_json=as_json))


def _named(home: str | None, cluster: str | None) -> tuple[Settings, KubernetesWorld]:
    from gpufleet.settings import home_from, load_settings
    from gpufleet.settings.worlds import KubernetesWorld

    settings = load_settings(home_from(os.environ, home))
    worlds = [world for world in settings.file.clusters if isinstance(world, KubernetesWorld)]
    known = ", ".join(world.name for world in worlds) or "none"
    if cluster is None and len(worlds) != 1:
        raise Invalid(f"Name one cluster with --cluster; of kind kubernetes there are: {known}.")
    for world in worlds:
        if cluster in (None, world.name):
            return settings, world
    raise Invalid(f"'{cluster}' is no cluster of kind kubernetes in fleet.yaml; there are: {known}.")


def _known_nodes(settings: Settings, cluster: str) -> tuple[Node, ...]:
    """As the controller saw them last; none before its first look."""
    from gpufleet.bootstrap import bootstrap
    from gpufleet.store import world

    try:
        with bootstrap(settings).database.read() as connection:
            return tuple(node for node in world.nodes(connection) if node.cluster == cluster)
    except GpufleetError:
        return ()


def _objects(
    settings: Settings, world: KubernetesWorld, nodes: tuple[Node, ...], image: str | None, cloud: str
) -> list[dict[str, Any]]:
    from gpufleet.bootstrap import pod_config
    from gpufleet.clusters.kubernetes.rendering.agents import AgentConfig, node_agent
    from gpufleet.clusters.kubernetes.rendering.priorities import priority_classes
    from gpufleet.clusters.kubernetes.rendering.rbac import installation_objects
    from gpufleet.clusters.kubernetes.rendering.tenancy import team_objects

    fleet, pods = settings.file.fleet, pod_config(world)
    found = [*installation_objects(fleet), *priority_classes(fleet)]
    for team in settings.teams:
        found += team_objects(fleet, team, settings.queues, nodes, pods)
    if image:
        spaces = [team.namespace for team in settings.teams]
        found.append(node_agent(fleet, spaces, AgentConfig(image, cloud, pods.taints)))
    return found


def _queue_objects(
    settings: Settings, world: KubernetesWorld, nodes: tuple[Node, ...], scheduler: str | None
) -> list[dict[str, Any]]:
    """For the nodes that are that scheduler's."""
    from gpufleet.bootstrap import seeing_of
    from gpufleet.clusters.kubernetes.rendering.handoff import kai, kueue, volcano
    from gpufleet.clusters.kubernetes.rendering.handoff.jobs import levels_of
    from gpufleet.clusters.kubernetes.rendering.names import SCHEDULER

    if scheduler is None:
        return []
    theirs = [node for node in nodes if dict(node.labels).get(SCHEDULER) == scheduler]
    fleet, queues = settings.file.fleet, settings.queues
    levels = levels_of(theirs, [(level.name, level.labels) for level in seeing_of(world).levels])
    match scheduler:
        case kueue.NAME:
            return list(kueue.quota_objects(fleet, queues, settings.teams, theirs, levels))
        case volcano.NAME:
            return list(volcano.quota_objects(fleet, queues, theirs))
        case kai.NAME:
            return list(kai.quota_objects(fleet, queues, theirs, levels))
        case _:
            raise Invalid(f"'{scheduler}' is no scheduler that quotas can be given to; it is kueue, volcano or kai.")
