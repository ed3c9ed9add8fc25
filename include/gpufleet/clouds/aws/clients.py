"""One region's clients, opened when first used. Retries are ours (`asking`), so the SDK's are off."""

from __future__ import annotations

import threading
from typing import Any

from gpufleet.clouds.asking import ANSWER_SECONDS, CONNECT_SECONDS
from gpufleet.clouds.aws.config import AwsConfig


class Clients:
    """By service its client; safe in threads."""

    def __init__(self, config: AwsConfig) -> None:
        self._config, self._lock = config, threading.Lock()
        self._session: Any = None
        self._opened: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str = "") -> Any:
        key = (service, region or self._config.region)
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self._open(*key)
            return self._opened[key]

    def _open(self, service: str, region: str) -> Any:
        import boto3
        from botocore.config import Config

        if self._session is None:
            self._session = boto3.session.Session(**self._config.credentials)
        how = Config(
            region_name=region,
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
            retries={"total_max_attempts": 1, "mode": "standard"},
        )
        return self._session.client(service, config=how, endpoint_url=self._config.endpoint_url)
