"""A cloud that only says what it would buy, reserve or give back. What it sells and what runs there is real."""

from __future__ import annotations

from typing import Never

from gpufleet.clouds.base import Cloud, DryRun, Reservation
from gpufleet.model.capacity import Instance


class DryCloud:
    """Stands before a real cloud; every read goes through."""

    def __init__(self, cloud: Cloud) -> None:
        self.name = cloud.name
        self.offerings, self.prices = cloud.offerings, cloud.prices
        self.instances, self.notices, self.heard = cloud.instances, cloud.notices, cloud.heard
        self.reservations, self.blocks, self.positions = cloud.reservations, cloud.blocks, cloud.positions

    def launch(self, offering: str, count: int, *, token: str) -> tuple[Instance, ...]:
        self._only_say(f"buy {count} x {offering} (token {token})")

    def terminate(self, name: str) -> None:
        self._only_say(f"give back {name}")

    def reserve(self, offering: str, count: int, *, token: str, block: str = "") -> Reservation:
        what = f"block {block}" if block else f"{count} x {offering}"
        self._only_say(f"reserve {what} (token {token})")

    def cancel(self, reservation: str) -> None:
        self._only_say(f"cancel reservation {reservation}")

    def _only_say(self, what: str) -> Never:
        raise DryRun(f"Cloud {self.name} runs dry and did not {what}; set dry_run: false in fleet.yaml to let it.")
