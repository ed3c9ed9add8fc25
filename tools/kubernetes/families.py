"""What is built: four Go modules, because their dependencies conflict, and what of their folders is kept beside them."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MODULES: Final = Path(__file__).with_name("go")
"""One folder per family, with `go.mod` and `go.sum`; nothing else of theirs is in this project."""


@dataclass(frozen=True, slots=True)
class Family:
    """Commands of one Go module. `kept` are files of the module's folder (globs) that a start needs beside them."""

    name: str
    module: str
    commands: tuple[str, ...]
    stamp: str = ""
    """Flags of the linker that say the version; `{version}`, `{major}` and `{minor}` are filled in."""
    kept: tuple[str, ...] = ()
    modules: Path = field(default=MODULES, repr=False)

    @property
    def folder(self) -> Path:
        return self.modules / self.name

    @property
    def version(self) -> str:
        """As go.mod asks for it, with its `v`."""
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", self._gomod(), re.MULTILINE)
        assert found, f"{self.folder / 'go.mod'} does not require {self.module}"
        return found[1]

    @property
    def linker_flags(self) -> str:
        major, minor, _ = self.version[1:].split(".", 2)
        return f"-s -w {self.stamp.format(version=self.version, major=major, minor=minor)}".rstrip()

    @property
    def home(self) -> str:
        """Name of its folder in the cache: another version, dependency or flag is another folder."""
        seed = "\n".join([self._gomod(), (self.folder / "go.sum").read_text(), repr(self)])
        return f"{self.name}-{self.version}-{hashlib.sha256(seed.encode()).hexdigest()[:8]}"

    def _gomod(self) -> str:
        return (self.folder / "go.mod").read_text()


FAMILIES: Final = (
    Family("etcd", "go.etcd.io/etcd/server/v3", ("etcd=go.etcd.io/etcd/server/v3",)),
    Family(
        "kubernetes",
        "k8s.io/kubernetes",
        (
            "kube-apiserver=k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-scheduler=k8s.io/kubernetes/cmd/kube-scheduler",
            "kube-controller-manager=k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
        # unstamped, the server says v0.0.0-master, and clients and Kueue misjudge it
        stamp="-X k8s.io/component-base/version.gitVersion={version} -X k8s.io/component-base/version.gitMajor={major}"
        " -X k8s.io/component-base/version.gitMinor={minor}",
    ),
    Family(
        "kwok",
        "sigs.k8s.io/kwok",
        ("kwok=sigs.k8s.io/kwok/cmd/kwok",),
        kept=("kustomize/stage/node/*/node-*.yaml", "kustomize/stage/pod/*/pod-*.yaml"),
    ),
    Family(
        "kueue",
        "sigs.k8s.io/kueue",
        ("kueue=sigs.k8s.io/kueue/cmd/kueue",),
        kept=("config/components/crd/bases/*.yaml", "config/components/webhook/manifests.yaml"),
    ),
)


def cache_folder() -> Path:
    """Where everything built lies, outside the tree."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "gpufleet" / "kubernetes"


@dataclass(frozen=True, slots=True)
class Built:
    """Where what was built lies: the commands, and the kept files under their paths in their module."""

    cache: Path

    def command(self, name: str) -> Path:
        return self._home_of(name) / name

    def kept(self, family: str, pattern: str) -> list[Path]:
        return sorted((self.cache / _named(family).home / "kept").glob(pattern))

    def _home_of(self, name: str) -> Path:
        family = next(f for f in FAMILIES if any(c.startswith(f"{name}=") for c in f.commands))
        return self.cache / family.home


class NotBuilt(Exception):
    """The cache lacks a family; says what to do."""


def already_built(*names: str) -> Built:
    """What `tools.kubernetes.build` built; raises NotBuilt when that was never run for these families' versions."""
    cache = cache_folder()
    if missing := [home for home in (_named(name).home for name in names) if not (cache / home).exists()]:
        raise NotBuilt(
            f"{', '.join(missing)} is not in {cache}: run `python -m tools.kubernetes.build` (ten minutes, once)."
        )
    return Built(cache)


def _named(name: str) -> Family:
    return next(family for family in FAMILIES if family.name == name)
