"""A night's files to a folder or an object store, so that a reader sees a whole set or none.

Every set lies in a folder of its own, named by its day and the digest of its manifest; what is in it never changes. A folder
counts once its manifest is there, which is written last. Then the pointers are replaced: `latest.json` of the month and of the
whole. So the same night published twice is there once, two at once do not mix, and a kill leaves nothing that anyone reads.
Object stores know no rename: nothing here needs one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

MANIFEST: Final = "manifest.json"
LATEST: Final = "latest.json"
BLOCK: Final = 1 << 20


def manifest_of(folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts, and every file of the folder with its size and SHA-256; no time of day, so the same bytes again."""
    files = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        files[path.relative_to(folder).as_posix()] = {"bytes": path.stat().st_size, "sha256": _digest(path)}
    return {"schema": 1, **facts, "files": files}


def _digest(path: Path) -> str:
    found = sha256()
    with path.open("rb") as data:
        while block := data.read(BLOCK):
            found.update(block)
    return found.hexdigest()


def publish(where: str, folder: Path, manifest: Mapping[str, Any]) -> str:
    """Copy the folder's files, then the manifest, then the pointers; answers with the set's address under `where`.

    `where` is a folder or an fsspec URL; `manifest` names its `month` and `day`.
    """
    import fsspec

    store, root = fsspec.core.url_to_fs(where)
    data = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    name = f"period={manifest['month']}/day={manifest['day']}-{sha256(data).hexdigest()[:12]}"
    place = f"{root}/{name}"
    if not store.exists(f"{place}/{MANIFEST}"):
        for file in manifest["files"]:
            store.makedirs(f"{place}/{file}".rpartition("/")[0], exist_ok=True)
            store.put_file(str(folder / file), f"{place}/{file}")
        _put(store, f"{place}/{MANIFEST}", data)
    pointer = json.dumps({"day": manifest["day"], "path": name, "manifest": f"{name}/{MANIFEST}"}, indent=2).encode()
    for at in (f"{root}/period={manifest['month']}/{LATEST}", f"{root}/{LATEST}"):
        if _is_newer(store, at, manifest["day"]):
            _put(store, at, pointer + b"\n")
    return name


def _is_newer(store: Any, pointer: str, day: str) -> bool:
    """An older night that is published again does not take the place of the newest."""
    return not store.exists(pointer) or json.loads(store.cat_file(pointer))["day"] <= day


def _put(store: Any, path: str, data: bytes) -> None:
    """One object is written in one step; on a file system by a file beside it that takes its name."""
    store.makedirs(path.rpartition("/")[0], exist_ok=True)
    if store.protocol == "file" or "file" in store.protocol:
        draft = f"{path}.{token_hex(6)}.draft"
        store.pipe_file(draft, data)
        Path(draft).replace(path)
    else:
        store.pipe_file(path, data)


def thin_out(where: str, today: date, keep_days: int, closed: Iterable[str]) -> list[str]:
    """Remove sets of nights that are older than `keep_days`; answers with what went.

    Kept are the last night of each month, what a pointer names, and all of closed months.
    """
    import fsspec

    store, root = fsspec.core.url_to_fs(where)
    gone = []
    for period in _folders(store, root, "period="):
        pointed = _pointed(store, f"{period}/{LATEST}") | _pointed(store, f"{root}/{LATEST}")
        sets = sorted(_folders(store, period, "day="))
        last = max((_day(s) for s in sets), default=None)
        for one in sets:
            name = one[len(root) :].strip("/")
            old = today - date.fromisoformat(_day(one)) > timedelta(days=keep_days)
            if name not in pointed and _day(one) != last and old and period.rpartition("=")[2] not in closed:
                store.rm(one, recursive=True)
                gone.append(name)
    return gone


def _folders(store: Any, parent: str, begins: str) -> list[str]:
    if not store.isdir(parent):
        return []
    return [p for p in sorted(store.ls(parent, detail=False)) if p.rstrip("/").rpartition("/")[2].startswith(begins)]


def _pointed(store: Any, pointer: str) -> set[str]:
    return {json.loads(store.cat_file(pointer))["path"]} if store.exists(pointer) else set()


def _day(path: str) -> str:
    return path.rstrip("/").rpartition("=")[2][:10]
