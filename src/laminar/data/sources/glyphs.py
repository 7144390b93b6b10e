"""glyphs: letters, digits and shapes drawn by us, any number of them, of any size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.drawing.font import DOMAINS
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import known_args, refuse_image_settings, refuse_rest
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

DRAWING = 1  # raised when the same arguments would draw other pictures
DEFAULTS: dict[str, Any] = {"count": 2000, "size": 16, "domain": "digits", "noise": 0.1, "seed": 0}


@final
class Glyphs:
    kind: ClassVar[str] = "glyphs"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:  # noqa: ARG002 - nothing is read
        refuse_rest(rest, self.kind)
        refuse_image_settings(spec, self.kind, hint="args = { size = 16 } sets the size of glyphs")
        args = known_args(spec.args, DEFAULTS, self.kind)
        self._count = _whole(args, "count", least=1)
        self._size = _whole(args, "size", least=8)
        self._seed = _whole(args, "seed", least=None)
        if not isinstance(args["noise"], int | float) or isinstance(args["noise"], bool) or not 0 <= args["noise"] <= 1:
            raise _bad("noise", args["noise"], "a number from 0 to 1")
        self._noise = float(args["noise"])
        self._domain = args["domain"]
        if not isinstance(self._domain, str) or self._domain not in DOMAINS:
            raise _bad("domain", self._domain, "one of " + ", ".join(DOMAINS) + "; " + did_you_mean(str(self._domain), DOMAINS))

    def contents(self, memory: Memory) -> Contents:  # noqa: ARG002 - a function of its arguments
        settings = {"count": self._count, "size": self._size, "domain": self._domain, "noise": self._noise, "seed": self._seed}
        return Contents(
            digest=digest.of_json(["glyphs", DRAWING, settings]),
            classes=tuple(DOMAINS[self._domain]),
            own_test=False,
            settings=settings,
            sides=(self._size, self._size),
        )

    def open(self, how: Opening) -> Opened:
        from laminar.data.dataset import Opened, Split
        from laminar.data.drawing.draw import draw

        x, y = draw(self._domain, self._count, size=self._size, noise=self._noise, seed=self._seed, progress=how.progress)
        return Opened(Split(x, y), None, tuple(DOMAINS[self._domain]))


def _whole(args: dict[str, Any], name: str, *, least: int | None) -> int:
    value = args[name]
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise _bad(name, value, "a whole number" + (f" from {least}" if least is not None else ""))
    return value


def _bad(name: str, value: object, expected: str) -> LaminarError:
    return LaminarError(
        "L109", f"args.{name}: {value!r}, expected {expected}", hint=f"args = {{ {name} = {DEFAULTS[name]!r} }}".replace("'", '"')
    )
