"""A sheet to draw on, and what can be made of it: SVG for a page (wide and narrow), SVG, PNG or PDF files.

matplotlib is imported here, and when something is drawn. Text of users is drawn as it stands: no mathematics in it, no markup.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from laminar.core.errors import LaminarError
from laminar.experiments.pictures.palette import TOKENS, Pen
from laminar.experiments.pictures.svg import for_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["svg", "png", "pdf"]
WIDE, NARROW = 8.6, 3.7  # inches: of a page, and of a phone
DOTS: Final = 170  # per inch, of PNG files
_LOOK: Final = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": TOKENS["p-dim"],
    "axes.labelcolor": TOKENS["p-dim"],
    "axes.titlecolor": TOKENS["p-ink"],
    "axes.facecolor": "none",
    "axes.axisbelow": True,
    "figure.facecolor": TOKENS["p-card"],
    "text.color": TOKENS["p-ink"],
    "text.parse_math": False,
    "xtick.color": TOKENS["p-dim"],
    "ytick.color": TOKENS["p-dim"],
    "grid.color": TOKENS["p-grid"],
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "legend.handlelength": 2.8,
    "lines.markersize": 5,
    "pdf.fonttype": 42,
}


@dataclass(frozen=True)
class Hint:
    """What is said where a reader points at. In points from the top left."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Size:
    """Inches high: on a page, and on a phone."""

    wide: float = 3.6
    narrow: float = 3.7


@dataclass(frozen=True)
class Picture:
    """One picture of a report. `drawing` is given a sheet; what it needs to know it was made with."""

    name: str  # of its file: "accuracy-against-time"
    title: str
    caption: str  # what is to be seen, in words; also for those who cannot see it
    drawing: Callable[[Sheet], None]
    size: Size = Size()


@dataclass
class Sheet:
    figure: Figure
    narrow: bool
    _told: list[tuple[Axes, float, float, str]] = field(default_factory=list)

    def axes(self, across: int = 1) -> list[Axes]:
        """So many beside each other; below each other on a phone."""
        shape = (across, 1) if self.narrow else (1, across)
        found = self.figure.subplots(*shape, squeeze=False)
        return [one for row in found for one in row]

    def line(
        self, axes: Axes, xs: Sequence[float], ys: Sequence[float], pen: Pen, label: str, told: Sequence[str] = (), **more: Any
    ) -> None:
        """A series; `told`: what is said of each of its points."""
        style: dict[str, Any] = {"color": pen.colour, "linestyle": pen.dash, "marker": pen.marker or None, "linewidth": pen.width}
        style |= {"markeredgecolor": TOKENS["p-card"], "markeredgewidth": 0.6, "markevery": max(1, len(xs) // 25)}
        axes.plot(xs, ys, label=label, **(style | more))
        for x, y, text in zip(xs, ys, told, strict=False):
            self.tell(axes, x, y, text)

    def tell(self, axes: Axes, x: float, y: float, text: str) -> None:
        self._told.append((axes, x, y, text))

    def legend(self, *axes: Axes, least: int = 2, order: Sequence[str] = ()) -> None:
        """Above the picture, in as many columns as fit; none where there is one series only, which the title names.

        Of several panels each series once, as some may be missing in the first; `order`: of labels, where that is not how they came.
        """
        found = {label: handle for one in reversed(axes) for handle, label in zip(*one.get_legend_handles_labels(), strict=True)}
        if len(found) < least:
            return
        labels = sorted(found, key=lambda label: order.index(label) if label in order else len(order)) if order else list(found)
        handles = [found[label] for label in labels]
        letters = 44 if self.narrow else 105
        columns = max(1, min(len(labels), letters // (max(map(len, labels)) + 7)))
        self.figure.legend(handles, labels, loc="outside upper left", ncols=columns, borderaxespad=0.2, columnspacing=1.4)

    def hints(self) -> list[Hint]:
        height = self.figure.get_figheight() * 72
        found = []
        for axes, x, y, text in self._told:
            across, up = axes.transData.transform((x, y))
            found.append(Hint(round(float(across), 1), round(height - float(up), 1), text))
        return found


def need_matplotlib() -> None:
    """L011 where it is not installed."""
    try:
        import matplotlib
        import matplotlib.backends.backend_agg
        import matplotlib.figure  # noqa: F401
    except ImportError as error:  # matplotlib itself, or something that it needs
        raise LaminarError(
            "L011",
            f"pictures are drawn with matplotlib, and {error.name or error} is not installed",
            hint="pip install 'laminar-train[experiments]'",
        ) from None


@contextmanager
def drawn(picture: Picture, *, narrow: bool = False, settings: dict[str, str] | None = None) -> Iterator[Sheet]:
    need_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    look: Any = {**_LOOK, **(settings or {})}
    with matplotlib.rc_context(look), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a page has more letters than the font of a file
        size = (NARROW, picture.size.narrow) if narrow else (WIDE, picture.size.wide)
        figure = Figure(figsize=size, dpi=72, layout="constrained")
        FigureCanvasAgg(figure)
        sheet = Sheet(figure, narrow)
        picture.drawing(sheet)
        yield sheet


def on_page(picture: Picture, *, narrow: bool) -> tuple[str, list[Hint]]:
    """An <svg> to be put into a page, in the page's colours and letters, and what it says where it is pointed at."""
    place = f"{picture.name}-{'narrow' if narrow else 'wide'}"
    with drawn(picture, narrow=narrow, settings={"svg.fonttype": "none", "svg.hashsalt": place}) as sheet:
        text = _saved(sheet.figure, "svg").decode()
        return for_page(text, place, f"{picture.title}. {picture.caption}"), sheet.hints()


def in_file(picture: Picture, kind: Kind) -> bytes:
    """A file that looks the same everywhere: its letters are drawn."""
    with drawn(picture, narrow=False, settings={"svg.fonttype": "path", "svg.hashsalt": picture.name}) as sheet:
        return _saved(sheet.figure, kind)


def _saved(figure: Figure, kind: Kind) -> bytes:
    target = io.BytesIO()
    nothing = {"svg": ("Date", "Creator", "Format", "Type"), "pdf": ("CreationDate", "Creator", "Producer"), "png": ("Software",)}
    figure.savefig(target, format=kind, dpi=DOTS if kind == "png" else 72, metadata=dict.fromkeys(nothing[kind]))
    return target.getvalue()
