"""What all real clouds share: a look that is kept for a while, offerings at their prices, one token = one purchase."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Generic, TypeVar

import structlog

from gpufleet.clock import Clock
from gpufleet.errors import Invalid, NotFound, Refused
from gpufleet.model.capacity import CapacityType, Instance, Offering
from gpufleet.procurement.prices import Quote, priced

log = structlog.get_logger()
T = TypeVar("T")

Source = Callable[[], tuple[Quote, ...]]
"""Where prices come from; asked as often as they are refreshed."""


def twins(sold: Iterable[Offering]) -> tuple[Offering, ...]:
    """For each spot offering the same machine on demand, where that is not sold as well: its price is only compared with."""
    offerings = tuple(sold)
    there = {(o.region, o.instance_type) for o in offerings if o.capacity is CapacityType.ON_DEMAND}
    spot = (o for o in offerings if o.capacity is CapacityType.SPOT and (o.region, o.instance_type) not in there)
    found = {(o.region, o.instance_type): o for o in sorted(spot, key=lambda o: o.name, reverse=True)}
    return tuple(
        replace(o, name=f"{o.name}/on-demand", capacity=CapacityType.ON_DEMAND) for _, o in sorted(found.items())
    )


class Recent(Generic[T]):
    """The last answer, for so long; every caller of a round shares it. Safe in threads."""

    def __init__(self, look: Callable[[], T], clock: Clock, length: timedelta) -> None:
        self._look, self._clock, self._length = look, clock, length
        self._lock = threading.Lock()
        self._found: tuple[T, datetime] | None = None

    def get(self) -> T:
        with self._lock:
            now = self._clock.now()
            if self._found is None or now - self._found[1] >= self._length:
                self._found = (self._look(), now)
            return self._found[0]

    def forget(self) -> None:
        with self._lock:
            self._found = None


class Shop:
    """The offerings of a configuration at the prices that their sources tell."""

    def __init__(self, sold: Sequence[Offering], sources: Iterable[Source], clock: Clock, refresh: timedelta) -> None:
        self._sold, self._sources, self._clock = tuple(sold), tuple(sources), clock
        self._quotes = Recent(self._fetch, clock, refresh)
        self._told: set[str] = set()

    def quotes(self) -> tuple[Quote, ...]:
        return self._quotes.get()

    def offerings(self) -> tuple[Offering, ...]:
        compared = (*self._sold, *twins(self._sold))
        found = priced(compared, self.quotes(), self._clock.now())[: len(self._sold)]
        doubts = {f"{offering.name}: {doubt.doubt}, {doubt.detail}" for offering, doubt in found if doubt is not None}
        for new in sorted(doubts - self._told):
            log.warning("a price is not used to buy", price=new)
        self._told = doubts
        return tuple(offering for offering, _ in found)

    def _fetch(self) -> tuple[Quote, ...]:
        """A later source speaks for what an earlier one also tells."""
        found = {quote.offering: quote for source in self._sources for quote in source()}
        return tuple(found[name] for name in sorted(found))


def sale_named(sales: Iterable[tuple[Offering, T]], name: str, cloud: str) -> tuple[Offering, T]:
    """The offering of that name with what its cloud needs to know of it; raises NotFound."""
    found = next((sale for sale in sales if sale[0].name == name), None)
    if found is None:
        raise NotFound(f"Cloud {cloud} does not sell an offering {name}; look into its offerings in fleet.yaml.")
    return found


def check_ask(count: int, token: str) -> None:
    if count < 1 or not token:
        raise Invalid(f"A launch needs a token and a count of at least 1; got '{token}' and {count}.")


def check_same(known: Sequence[Instance], offering: str, count: int, token: str) -> None:
    """A token buys one thing: raises Refused when it bought another offering, or more than is asked now."""
    if {instance.offering for instance in known} - {offering} or len(known) > count:
        raise Refused(f"Token {token} bought {len(known)} of {known[0].offering} before and buys nothing else.")


def fingerprint(*parts: object, length: int = 12) -> str:
    """A short name made of others, the same for the same; hexadecimal, so that every cloud takes it as a name."""
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:length]
