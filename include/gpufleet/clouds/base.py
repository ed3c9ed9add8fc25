"""What every kind of cloud can do."""

from __future__ import annotations

from typing import Protocol

from gpufleet.model.capacity import Instance, Offering


class Cloud(Protocol):
    """A seller of machines."""

    name: str

    def offerings(self) -> tuple[Offering, ...]:
        """What is sold now, with today's prices. Raises Temporary when the cloud does not answer."""
        ...

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        """Buy `count` machines of an offering, all or none; the same token again returns the same machines.

        They join the cluster by themselves after the launch delay. Raises NoCapacity when the cloud has none
        (nothing was bought), NotFound for an offering it does not sell.
        """
        ...

    def instances(self) -> tuple[Instance, ...]:
        """Every machine that carries our fleet's tag, terminated ones for at least an hour after their end."""
        ...

    def terminate(self, name: str) -> None:
        """Give a machine back; one that is gone is done."""
        ...
