"""Records -> the JSON that goes out of the door. Written by hand: 100 pods are a question of a few milliseconds."""

from __future__ import annotations

from datetime import datetime
from math import ceil
from typing import Any

from gpufleet.model.hardware import Device
from gpufleet.sandbox import market
from gpufleet.sandbox.environment import LOOPBACK
from gpufleet.sandbox.holdings import Hold
from gpufleet.sandbox.records import Bought, Condition, Gang, Machine, Notice, Pod, Stock
from gpufleet.sandbox.site import Site

Json = dict[str, Any]


def observation(site: Site) -> Json:
    """All that an observer may see, sorted."""
    gangs = site.book.gangs
    return {
        "at": site.now().isoformat(),
        "cluster_time": site.ledger_now().isoformat(),
        "levels": site.book.facts.levels,
        "nodes": [node(machine) for machine in _shown(site)],
        "pods": [pod(gangs[key], one) for key in sorted(gangs) for one in gangs[key].pods if not one.is_forgotten],
        "notices": [notice(one) for one in market.notices(site)],
    }


def _shown(site: Site) -> list[Machine]:
    shown = (machine for machine in site.book.machines.values() if machine.condition is not Condition.GONE)
    return sorted(shown, key=lambda machine: machine.name)


def node(machine: Machine) -> Json:
    return {
        "name": machine.name,
        "model": machine.model,
        "devices": [_device(device) for device in machine.devices],
        "position": machine.position,
        "capacity": machine.capacity,
        "state": machine.state,
        "link": machine.link,
        "mig": machine.mig,
        "sharing": machine.sharing,
        "exactness": "device",
        "cpu": machine.cpu,
        "memory_mib": machine.memory_mib,
        "fabric": machine.fabric,
        "instance": None if machine.offering is None else machine.name,
        "provider": machine.provider,
        "region": machine.region,
        "labels": machine.labels,
    }


def _device(device: Device) -> Json:
    instances = [{"start": instance.start, "profile": instance.profile} for instance in device.instances]
    return {"index": device.index, "instances": instances, "healthy": device.healthy}


def pod(gang: Gang, seen: Pod) -> Json:
    return {
        "name": seen.ask.name,
        "job": gang.ask.job,
        "attempt": gang.ask.attempt,
        "rank": seen.ask.rank,
        "node": seen.ask.place.node,
        "phase": seen.phase,
        "devices": seen.ask.place.devices,
        "exit_code": seen.exit_code,
        "reason": seen.reason,
        "bound_at": gang.bound_at.isoformat(),
        "started_at": _instant(seen.started_at),
        "finished_at": _instant(seen.finished_at),
        "address": f"{LOOPBACK}:{seen.serve_port}",
        # the file knows the pod's sum only: its cards are taken to hold alike
        "peak_memory_mib": ceil(seen.peak_mib / len(seen.ask.place.devices)) or None,
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def notice(found: Notice) -> Json:
    return {
        "id": found.id,
        "instance": found.node,
        "node": found.node,
        "at": found.at.isoformat(),
        "deadline": found.deadline.isoformat(),
        "kind": "spot",
    }


def offering(stock: Stock) -> Json:
    machine = stock.machine
    return {
        "name": stock.name,
        "region": stock.region,
        "zone": stock.zone,
        "instance_type": stock.instance_type,
        "capacity": machine.capacity,
        "model": machine.model,
        "gpus": len(machine.devices),
        "price": str(stock.price),
        "currency": stock.currency,
        "fabric": machine.fabric,
        "available": stock.available > 0,
        "position": list(machine.position),
    }


def instance(bought: Bought) -> Json:
    return {
        "name": bought.name,
        "offering": bought.offering,
        "token": bought.token,
        "zone": bought.zone,
        "capacity": bought.capacity,
        "state": bought.state,
        "launched_at": bought.launched_at.isoformat(),
    }


def state(site: Site) -> Json:
    """The observation with what only people want to know: who holds what, and what is left to buy."""
    held = sorted(site.held().gpus.items())
    return {
        **observation(site),
        "held": {f"{node}/{gpu}": [_hold(hold) for hold in holds] for (node, gpu), holds in held if holds},
        "offerings": [{**offering(stock), "left": stock.available} for stock in site.book.stock.values()],
        "instances": [instance(bought) for bought in market.instances(site)],
        "ledger_factor": site.book.facts.rate.factor,
    }


def _hold(hold: Hold) -> str:
    if hold.instance is not None:
        return f"{hold.job}: {hold.instance}"
    return f"{hold.job}: {hold.milli}/1000" if hold.is_share else f"{hold.job}: whole"
