"""A checkpoint store seen through fsspec, with its troubles told as ours.

One `StoreFiles` serves one call: it takes the listing of a folder once, which spares a request per rank of a save.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpufleet.errors import Invalid, Permanent, Temporary
from gpufleet.training.manifest import MANIFEST_NAME, sha256_of_file

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder of a listing; a folder has size 0."""

    name: str
    size: int
    is_file: bool


def _entry(item: Mapping[str, Any]) -> Entry:
    is_file = item["type"] == "file"
    return Entry(item["name"].rstrip("/").rpartition("/")[2], int(item["size"]) if is_file else 0, is_file)


class StoreFiles:
    """Reading and removing below the root of a store; satisfies `manifest.Files`."""

    def __init__(self, url: str) -> None:
        import fsspec  # type: ignore[import-untyped,unused-ignore]  # heavy: nothing that only imports us should pay

        self._url = url
        self._listings: dict[str, tuple[Entry, ...]] = {}
        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise Invalid(f"The checkpoint store {url} cannot be reached from here: {error}") from error
        self._fs: Any = fs
        self._root = str(root).rstrip("/")
        self._fs.invalidate_cache()  # the jobs write from elsewhere; fsspec's listings may be old

    def entries(self, folder: str) -> tuple[Entry, ...]:
        """What *folder* holds, sorted by name; empty when there is none."""
        if folder not in self._listings:
            self._listings[folder] = self._list(folder)
        return self._listings[folder]

    def names(self, folder: str) -> list[str]:
        return [entry.name for entry in self.entries(folder)]

    def read(self, path: str) -> bytes | None:
        with self._told(path):
            try:
                return bytes(self._fs.cat_file(self._full(path)))
            except _ABSENT:
                return None

    def size(self, path: str) -> int | None:
        folder, _, name = path.rpartition("/")
        return next((entry.size for entry in self.entries(folder) if entry.name == name and entry.is_file), None)

    def sha256(self, path: str) -> str | None:
        with self._told(path):
            try:
                with self._fs.open(self._full(path), "rb") as file:
                    return sha256_of_file(file)
            except _ABSENT:
                return None

    def changed_at(self, path: str) -> datetime | None:
        """When a file was last written; None when it is gone or the store does not say."""
        with self._told(path):
            try:
                at: datetime = self._fs.modified(self._full(path))
            except (*_ABSENT, NotImplementedError):
                return None
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def remove(self, path: str) -> None:
        """Remove a file; absent is fine."""
        with self._told(path):
            try:
                self._fs.rm_file(self._full(path))
            except _ABSENT:
                return

    def remove_save(self, folder: str) -> None:
        """Remove a save, its manifest first: half removed it must not look complete."""
        self.remove(f"{folder}/{MANIFEST_NAME}")
        with self._told(folder):
            self._fs.invalidate_cache()
            try:
                self._fs.rm(self._full(folder), recursive=True)
            except _ABSENT:  # gone with its last file, or removed by the job itself
                return

    def location(self, path: str) -> str:
        """*path* in full, to show to a person."""
        return str(self._fs.unstrip_protocol(self._full(path)))

    def _list(self, folder: str) -> tuple[Entry, ...]:
        with self._told(folder):
            try:
                found = self._fs.ls(self._full(folder), detail=True)
            except _ABSENT:
                return ()
        return tuple(sorted(map(_entry, found), key=lambda entry: entry.name))

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        """Any trouble of the store as one of ours; SDKs raise types of their own, so everything is caught."""
        try:
            yield
        except PermissionError as error:
            raise Permanent(f"No access to {path} in the checkpoint store {self._url}: {error}") from error
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise Temporary(f"{path} in the checkpoint store {self._url} cannot be reached now: {why}") from error

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"
