"""Owner words: what the owner of a node said about it when it joined, as it was said. `grid join` without a URL goes by it again.

Whatever is said again counts from then on; with the URL all begins anew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.grid.node.home import Home
from laminar.grid.node.limits import Limits, read

FILE: Final = "limits.json"


class OwnerWords(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of options of `grid join`; None, or False, where the owner said nothing."""

    name: str | None = None
    cpu: str | None = None
    memory: str | None = None
    hours: str | None = None
    kernels: str | None = None  # a folder, absolute
    only_idle: bool = False
    battery: bool = False
    allow_private: bool = False

    @property
    def limits(self) -> Limits:
        """L008 for what cannot be."""
        return read(
            cpu=self.cpu or "100%",
            memory=self.memory,
            only_idle=self.only_idle,
            hours=self.hours,
            battery=self.battery,
            private=self.allow_private,
        )

    def over(self, before: OwnerWords) -> OwnerWords:
        """These, and those from before where nothing is said now."""
        return msgspec.structs.replace(before, **{name: value for name, value in msgspec.structs.asdict(self).items() if value})

    @property
    def options(self) -> list[str]:
        """The words of a command line that say the same."""
        said = {f"--{name.replace('_', '-')}": value for name, value in msgspec.structs.asdict(self).items() if value}
        return [word for option, value in said.items() for word in ([option] if value is True else [option, str(value)])]


def remembered(home: Home) -> OwnerWords:
    """L503 where they cannot be read: the owner's limits are not as if nothing had been said."""
    try:
        return msgspec.json.decode((home.root / FILE).read_bytes(), type=OwnerWords)
    except FileNotFoundError:
        return OwnerWords()
    except (msgspec.DecodeError, OSError) as error:
        raise LaminarError(
            "L503", f"{home.root / FILE}, with what its owner allows, cannot be read: {error}", hint="delete it, and say the limits again"
        ) from error


def remember(home: Home, words: OwnerWords) -> None:
    atomic.write_bytes(home.root / FILE, msgspec.json.encode(words), mode=0o600)
