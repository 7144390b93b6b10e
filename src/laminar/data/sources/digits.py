"""digits: the 1,797 handwritten digits of 8x8 pixels that come with Laminar (see packaged/README)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from laminar.core.errors import LaminarError
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import refuse_args, refuse_image_settings, refuse_rest
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

FILE = Path(__file__).with_name("packaged") / "digits.npz"
CONTENT = "6dcef4e25a80f37a15eb7250de0766a403c9b22812ab5fec2442dfa334c37700"
NAMES = tuple("0123456789")


@final
class Digits:
    kind: ClassVar[str] = "digits"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:  # noqa: ARG002 - packaged, so there is no place to look in
        refuse_rest(rest, self.kind)
        refuse_args(spec, self.kind)
        refuse_image_settings(spec, self.kind)

    def contents(self, memory: Memory) -> Contents:  # noqa: ARG002 - known when the package was made
        return Contents(digest=CONTENT, classes=NAMES, own_test=False, sides=(8, 8))

    def open(self, how: Opening) -> Opened:  # noqa: ARG002
        import numpy as np

        from laminar.data.dataset import Opened, Split
        from laminar.data.formats.content import opened_digest
        from laminar.data.formats.npz import read_npz

        arrays = read_npz(FILE)
        opened = Opened(Split(arrays["x"], arrays["y"].astype(np.int64)), None, NAMES)
        if opened_digest(opened) != CONTENT:
            raise LaminarError(
                "L102", f"{FILE} is not the file that was packaged", hint="pip install --force-reinstall --no-deps laminar-train"
            )
        return opened
