"""The checkpoint store as a rank writes it, a folder or whatever fsspec reaches. A write is whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gpufleet.training.manifest import MANIFEST_NAME, Files, sha256_of_file

_CANNOT_SYNC_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)
"""What some network filesystems answer; they make a name durable together with the file."""


class Store(Files, Protocol):
    """Paths are relative to the root. Trouble is an OSError, or what the store's SDK raises."""

    def write(self, path: str, data: bytes) -> None:
        """Create or replace. A reader sees the old bytes or the new ones, also after a crash."""
        ...

    def create(self, path: str, data: bytes) -> bool:
        """Like `write`, but False, with nothing changed, when *path* is there already."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, and what an interrupted write of it left; absent is fine."""
        ...

    def remove_save(self, folder: str) -> None:
        """Remove a save, its manifest first: half removed it must not look complete."""
        ...

    def location(self, path: str) -> str:
        """*path* in full, to show to a person."""
        ...


def open_store(url: str) -> Store:
    """Raises ValueError when nothing installed here can reach *url*."""
    for prefix in ("file://", "local://"):
        url = url.removeprefix(prefix)
    return ObjectStore(url) if "://" in url or "::" in url else LocalStore(Path(url))


class LocalStore:
    """A folder, possibly on a shared filesystem."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(entry.name for entry in (self._root / folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def size(self, path: str) -> int | None:
        target = self._root / path
        return target.stat().st_size if target.is_file() else None

    def sha256(self, path: str) -> str | None:
        try:
            with (self._root / path).open("rb") as file:
                return sha256_of_file(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        target = self._root / path
        temporary = self._written_beside(target, data)
        try:
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)

    def create(self, path: str, data: bytes) -> bool:
        target = self._root / path
        temporary = self._written_beside(target, data)
        try:
            # A link fails where a rename would replace: of two writers exactly one wins.
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError:  # a filesystem without hard links; there the last look is all there is
            if target.exists():
                return False
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
        return True

    def remove(self, path: str) -> None:
        target = self._root / path
        for left in (target, *target.parent.glob(f".{target.name}.*")):
            left.unlink(missing_ok=True)
        with suppress(OSError):  # other ranks' parts may still lie here
            target.parent.rmdir()

    def remove_save(self, folder: str) -> None:
        (self._root / folder / MANIFEST_NAME).unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # someone else removed the rest
            shutil.rmtree(self._root / folder)

    def location(self, path: str) -> str:
        return str(self._root / path)

    def _written_beside(self, target: Path, data: bytes) -> Path:
        """The bytes in a temporary file of the same folder, safe on disk."""
        _make_folder(target.parent)
        # The process id keeps two writers of one file (a zombie and its successor) apart.
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return temporary


class ObjectStore:
    """Anything fsspec can reach. One put makes an object, so there is nothing to rename.

    Listings are never taken from fsspec's cache: other processes write here.
    """

    def __init__(self, url: str) -> None:
        import fsspec  # type: ignore[import-untyped,unused-ignore]  # a job on a shared disk needs none

        try:
            fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise ValueError(f"The checkpoint store {url} cannot be reached from here: {error}") from error
        self._fs: Any = fs
        self._root = str(root).rstrip("/")

    def names(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            entries: list[str] = self._fs.ls(self._full(folder), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entry.rstrip("/").rpartition("/")[2] for entry in entries)

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self._fs.cat_file(self._full(path)))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def size(self, path: str) -> int | None:
        self._fs.invalidate_cache()
        try:
            info = self._fs.info(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return int(info["size"]) if info["type"] == "file" else None

    def sha256(self, path: str) -> str | None:
        self._fs.invalidate_cache()
        try:
            with self._fs.open(self._full(path), "rb") as file:
                return sha256_of_file(file)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        self._put(path, data)

    def create(self, path: str, data: bytes) -> bool:
        try:
            self._put(path, data, mode="create")
        except FileExistsError:
            return False
        return True

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):  # absent is fine
            self._fs.rm_file(self._full(path))

    def remove_save(self, folder: str) -> None:
        self.remove(f"{folder}/{MANIFEST_NAME}")
        self._fs.invalidate_cache()
        with suppress(FileNotFoundError):  # a store without folders: it went with its last file
            self._fs.rm(self._full(folder), recursive=True)

    def location(self, path: str) -> str:
        return str(self._fs.unstrip_protocol(self._full(path)))

    def _put(self, path: str, data: bytes, **mode: str) -> None:
        full = self._full(path)
        try:
            self._fs.pipe_file(full, data, **mode)
        except FileNotFoundError:  # not an object store: this filesystem wants its folders made first
            self._fs.makedirs(full.rpartition("/")[0], exist_ok=True)
            self._fs.pipe_file(full, data, **mode)

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"


def _make_folder(folder: Path) -> None:
    """Every new level is made durable in the one above it; without that a crash can lose the whole save."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise
    finally:
        os.close(handle)
