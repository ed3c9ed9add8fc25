"""The bundle every service gets: one database, the worlds, a clock, the policies. Built by `bootstrap` alone."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpufleet.clock import Clock
from gpufleet.clouds.base import Cloud
from gpufleet.clusters.base import Cluster
from gpufleet.model.policy import BuyingPolicy, RecoveryPolicy, SchedulingPolicy
from gpufleet.procurement.egress import Egress
from gpufleet.procurement.guards import Guards
from gpufleet.procurement.portfolio import Offer
from gpufleet.store.database import Database


def process_name() -> str:
    """Who holds a lease: host, process and a random part, so a reused pid is someone else."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a service may use. `portal_url` is the address people see in links; empty when there is no portal."""

    id: str
    home: Path
    database: Database
    clusters: dict[str, Cluster]
    clouds: dict[str, Cloud]
    clock: Clock
    checkpoints_url: str
    scheduling: SchedulingPolicy = SchedulingPolicy()
    buying: BuyingPolicy = BuyingPolicy()
    guards: Guards = Guards()
    commitments: tuple[Offer, ...] = ()
    """What could be committed to, for the weekly review."""
    egress: Egress | None = None
    """What it costs to bring data elsewhere; None where nobody said."""
    recovery: RecoveryPolicy = RecoveryPolicy()
    handed: Mapping[str, str] = field(default_factory=dict)
    """Queues that another scheduler places, each with the cluster where it does."""
    portal_url: str = ""
    banner: str = ""
    process: str = field(default_factory=process_name)
