"""The C++ engine; its objects are documented in src/bindings/."""

from typing import Any

def __getattr__(name: str) -> Any: ...
