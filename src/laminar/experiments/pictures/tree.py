"""The tree of layers: what the variants have in common, and was trained once, and what each has of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from laminar.core.figures import many
from laminar.experiments.lineage import Node
from laminar.experiments.pictures.chosen import spread
from laminar.experiments.pictures.palette import SERIES_LIGHT, TOKENS
from laminar.experiments.pictures.sheet import Picture, Sheet, Size
from laminar.experiments.pictures.svg import clean
from laminar.experiments.view import View
from laminar.experiments.words import amount, seconds

LEAVES: Final = 14  # above one layer
TALL: Final = 0.78  # of a row, that a box takes


@dataclass(frozen=True)
class Box:
    """Placed in the tree: columns from the left, rows from the top."""

    column: int
    row: float
    title: str
    note: str
    shared: bool
    told: str
    below: int  # index of the box it stands on, -1 for none


def boxes(roots: Sequence[Node], label: dict[str, str]) -> list[Box]:
    """Depth first; a box stands in the middle of those above it."""
    found: list[Box] = []
    free = [0.0]

    def place(node: Node, column: int, below: int) -> float:
        mine = len(found)
        found.append(Box(column, 0, "", "", False, "", below))
        above = _few(node.above)
        rows = [place(one, column + 1, mine) for one in above]
        if len(above) < len(node.above):
            found.append(Box(column + 1, free[0], f"… {len(node.above) - len(above)} more", "", False, "variants that are not drawn", mine))
            rows.append(free[0])
            free[0] += 1
        if rows:
            row = (rows[0] + rows[-1]) / 2
        else:
            row = free[0]
            free[0] += 1
        found[mine] = _box(node, column, row, below, label)
        return row

    for root in _few(roots):
        place(root, 0, -1)
    return found


def _few(nodes: Sequence[Node]) -> list[Node]:
    """All layers that others stand on, and as many leaves as can be read."""
    leaves = [one for one in nodes if not one.shared]
    kept = {id(one) for one in spread(leaves, LEAVES)}
    return [one for one in nodes if one.shared or id(one) in kept]


def _box(node: Node, column: int, row: float, below: int, label: dict[str, str]) -> Box:
    size = amount(node.bytes, "layer_bytes")
    title = label.get(node.leaf, node.leaf) or node.name
    spent = f"{seconds(node.seconds)} · {size}"
    if not node.shared:
        told = f"{title}\n{many(node.layers, 'layer')} of its own, {seconds(node.seconds)} of training, {size}"
        return Box(column, row, title, f"{many(node.layers, 'layer')} · {spent}", False, told, below)
    each = f"{many(node.layers, 'layer')}, each " if node.layers > 1 else ""
    told = f"{title}\nshared by {many(node.variants, 'variant')}, {each}trained once: {seconds(node.seconds)}, {size}"
    return Box(column, row, title, f"{many(node.layers, 'layer')} · {spent}" if node.leaf else spent, True, told, below)


def picture(view: View, roots: Sequence[Node]) -> Picture | None:
    """None where variants have no layer in common: as many boxes beside each other would say nothing."""
    shared = sum(node.layers for node in _all(roots) if node.shared)
    if not shared:
        return None
    found = boxes(roots, {one.id: one.label for one in view.variants})
    rows = max(box.row for box in found) + 1
    saved = sum(node.seconds / node.layers * (_trials(node) - node.layers) for node in _all(roots) if node.shared)
    caption = (
        f"{many(shared, 'layer', 'is')} common to variants (filled), trained once and used again: "
        f"{seconds(saved)} of training were not repeated. "
        "Outlined boxes are what each variant has of its own, its repeats together: training time, "
        "and bytes that the layer below does not have."
    )
    columns = max(box.column for box in found) + 1
    size = Size(0.35 + 0.42 * rows, 0.35 + 0.46 * rows)
    return Picture("layers", "The layers, shared and own", caption, lambda sheet: _draw(sheet, found, columns, rows), size)


def _all(nodes: Sequence[Node]) -> list[Node]:
    return [found for one in nodes for found in (one, *_all(one.above))]


def _trials(node: Node) -> int:
    return (node.layers if node.leaf else 0) + sum(_trials(one) for one in node.above)


def _draw(sheet: Sheet, found: Sequence[Box], columns: int, rows: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    (axes,) = sheet.axes()
    axes.set_xlim(-0.02, columns - 0.08)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.axis("off")
    width = 0.8
    aspect = rows / sheet.figure.get_figheight() * sheet.figure.get_figwidth() / columns  # so that corners are round
    letters = int((sheet.figure.get_figwidth() * 72 * width / columns - 12) / 5.2)
    for box in found:
        if box.below >= 0:
            base = found[box.below]
            xs = [base.column + width, base.column + (width + 1) / 2, base.column + (width + 1) / 2, box.column]
            axes.plot(xs, [base.row, base.row, box.row, box.row], color=TOKENS["p-pale"], linewidth=1.2, zorder=1)
    for box in found:
        fill = SERIES_LIGHT[0] if box.shared else TOKENS["p-card"]
        edge = SERIES_LIGHT[0] if box.told else TOKENS["p-pale"]
        shape = FancyBboxPatch(
            (box.column, box.row - TALL / 2),
            width,
            TALL,
            boxstyle=f"round,pad=0,rounding_size={0.02 * columns / 2}",
            mutation_aspect=aspect,
            facecolor=fill,
            edgecolor=edge,
            linewidth=1.1,
            zorder=2,
        )
        axes.add_patch(shape)
        ink = TOKENS["p-card"] if box.shared else TOKENS["p-ink"]
        up = 0.16 if box.note else 0.0
        axes.text(box.column + 0.03, box.row - up, clean(box.title, letters), va="center", fontsize=8.5, color=ink, weight="bold", zorder=3)
        if box.note:
            axes.text(box.column + 0.03, box.row + 0.2, clean(box.note, int(letters * 1.2)), va="center", fontsize=7.2, color=ink, zorder=3)
        sheet.tell(axes, box.column + width / 2, box.row, box.told)
