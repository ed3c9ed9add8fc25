"""Specific reservations of Compute Engine. They have no labels: ours are told by their description."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Final

from gpufleet.clouds.base import Reservation
from gpufleet.clouds.gcp.clients import Clients
from gpufleet.clouds.gcp.config import GcpConfig, GcpSale
from gpufleet.clouds.gcp.errors import Exists
from gpufleet.clouds.gcp.launching import prefix, request_id, token_label
from gpufleet.errors import NotFound, Refused

STATES: Final = {"READY": "active", "CREATING": "pending", "UPDATING": "active"}


class Reservations:
    """The reservations of one project."""

    def __init__(self, config: GcpConfig, clients: Clients) -> None:
        self._config, self._clients = config, clients

    def all(self) -> tuple[Reservation, ...]:
        return tuple(found for raw in self._raw() if (found := _reservation(raw, self._config.fleet)) is not None)

    def reserve(self, sale: GcpSale, count: int, token: str) -> Reservation:
        name, zone = f"{prefix(self._config.fleet)}{token_label(token)}", sale.offering.zone
        told = {"fleet": self._config.fleet, "token": token, "offering": sale.offering.name}
        machine = {"machine_type": sale.offering.instance_type}
        asked = {
            "project": self._config.project,
            "zone": zone,
            "request_id": request_id("reserve", self._config.fleet, token),
            "reservation_resource": {
                "name": name,
                "description": json.dumps(told),
                "specific_reservation": {"count": count, "instance_properties": machine},
                "specific_reservation_required": True,
            },
        }
        with contextlib.suppress(Exists):  # an earlier try made it
            self._clients.wait(zone, self._clients.ask("ReservationsClient", "insert_unary", asked))
        found = next((one for one in self.all() if one.id == name), None)
        if found is None:
            raise Refused(f"Reservation {name} was made and has ended since; reserve with another token.")
        return found

    def cancel(self, id: str) -> None:
        zone = next((raw.zone.rsplit("/", 1)[-1] for raw in self._raw() if raw.name == id), "")
        if not zone:
            return
        asked = {
            "project": self._config.project,
            "zone": zone,
            "reservation": id,
            "request_id": request_id("cancel", id),
        }
        try:
            self._clients.wait(zone, self._clients.ask("ReservationsClient", "delete_unary", asked))
        except NotFound:
            return

    def _raw(self) -> list[Any]:
        asked = {"project": self._config.project, "filter": f'name eq "{prefix(self._config.fleet)}.*"'}
        return self._clients.list("ReservationsClient", "aggregated_list", asked, lambda raw: raw[1].reservations)


def _reservation(raw: Any, fleet: str) -> Reservation | None:
    try:
        told = json.loads(raw.description)
    except ValueError:
        return None
    if not isinstance(told, dict) or told.get("fleet") != fleet:
        return None
    specific = raw.specific_reservation
    return Reservation(
        id=raw.name,
        offering=str(told.get("offering", "")),
        count=int(specific.count),
        used=int(specific.in_use_count),
        state=STATES.get(raw.status, "ended"),
        token=str(told.get("token", "")),
    )
