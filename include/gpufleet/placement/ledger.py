"""Who holds what on every node, with undo: try, then keep or take back.

One ledger lives as long as one pass. Every change of a card is logged with the card it replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from gpufleet.errors import Invalid
from gpufleet.model.hardware import MigRemake, Node
from gpufleet.model.plan import Reason
from gpufleet.model.snapshot import PodPlace, Running
from gpufleet.placement import card as cards
from gpufleet.placement.card import Card
from gpufleet.placement.geometry import Geometry, geometry


class NodeBook:
    """One node's cards and host resources now, and what was derived from them since the last change."""

    __slots__ = ("cards", "cpu", "cut", "free", "has_host", "memo", "memory_mib", "node", "running", "table", "usable")

    def __init__(self, node: Node, *, every_device: bool) -> None:
        self.node = node
        self.table: Geometry = geometry(node.model)
        devices = {d.index: d for d in node.devices}
        every = range(max(devices, default=-1) + 1)
        self.cards = [Card(free=devices[i].instances if i in devices else ()) for i in every]
        self.usable = tuple(i in devices and (every_device or devices[i].healthy) for i in every)
        self.cpu, self.memory_mib = node.cpu, node.memory_mib
        self.has_host = node.cpu is not None or node.memory_mib is not None
        self.running: set[str] = set()
        """Jobs that run here now and stay: they stand in the way of a remake."""
        self.memo: dict[Any, Any] = {}
        self.free: tuple[int, ...] = ()
        """Cards that could be given whole."""
        self.cut = False
        """Whether free instances exist on any card."""
        self.refresh()

    def refresh(self) -> None:
        """Forget what was derived; called after every change."""
        self.memo.clear()
        self.cut = False
        free = []
        for index, card in enumerate(self.cards):
            if card.free:
                self.cut = True
            if self.usable[index] and card.is_untouched and (not card.free or self.may_remake(index)):
                free.append(index)
        self.free = tuple(free)

    def may_remake(self, index: int) -> bool:
        """Whether instances of that card may be created or destroyed now (formats.md section 1, `mig`)."""
        match self.node.mig:
            case MigRemake.SLICE:
                return True
            case MigRemake.EMPTY_GPU:
                return not self.running.intersection(self.cards[index].holders())
            case MigRemake.EMPTY_NODE:
                return not any(self.running.intersection(card.holders()) for card in self.cards)
            case _:
                return False


class Ledger:
    """All nodes' books. `ignore` names constraints left out in a what-if (host-resources, memory)."""

    def __init__(
        self,
        nodes: Iterable[Node],
        running: Iterable[Running] = (),
        *,
        every_device: bool = False,
        ignore: frozenset[Reason] = frozenset(),
    ) -> None:
        self.books = {n.name: NodeBook(n, every_device=every_device) for n in nodes}
        self.ignore = ignore
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
            book.running.add(run.job.id)
            self.add(place, run.job.id)
            return
        for piece in place.slices:
            card, mask = book.cards[piece.gpu], book.table.mask(piece.instance)
            existing = book.table.masks(card.free) | card.taken
            if not existing & mask and card.whole is None and not card.shares:
                book.cards[piece.gpu] = replace(card, free=(*card.free, piece.instance))

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
        touched = {}
        while len(self._log) > mark:
            book, index, old = self._log.pop()
            if index < 0:
                book.cpu, book.memory_mib = old
            else:
                book.cards[index] = old
            touched[book.node.name] = book
        for book in touched.values():
            book.refresh()

    def _set(self, book: NodeBook, index: int, card: Card) -> None:
        self._log.append((book, index, book.cards[index]))
        book.cards[index] = card

    # ------------------------------------------------------------ steps

    def add(self, place: PodPlace, job: str) -> None:
        """Give a place to a job."""
        book = self.books[place.node]
        for gpu in place.gpus:
            self._set(book, gpu, cards.with_whole(book.cards[gpu], job))
        for piece in place.slices:
            self._set(book, piece.gpu, cards.with_slice(book.cards[piece.gpu], book.table, piece.instance, job))
        for share in place.shares:
            self._set(book, share.gpu, cards.with_share(book.cards[share.gpu], job, share))
        self._host(book, place, -1)
        book.refresh()

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
        book.refresh()

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
                self._set(book, gpu, replace(book.cards[gpu], whole=holder))
        for piece in place.slices:
            card = book.cards[piece.gpu]
            if card.whole is None and not card.shares:
                self._set(book, piece.gpu, cards.with_hold(card, holder, book.table.mask(piece.instance)))
        for share in place.shares:
            card = book.cards[share.gpu]
            if card.whole is None and not card.taken:
                held = (*card.shares, (holder, share.milli, share.memory_mib))
                self._set(book, share.gpu, replace(card, shares=held))
        book.refresh()

    def lift(self, holder: str, nodes: Iterable[str]) -> None:
        """Open what that holder held on those nodes."""
        for name in nodes:
            book = self.books[name]
            for index, card in enumerate(book.cards):
                if holder in card.holders():
                    self._set(book, index, cards.without_hold(card, book.table, holder))
            book.refresh()
