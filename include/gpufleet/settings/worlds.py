"""The worlds that fleet.yaml names: one class for each kind of cluster and cloud."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from gpufleet.errors import Invalid
from gpufleet.model.tenancy import Queue
from gpufleet.units import LONGEST, duration


def _read_duration(value: Any) -> Any:
    """pydantic names the key only of a ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return duration(value)
    except Invalid as e:
        raise ValueError(str(e).rstrip(".")) from None


Duration = Annotated[timedelta, BeforeValidator(_read_duration), Field(ge=timedelta(0), le=LONGEST)]


class Strict(BaseModel):
    """Nothing unknown, nothing changed after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SandboxWorld(Strict):
    """The embedded world, as a cluster or as a cloud."""

    name: str
    kind: Literal["sandbox"]


class LevelEntry(Strict):
    """A topology level above the node, and the node labels that name its domains; the first that is there counts."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")
    labels: tuple[str, ...] = Field(min_length=1)


class DraEntry(Strict):
    """How one device is told from all others in a claim, where the driver publishes other attributes than expected."""

    gpu_class: str | None = None
    mig_class: str | None = None
    gpu_expression: str | None = None
    """CEL with `{gpu}`."""
    mig_expression: str | None = None
    """CEL with `{gpu}`, `{profile}` and `{start}`."""


class PodEntry(Strict):
    """How the pods of jobs look on this cluster; the fields of `clusters.kubernetes.config.PodConfig`."""

    image: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    service_account: str = "gpufleet-job"
    identity_annotations: dict[str, str] = {}
    metadata_service: bool = False
    callers: tuple[str, ...] = ()
    checkpoint_secret: str = "gpufleet-checkpoints"
    user: int = Field(default=1000, ge=1)
    shared_memory_mib: int = Field(default=65_536, ge=1)
    taints: tuple[str, ...] = ("nvidia.com/gpu",)
    lost_after: int = Field(default=30, ge=0)
    dra: DraEntry = DraEntry()
    templates: dict[str, Any] = {}
    registries: tuple[str, ...] = ()
    fabric_resources: dict[str, str] = {}
    fabric_images: dict[str, str] = {}
    fabric_networks: tuple[str, ...] = ()


class MetricsEntry(Strict):
    """Where Prometheus keeps what DCGM's exporter counts; the fields of `clusters.kubernetes.measuring.MetricsConfig`."""

    url: str = Field(default="", pattern=r"^(https?://\S+)?$")
    namespace_label: str = Field(default="namespace", pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    pod_label: str = Field(default="pod", pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")
    window: str = Field(default="5m", pattern=r"^[1-9][0-9]*[smh]$")


class HandoffEntry(Strict):
    """Queues whose jobs another scheduler of this cluster places, on the nodes labelled as its own."""

    scheduler: Literal["kueue", "volcano", "kai"]
    queues: tuple[str, ...] = Field(min_length=1)


class KubernetesWorld(Strict):
    """A Kubernetes cluster: how it is reached, how its nodes are read, how pods look there."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")
    kind: Literal["kubernetes"]
    kubeconfig: str = ""
    """A file; a relative path counts from the home. Empty: the pod's own service account, KUBECONFIG, ~/.kube/config."""
    connection: str = Field(default="", pattern=r"^[a-zA-Z0-9_.-]*$")
    """Id of an Airflow connection of type kubernetes, instead of a file."""
    context: str = ""
    levels: tuple[LevelEntry, ...] = ()
    models: tuple[str, ...] = ()
    tolerated: tuple[str, ...] = ()
    """Keys of more taints that keep none of our pods away."""
    remake_mig: bool = False
    metrics: MetricsEntry = MetricsEntry()
    pods: PodEntry = PodEntry()
    handoff: tuple[HandoffEntry, ...] = ()

    @property
    def handed(self) -> dict[str, str]:
        """By queue, the scheduler it is handed to."""
        return {queue: entry.scheduler for entry in self.handoff for queue in entry.queues}


KINDS: Final = ("sandbox", "kubernetes")
ClusterWorld = Annotated[SandboxWorld | KubernetesWorld, Field(discriminator="kind")]


def handed_queues(worlds: Iterable[ClusterWorld], queues: Iterable[Queue]) -> dict[str, str]:
    """By queue, the cluster where another scheduler has it. Raises Invalid for a queue that is no leaf, or named twice."""
    known = list(queues)
    leaves = {q.name for q in known} - {q.parent for q in known}
    found: dict[str, str] = {}
    for world in worlds:
        for entry in world.handoff if isinstance(world, KubernetesWorld) else ():
            for queue in entry.queues:
                if queue not in leaves:
                    raise Invalid(
                        f"fleet.yaml: cluster {world.name} hands queue '{queue}' to {entry.scheduler}, and teams.yaml has "
                        "no such queue without queues below it."
                    )
                if queue in found:
                    raise Invalid(f"fleet.yaml: queue '{queue}' is handed over twice; a queue has one scheduler.")
                found[queue] = world.name
    return found
