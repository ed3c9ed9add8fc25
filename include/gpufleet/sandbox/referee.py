"""The referee: says no to what hardware could not do, in one sentence with node, GPU and both jobs in it.

It trusts nobody's arithmetic: every answer is worked out from the machines and the pods that are not over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpufleet.errors import Permanent, Refused
from gpufleet.model.hardware import Device, MigInstance, MigRemake, NodeState, illegal_layout
from gpufleet.sandbox.holdings import Hold, Holdings, holds, memory_limit_mib
from gpufleet.sandbox.records import GangAsk, Machine, PodAsk
from gpufleet.training.manifest import job_folder

WHOLE_MILLI = 1000


def check_shape(ask: GangAsk) -> None:
    """What can be said of a gang without a world; raises Refused, or Permanent for a pod that names no command."""
    folder_of(ask.job)
    if ask.attempt < 1:
        raise Refused(f"Attempts count from 1; {ask.job} asks for attempt {ask.attempt}.")
    if not ask.pods:
        raise Refused(f"Attempt {ask.attempt} of {ask.job} has no pods.")
    for what, count in (*Counter(f"rank {pod.rank}" for pod in ask.pods).items(), *_names(ask.pods).items()):
        if count > 1:
            raise Refused(f"Attempt {ask.attempt} of {ask.job} has {what} {count} times; each may be there once.")
    for pod in ask.pods:
        _check_pod_shape(ask.job, pod)


def folder_of(job: str) -> str:
    """The folder a job's files lie in; raises Refused for an id that could lead out of it."""
    try:
        return job_folder(job)
    except ValueError as error:
        raise Refused(str(error)) from None


def _names(pods: Iterable[PodAsk]) -> Counter[str]:
    return Counter(f"a pod {pod.name}" for pod in pods)


def _check_pod_shape(job: str, pod: PodAsk) -> None:
    place = pod.place
    if sum(map(bool, (place.gpus, place.slices, place.shares))) != 1:
        raise Refused(f"Pod {pod.name} of {job} must ask for exactly one of whole GPUs, slices and shares.")
    for share in place.shares:
        if share.milli < 1 or share.memory_mib < 0:
            raise Refused(f"Pod {pod.name} of {job} asks for {share.milli}/1000 and {share.memory_mib} MiB: no share.")
    if not pod.container.command:
        raise Permanent(f"Pod {pod.name} of {job} has no command, and the sandbox runs no images: it can never start.")


def check_gang(ask: GangAsk, machines: Mapping[str, Machine], held: Holdings) -> None:
    """Raises Refused for the first thing that cannot be; `held` grows by the pods that can, so each sees the others."""
    for pod in ask.pods:
        machine = _machine(ask.job, pod, machines)
        for gpu, hold in holds(ask.job, pod):
            device = _device(machine, gpu, ask.job)
            _check_kind(machine, device, hold, held.on(machine.name, gpu))
            # One by one: a pod may name the same GPU twice.
            held.gpus[machine.name, gpu].append(hold)
        _check_memory(machine, ask.job, pod)
        _check_host(machine, ask.job, pod, held)


def _machine(job: str, pod: PodAsk, machines: Mapping[str, Machine]) -> Machine:
    machine = machines.get(pod.place.node)
    if machine is None:
        raise Refused(f"Node {pod.place.node} does not exist: {job} cannot start there.")
    if machine.state is not NodeState.READY:
        raise Refused(f"Node {machine.name} is {machine.state}: {job} cannot start there.")
    return machine


def _device(machine: Machine, gpu: int, job: str) -> Device:
    device = machine.device(gpu)
    if not device.healthy:
        raise Refused(f"GPU {gpu} of node {machine.name} is unhealthy: {job} cannot use it.")
    return device


def _check_kind(machine: Machine, device: Device, hold: Hold, others: list[Hold]) -> None:
    if hold.instance is not None:
        _check_slice(machine, device, hold, hold.instance, others)
    elif hold.is_share:
        _check_share(machine, device, hold, others)
    else:
        _check_whole(machine, device, hold, others)


def _check_whole(machine: Machine, device: Device, hold: Hold, others: list[Hold]) -> None:
    for other in others:
        raise Refused(f"{_gpu(machine, device)} is held {_as(other)} by {other.job}: {hold.job} cannot have it whole.")
    _check_uncut(machine, device, f"{hold.job} cannot have it whole")


def _check_slice(machine: Machine, device: Device, hold: Hold, want: MigInstance, others: list[Hold]) -> None:
    for other in others:
        if other.instance is None or other.instance == want:
            held = f"{_gpu(machine, device)} is held {_as(other)} by {other.job}"
            raise Refused(f"{held}: {hold.job} cannot have {want}.")
    if want not in device.instances:
        there = ", ".join(map(str, device.instances)) or "none"
        raise Refused(f"{_gpu(machine, device)} has no MIG instance {want} for {hold.job} (it has: {there}).")


