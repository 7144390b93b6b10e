"""The seam: what a source of data must offer. `laminar.testing.source_contract` holds every source to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory
    from laminar.data.room import Room

Progress = Callable[[str, int, int | None], None]  # what, how much is done, of how much (None: not known)


def silent(what: str, done: int, total: int | None) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Opening:
    """How a source is to be opened: what is remembered of its files, where big arrays go, whom to tell."""

    room: Room
    memory: Memory | None = None
    progress: Progress = silent
    notes: list[str] = field(default_factory=list)  # what the user should hear of: images skipped


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What can be known of a source without opening it."""

    digest: str  # sha256 of the samples in their order, wherever they lie
    classes: tuple[str, ...] | None  # None: regression
    own_test: bool  # brings a test set of its own
    settings: dict[str, Any] = {}  # what else decides the samples, with defaults filled in
    sides: tuple[int, ...] | None = None  # height and width of its images, () where samples are none; None: not known without opening


class Source(Protocol):
    @property
    def kind(self) -> str: ...

    def contents(self, memory: Memory) -> Contents:
        """Cheap when `memory` knows the files; opens no data then."""
        ...

    def open(self, how: Opening) -> Opened:
        """The samples, in the order that `contents` digests."""
        ...


_ARRAYS: Final = frozenset({"npz", "safetensors", "npy", "python"})


def kind_in_key(source: Source) -> str:
    """What a fingerprint calls it. The content of arrays is that of the arrays, whatever held them."""
    return "arrays" if source.kind in _ARRAYS else source.kind
