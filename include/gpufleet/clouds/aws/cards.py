"""Network cards of the instance types with EFA, and the interfaces that a launch must ask for on them.

Sources: AWS "EFA supported instance types" and DescribeInstanceTypes (as kept by moto 5.2.5), read 2026-11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gpufleet.clouds.base import BadRequest


@dataclass(frozen=True, slots=True)
class Cards:
    """How many network cards a type has, and whether EFA is on the first one too."""

    count: int
    first_has_efa: bool = True


CARDS: Final = {
    "p3dn.24xlarge": Cards(1),
    "p4d.24xlarge": Cards(4),
    "p4de.24xlarge": Cards(4),
    "p5.4xlarge": Cards(1),
    "p5.48xlarge": Cards(32),
    "p5e.48xlarge": Cards(32),
    "p5en.48xlarge": Cards(16),
    "p6-b200.48xlarge": Cards(8),
    "p6-b300.48xlarge": Cards(17, first_has_efa=False),
    "g5.48xlarge": Cards(1),
    "g6.48xlarge": Cards(1),
    "g6e.48xlarge": Cards(4),
    "g7e.48xlarge": Cards(4),
}


def interfaces(instance_type: str, subnet: str, groups: tuple[str, ...]) -> list[dict[str, Any]]:
    """NetworkInterfaces of a launch with every EFA card in use; raises BadRequest for a type that is not known.

    The first card carries the only interface with an address. EC2 refuses a public one beside other cards, so none is
    asked for.
    """
    cards = CARDS.get(instance_type)
    if cards is None:
        raise BadRequest(
            f"No EFA cards are known of {instance_type}; use one of {', '.join(sorted(CARDS))}, or efa: false."
        )

    def card(number: int, device: int, kind: str) -> dict[str, Any]:
        place = {"NetworkCardIndex": number, "DeviceIndex": device}
        return place | {"InterfaceType": kind, "SubnetId": subnet, "Groups": list(groups), "DeleteOnTermination": True}

    first = [card(0, 0, "interface"), *([card(0, 1, "efa-only")] if cards.first_has_efa else [])]
    return first + [card(number, 0, "efa-only") for number in range(1, cards.count)]
