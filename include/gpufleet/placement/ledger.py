"""Who holds what on every node, with undo: try, then keep or take back.

One ledger lives as long as one pass. Every change of a card is logged with the card it replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from gpufleet.errors import Invalid
from gpufleet.model.hardware import MOST_GPUS, Link, MigRemake, Node
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace, Running
from gpufleet.placement import card as cards
from gpufleet.placement.card import Card
from gpufleet.placement.geometry import Geometry, geometry
from gpufleet.placement.potential import Potential, potential_of

EMPTY: Final = Card()


class NodeBook:
    """One node's cards and host resources now, and what was derived from them since the last change."""

    __slots__ = (
        "cards",
        "cpu",
        "cut",
        "free",
        "has_host",
        "kind",
        "memo",
        "memory_mib",
        "milli",
        "node",
        "number",
        "places",
        "running",
        "spare_mib",
        "table",
        "usable",
        "version",
    )

    def __init__(self, node: Node, number: int, *, every_device: bool) -> None:
        if len(node.devices) > MOST_GPUS:
            raise Invalid(f"{node.name} has {len(node.devices)} GPUs, more than the {MOST_GPUS} of any machine.")
        self.node, self.number, self.version = node, number, 0
        self.table: Geometry = geometry(node.model)
        devices = {d.index: d for d in node.devices}
        every = range(max(devices, default=-1) + 1)
        self.cards = [
            Card(free=devices[i].instances) if i in devices and devices[i].instances else EMPTY for i in every
        ]
        self.usable = tuple(i in devices and (every_device or devices[i].healthy) for i in every)
        self.cpu, self.memory_mib = node.cpu, node.memory_mib
        self.has_host = node.cpu is not None or node.memory_mib is not None
        self.kind = 0
        """The ledger's number of such nodes."""
        self.running: set[str] = set()
        """Jobs that run here now and stay: they stand in the way of a remake."""
        self.memo: dict[Any, Any] = {}
        self.free: tuple[int, ...] = ()
        """Cards that could be given whole."""
        self.milli = [0] * len(self.cards)
        """By card, the thousandths a share could still get."""
        self.spare_mib = [0] * len(self.cards)
        """By card, the memory shares could still get."""
        self.places: dict[str, tuple[list[Any], set[int]]] = {}
        """By profile what `demand` found out, card by card, and the cards that have changed since."""
        self.cut = False
        """Whether free instances exist on any card."""

    def refresh(self) -> None:
        """Work out anew what follows from the cards."""
        for index in range(len(self.cards)):
            self._derive(index)
        self.places.clear()
        self._collect()

    def touch(self, indices: Iterable[int]) -> None:
        """The same when only these cards have changed."""
        if self.node.mig is MigRemake.EMPTY_NODE or self.node.link is Link.NVLINK_PAIRS:
            indices = range(len(self.cards))  # there one card decides about others
        for index in indices:
            self._derive(index)
        for _, stale in self.places.values():
            stale.update(indices)
        self._collect()

    def _derive(self, index: int) -> None:
        card = self.cards[index]
        open_ = self.usable[index] and not (card.whole or card.taken or card.used)
        if not open_ or (card.free and not self.may_remake(index)):
            self.milli[index] = self.spare_mib[index] = 0
        elif card.shares:
            self.milli[index] = 1000 - card.milli
            self.spare_mib[index] = self.node.model.memory_mib - card.memory_mib
        else:
            self.milli[index], self.spare_mib[index] = 1000, self.node.model.memory_mib

    def _collect(self) -> None:
        self.memo.clear()
        self.cut = any([card.free for card in self.cards])
        self.free = tuple([i for i, milli in enumerate(self.milli) if milli == 1000])

    def may_remake(self, index: int) -> bool:
        """Whether instances of that card may be created or destroyed now (formats.md section 1, `mig`)."""
        match self.node.mig:
            case MigRemake.SLICE:
                return True
            case MigRemake.EMPTY_GPU:
                return not self._has_running(self.cards[index])
            case MigRemake.EMPTY_NODE:
                return not any(map(self._has_running, self.cards))
            case _:
                return False

    def _has_running(self, card: Card) -> bool:
        """Whether somebody who runs here has the card, or holds it until he has moved (`~name`)."""
        return any(holder.removeprefix("~") in self.running for holder in card.holders())


