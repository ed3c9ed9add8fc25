"""One project's clients, opened when first used, every one at the configured endpoint: the SDK's own waiting for an
operation would ask the public address instead, so operations are waited for here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

from gpufleet.clouds.asking import ANSWER_SECONDS, Asking
from gpufleet.clouds.gcp.config import GcpConfig
from gpufleet.clouds.gcp.errors import operation_error
from gpufleet.errors import UnderWay

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at an operation."""
DONE: Final = 2104194
"""Operation.Status.DONE."""


class Clients:
    """By name its client; safe in threads."""

    def __init__(self, config: GcpConfig, asking: Asking) -> None:
        self._config, self._asking, self._lock = config, asking, threading.Lock()
        self._opened: dict[str, Any] = {}

    def __call__(self, name: str) -> Any:
        with self._lock:
            if name not in self._opened:
                self._opened[name] = self._open(name)
            return self._opened[name]

    def ask(self, name: str, method: str, request: dict[str, Any]) -> Any:
        """One call that may be repeated; the SDK's own retries are off."""
        call = getattr(self(name), method)
        return self._asking.ask(lambda: call(request=request, retry=None, timeout=ANSWER_SECONDS))

    def list(self, name: str, method: str, request: dict[str, Any], pick: Callable[[Any], Any]) -> list[Any]:
        """Every page of a listing."""
        call = getattr(self(name), method)
        return self._asking.ask(
            lambda: [one for raw in call(request=request, retry=None, timeout=ANSWER_SECONDS) for one in pick(raw)]
        )

    def wait(self, zone: str, operation: Any) -> Any:
        """The operation when it has ended; raises what it ended with, UnderWay when it takes longer than we may."""
        until = time.monotonic() + self._asking.patience
        while operation.status != DONE:
            if time.monotonic() >= until:
                raise UnderWay(f"Cloud {self._config.name} is still at {operation.name}.", retry_after=3.0)
            self._asking.sleep(LOOK_EVERY)
            asked = {"project": self._config.project, "zone": zone, "operation": operation.name}
            operation = self.ask("ZoneOperationsClient", "get", asked)
        if error := operation_error(self._config.name, operation):
            raise error
        return operation

    def _open(self, name: str) -> Any:
        from google.api_core.client_options import ClientOptions
        from google.cloud import compute_v1

        options = ClientOptions(api_endpoint=self._config.endpoint) if self._config.endpoint else None
        return getattr(compute_v1, name)(credentials=self._credentials(), client_options=options)

    def _credentials(self) -> Any:
        if self._config.anonymous:
            from google.auth.credentials import AnonymousCredentials

            return AnonymousCredentials()
        if self._config.credentials is None:
            return None
        from google.oauth2.service_account import Credentials

        scope = "https://www.googleapis.com/auth/cloud-platform"
        return Credentials.from_service_account_info(self._config.credentials, scopes=[scope])