def _check_share(machine: Machine, device: Device, hold: Hold, others: list[Hold]) -> None:
    if not machine.sharing:
        raise Refused(f"Node {machine.name} offers no shares: {hold.job} cannot have one of GPU {device.index}.")
    for other in others:
        if not other.is_share:
            raise Refused(f"{_gpu(machine, device)} is held {_as(other)} by {other.job}: {hold.job} cannot share it.")
    _check_uncut(machine, device, f"{hold.job} cannot share it")
    milli = hold.milli + sum(other.milli for other in others)
    memory = hold.memory_mib + sum(other.memory_mib for other in others)
    beside = f"with {_jobs(others)} beside {hold.job}" if others else f"with {hold.job} alone"
    if milli > WHOLE_MILLI:
        raise Refused(f"{_gpu(machine, device)} would be given away to {milli}/1000 {beside}.")
    if memory > machine.gpu.memory_mib:
        have = machine.gpu.memory_mib
        raise Refused(f"{_gpu(machine, device)} has {have} MiB and would have to hold {memory} MiB {beside}.")


def _check_uncut(machine: Machine, device: Device, so: str) -> None:
    if device.instances:
        cut = ", ".join(map(str, device.instances))
        raise Refused(f"{_gpu(machine, device)} is cut into MIG instances ({cut}): {so}.")


def _check_memory(machine: Machine, job: str, pod: PodAsk) -> None:
    limit = memory_limit_mib(machine, pod)
    if pod.need_mib > limit:
        gpus = ", ".join(map(str, pod.place.devices))
        raise Refused(
            f"Pod {pod.name} of {job} needs {pod.need_mib} MiB, but its place on GPU {gpus} of node {machine.name} "
            f"has {limit} MiB."
        )


def _check_host(machine: Machine, job: str, pod: PodAsk, held: Holdings) -> None:
    cpu = held.cpu[machine.name] = held.cpu[machine.name] + (pod.place.cpu or 0.0)
    memory = held.memory_mib[machine.name] = held.memory_mib[machine.name] + (pod.place.memory_mib or 0)
    beside = _jobs(hold for hold in held.on_node(machine.name) if hold.job != job)
    who = f"{job} beside {beside}" if beside else job
    if pod.place.cpu and machine.cpu is not None and cpu > machine.cpu:
        raise Refused(f"Node {machine.name} has {machine.cpu:g} CPU cores; {who} would use {cpu:g}.")
    if pod.place.memory_mib and machine.memory_mib is not None and memory > machine.memory_mib:
        raise Refused(f"Node {machine.name} has {machine.memory_mib} MiB of host memory; {who} would use {memory}.")


def remade(
    machine: Machine, gpu: int, *, destroy: tuple[MigInstance, ...], create: tuple[MigInstance, ...], held: Holdings
) -> Device:
    """The device as it will be; the same device when all is done already. Raises Refused when it must not be remade."""
    device, on_gpu = machine.device(gpu), held.on(machine.name, gpu)
    kept = tuple(instance for instance in device.instances if instance not in destroy or instance in create)
    wanted = tuple(sorted({*kept, *create}))
    if wanted == tuple(sorted(device.instances)):
        return device
    _check_remake(machine, device, on_gpu, held)
    for hold in on_gpu:
        if hold.instance not in wanted:
            raise Refused(f"{_gpu(machine, device)} is held {_as(hold)} by {hold.job}: it cannot be remade.")
    if why := illegal_layout(machine.gpu, wanted):
        raise Refused(f"{_gpu(machine, device)} cannot be cut like that: {why}.")
    return Device(gpu, wanted, device.healthy)


def _check_remake(machine: Machine, device: Device, on_gpu: list[Hold], held: Holdings) -> None:
    if machine.mig is MigRemake.NEVER:
        raise Refused(f"The MIG layout of node {machine.name} is never remade, so GPU {device.index} stays as it is.")
    in_the_way = held.on_node(machine.name) if machine.mig is MigRemake.EMPTY_NODE else on_gpu
    if machine.mig is not MigRemake.SLICE and in_the_way:
        what = "node" if machine.mig is MigRemake.EMPTY_NODE else "GPU"
        raise Refused(
            f"{_gpu(machine, device)} can be remade only while the {what} is empty; {_jobs(in_the_way)} is on it."
        )


def _gpu(machine: Machine, device: Device) -> str:
    return f"GPU {device.index} of node {machine.name}"


def _as(hold: Hold) -> str:
    if hold.instance is not None:
        return f"as slice {hold.instance}"
    return f"as a share of {hold.milli}/1000" if hold.is_share else "whole"


def _jobs(holds: Iterable[Hold]) -> str:
    return " and ".join(sorted({hold.job for hold in holds}))