class Ledger:
    """All nodes' books. `ignore` names constraints left out in a what-if (host-resources, memory)."""

    def __init__(
        self,
        nodes: Iterable[Node],
        running: Iterable[Running] = (),
        *,
        every_device: bool = False,
        ignore: frozenset[Reason] = frozenset(),
        potential: Potential | None = None,
    ) -> None:
        self.books = {n.name: NodeBook(n, i, every_device=every_device) for i, n in enumerate(nodes)}
        self.ignore = ignore
        self.potential = potential or potential_of()
        self.touched: list[int] = []
        """Numbers of the books that changed, in the order of the changes: what arrays over nodes follow."""
        self.pools: dict[Any, Any] = {}
        """`pool` keeps its arrays here."""
        self._states: dict[object, int] = {}
        for book in self.books.values():
            node = book.node
            book.kind = self._number((id(node.model), node.sharing, node.link, node.capacity))
        self._log: list[tuple[NodeBook, int, Any]] = []
        for run in sorted(running, key=lambda r: r.leaving):
            for place in run.places:
                if place.node in self.books:
                    self._adopt(place, run)
        for book in self.books.values():
            book.refresh()
        self._log.clear()
        self.initial = {name: tuple(book.cards) for name, book in self.books.items()}

    def _adopt(self, place: PodPlace, run: Running) -> None:
        """A place that is held already. Who is leaving holds nothing any more, but his instances still exist."""
        book = self.books[place.node]
        if place.devices and place.devices[-1] >= len(book.cards):
            raise Invalid(f"{run.job.id} runs on GPU {place.devices[-1]} of {place.node}, which has {len(book.cards)}.")
        if not run.leaving:
            book.running.add(run.job.id)  # who stays stands in the way of a remake
            self._put(book, place, run.job.id)
            return
        for piece in place.slices:
            card, mask = book.cards[piece.gpu], book.table.mask(piece.instance)
            existing = book.table.masks(card.free) | card.taken
            if not existing & mask and card.whole is None and not card.shares:
                book.cards[piece.gpu] = card._replace(free=(*card.free, piece.instance))

    def state(self, book: NodeBook) -> int:
        """A number that two nodes have in common when they are as good as each other for whole GPUs and shares."""
        found: int | None = book.memo.get("state")
        if found is None:
            cut = [len(card.free) for card in book.cards] if book.cut else ()
            what = book.kind, book.cpu, book.memory_mib, *book.milli, *book.spare_mib, *cut
            found = book.memo["state"] = self._number(what)
        return found

    def _number(self, what: object) -> int:
        return self._states.setdefault(what, len(self._states))

    # ------------------------------------------------------------ undo

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """All or nothing: an exception inside the block takes every step back."""
        mark = self.mark()
        try:
            yield
        except BaseException:
            self.rollback(mark)
            raise

    def mark(self) -> int:
        return len(self._log)

    def rollback(self, mark: int) -> None:
        """Take back every step after `mark`."""
        touched: dict[str, tuple[NodeBook, set[int]]] = {}
        while len(self._log) > mark:
            book, index, old = self._log.pop()
            indices = touched.setdefault(book.node.name, (book, set[int]()))[1]
            if index < 0:
                book.cpu, book.memory_mib = old
            else:
                book.cards[index] = old
                indices.add(index)
        for book, indices in touched.values():
            self._changed(book, indices)

    def _changed(self, book: NodeBook, indices: Iterable[int]) -> None:
        book.touch(indices)
        book.version += 1
        self.touched.append(book.number)

    def _set(self, book: NodeBook, index: int, card: Card) -> None:
        self._log.append((book, index, book.cards[index]))
        book.cards[index] = card

    # ------------------------------------------------------------ steps

    def add(self, place: PodPlace, job: str) -> None:
        """Give a place to a job."""
        book = self.books[place.node]
        self._put(book, place, job)
        self._changed(book, place.devices)

    def _put(self, book: NodeBook, place: PodPlace, job: str) -> None:
        for gpu in place.gpus:
            self._set(book, gpu, cards.with_whole(book.cards[gpu], job))
        for piece in place.slices:
            self._set(book, piece.gpu, cards.with_slice(book.cards[piece.gpu], book.table, piece.instance, job))
        for share in place.shares:
            self._set(book, share.gpu, cards.with_share(book.cards[share.gpu], job, share))
        self._host(book, place, -1)

    def drop(self, place: PodPlace, job: str) -> None:
        """Take a place back from a job."""
        book = self.books.get(place.node)
        if book is None:
            return
        for gpu in place.gpus:
            self._set(book, gpu, cards.with_whole(book.cards[gpu], None))
        for piece in place.slices:
            self._set(book, piece.gpu, cards.without_slice(book.cards[piece.gpu], book.table, piece.instance, job))
        for share in place.shares:
            self._set(book, share.gpu, cards.without_share(book.cards[share.gpu], job, share))
        self._host(book, place, +1)
        self._changed(book, place.devices)

    def _host(self, book: NodeBook, place: PodPlace, sign: int) -> None:
        if not place.cpu and not place.memory_mib:
            return
        self._log.append((book, -1, (book.cpu, book.memory_mib)))
        if book.cpu is not None:
            book.cpu += sign * (place.cpu or 0)
        if book.memory_mib is not None:
            book.memory_mib += sign * (place.memory_mib or 0)

    def hold(self, place: PodPlace, holder: str) -> None:
        """Keep what is free of a place from everybody, in the name of a reservation or of a job that leaves it."""
        book = self.books[place.node]
        for gpu in place.gpus:
            if book.cards[gpu].is_untouched:
                self._set(book, gpu, book.cards[gpu]._replace(whole=holder))
        for piece in place.slices:
            card = book.cards[piece.gpu]
            if card.whole is None and not card.shares:
                self._set(book, piece.gpu, cards.with_hold(card, book.table, holder, piece.instance))
        for share in place.shares:
            card = book.cards[share.gpu]
            if card.whole is None and not card.taken:
                held = (*card.shares, (holder, share.milli, share.memory_mib))
                self._set(book, share.gpu, card._replace(shares=held))
        self._changed(book, place.devices)

    def lift(self, holder: str, nodes: Iterable[str]) -> None:
        """Open what that holder held on those nodes."""
        for name in nodes:
            book = self.books[name]
            for index, card in enumerate(book.cards):
                if holder in card.holders():
                    self._set(book, index, cards.without_hold(card, book.table, holder))
            self._changed(book, range(len(book.cards)))
