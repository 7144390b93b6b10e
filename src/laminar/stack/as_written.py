"""A layer and its data as laminar.toml says them, for the record of a build. Records are pushed, so passwords stay behind.

What a URL says beside its place is no input of a key: the same layer has the same record, whoever built it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from laminar.stack.read import StackFile
from laminar.store.drivers import masked

_SCHEME: Final = r"[A-Za-z][A-Za-z0-9+.-]*://"
_URL: Final = re.compile(rf"{_SCHEME}.*?(?=,\s*{_SCHEME}|\Z)", re.DOTALL)  # an index may have several addresses


def layer_as_written(file: StackFile, name: str) -> dict[str, Any]:
    found: dict[str, Any] = without_secrets(file.raw["layer"][file.layer_index(name)])
    return found


def data_as_written(file: StackFile, name: str) -> dict[str, Any]:
    return {"name": name, **without_secrets(file.raw["data"][name])}


def without_secrets(value: Any) -> Any:
    """The same with the passwords and tokens of all URLs in it masked, as remotes are shown."""
    if isinstance(value, str):
        return _URL.sub(lambda found: masked(found[0]), value)
    if isinstance(value, dict):
        return {key: without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_secrets(inner) for inner in value]
    return value
