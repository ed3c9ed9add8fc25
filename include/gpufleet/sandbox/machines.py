"""What can be asked of nodes and devices: remake MIG instances, cordon, break, heal."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.errors import NotFound, Refused
from gpufleet.model.hardware import MigInstance
from gpufleet.sandbox import events, referee
from gpufleet.sandbox.gangs import doom_node
from gpufleet.sandbox.records import Condition, InstanceState, Machine
from gpufleet.sandbox.site import Site


def machine_of(site: Site, name: str) -> Machine:
    machine = site.book.machines.get(name)
    if machine is None or machine.condition is Condition.GONE:
        raise NotFound(f"Node {name} does not exist.")
    return machine


def repartition(
    site: Site, node: str, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...]
) -> None:
    machine = machine_of(site, node)
    if machine.condition is Condition.LOST:
        raise Refused(f"Node {node} is lost: GPU {gpu} cannot be remade.")
    device = referee.remade(machine, gpu, destroy=destroy, create=create, held=site.held())
    if device != machine.device(gpu):
        site.book.machines.put(machine.with_device(device))
        events.say("repartition", node=node, gpu=gpu, instances=[str(instance) for instance in device.instances])


def cordon(site: Site, node: str, *, on: bool) -> None:
    machine = machine_of(site, node)
    if machine.cordoned != on:
        site.book.machines.put(replace(machine, cordoned=on))
        events.say("cordon", node=node, on=on)


def set_health(site: Site, node: str, gpu: int, *, healthy: bool) -> None:
    """Pods on a broken device go on: what to do about them is the planner's to say."""
    machine = machine_of(site, node)
    site.book.machines.put(machine.with_device(replace(machine.device(gpu), healthy=healthy)))
    events.say("health", node=node, gpu=gpu, healthy=healthy)


def fail(site: Site, node: str) -> None:
    """The node dies without notice. An owned one stays lost; an instance ends with it."""
    machine = machine_of(site, node)
    if machine.condition is not Condition.LOST:
        lose(site, machine)


def lose(site: Site, machine: Machine) -> None:
    """The machine is lost, with its pods and its instance."""
    now = site.now()
    site.book.machines.put(replace(machine, condition=Condition.LOST, lost_at=now))
    end_instance(site, machine.name)
    doom_node(site, machine.name)
    events.say("node-lost", node=machine.name)


def end_instance(site: Site, name: str) -> None:
    bought = site.book.instances.get(name)
    if bought is not None and bought.state is not InstanceState.TERMINATED:
        site.book.instances.put(replace(bought, state=InstanceState.TERMINATED, ended_at=site.now()))
