"""(being built)"""
from typing import Any
def settle_day(fleet: Any, day: str) -> dict[str, Any]:
    raise NotImplementedError
