"""Owner words: the name and limits that a node's owner gave to `grid join`. `grid join` without a URL uses them again.

An option that is given again replaces the stored one; with a URL the node starts again with default settings.
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
    """Options of `grid join`; None or False for those that the owner did not give."""

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
        """The limits; raises L008 for an invalid one."""
        return read(
            cpu=self.cpu or "100%",
            memory=self.memory,
            only_idle=self.only_idle,
            hours=self.hours,
            battery=self.battery,
            private=self.allow_private,
        )

    def over(self, before: OwnerWords) -> OwnerWords:
        """These options, completed by earlier ones."""
        return msgspec.structs.replace(before, **{name: value for name, value in msgspec.structs.asdict(self).items() if value})

    @property
    def options(self) -> list[str]:
        """The same options as words of a command line."""
        options = {f"--{name.replace('_', '-')}": value for name, value in msgspec.structs.asdict(self).items() if value}
        return [word for option, value in options.items() for word in ([option] if value is True else [option, str(value)])]


def remembered(home: Home) -> OwnerWords:
    """The stored options. Raises L503 if they cannot be read, because running without the owner's limits would be wrong."""
    try:
        return msgspec.json.decode((home.root / FILE).read_bytes(), type=OwnerWords)
    except FileNotFoundError:
        return OwnerWords()
    except (msgspec.DecodeError, OSError) as error:
        raise LaminarError(
            "L503", f"{home.root / FILE}, with the owner's limits, cannot be read: {error}", hint="delete it, and give the limits again"
        ) from error


def remember(home: Home, words: OwnerWords) -> None:
    atomic.write_bytes(home.root / FILE, msgspec.json.encode(words), mode=0o600)
