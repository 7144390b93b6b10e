"""What every strategy is: a table with a kind, workers, and what of it is in a layer's key."""

from __future__ import annotations

from typing import Any

import msgspec


class StrategySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    workers: int = 2

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)

    def key_fields(self) -> dict[str, Any] | None:
        """What determines the result, defaults filled in; None where it is that of one process."""
        return None

    def __post_init__(self) -> None:
        if not 1 <= self.workers <= 4096:
            raise ValueError(f"strategy.workers is {self.workers}, but must be 1 to 4096")


def with_settings(spec: msgspec.Struct) -> dict[str, Any]:
    """For a key: defaults filled in."""
    return {"kind": spec.__struct_config__.tag, **msgspec.structs.asdict(spec)}
