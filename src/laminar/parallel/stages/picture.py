"""Pictures of stages over time: what each lane did in one step, as SVG. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

MESSAGE: Final = "stages"  # of a worker to the chief, with what there is to draw

WIDTH, ROW, LEFT, TOP = 1200, 44, 90, 40
_COLOURS: Final = {"forward": "#4c78a8", "backward": "#e45756", "inputs": "#f58518", "weights": "#eeca3b"}
_TEXT: Final = 'font-family="system-ui, sans-serif" font-size="12"'

Spans = Sequence[tuple[str, int, int, float, float]]  # kind, stage, micro-batch, begin and end in seconds


def idle(lanes: Mapping[str, Spans]) -> float:
    """The share of the time in which a lane did nothing, on average."""
    end = max((span[4] for spans in lanes.values() for span in spans), default=0.0)
    busy = sum(span[4] - span[3] for spans in lanes.values() for span in spans)
    return 1 - busy / (end * len(lanes)) if end else 0.0


def picture(lanes: Mapping[str, Spans], title: str) -> str:
    """`lanes`: by what they are called, in order."""
    end = max((span[4] for spans in lanes.values() for span in spans), default=0.0) or 1.0
    scale = (WIDTH - LEFT - 20) / end
    height = TOP + ROW * len(lanes) + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title, quote=True)}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" {_TEXT} font-weight="bold">{escape(title)}</text>',
    ]
    for place, (name, spans) in enumerate(lanes.items()):
        y = TOP + ROW * place
        parts.append(f'<text x="{LEFT - 8}" y="{y + ROW / 2 + 4:.0f}" {_TEXT} text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 4}" width="{WIDTH - LEFT - 20}" height="{ROW - 8}" fill="#f2f2f2"/>')
        parts += [_bar(span, y, scale) for span in spans]
    parts.append(_scale(end, TOP + ROW * len(lanes)))
    parts += _legend({span[0] for spans in lanes.values() for span in spans}, TOP + ROW * len(lanes) + 38)
    return "\n".join([*parts, "</svg>", ""])


def _bar(span: Any, y: float, scale: float) -> str:
    kind, stage, batch, begin, end = span
    width = max(0.5, (end - begin) * scale)
    x = LEFT + begin * scale
    told = f"{kind} of micro-batch {batch} in stage {stage}: {1000 * (end - begin):.2f} ms"
    bar = (
        f'<rect x="{x:.1f}" y="{y + 4}" width="{width:.1f}" height="{ROW - 8}" fill="{_COLOURS[kind]}" stroke="white" '
        f'stroke-width="0.5" fill-opacity="{1 - 0.25 * (stage % 3):.2f}"><title>{escape(told)}</title></rect>'
    )
    if width > 14:
        bar += f'<text x="{x + width / 2:.1f}" y="{y + ROW / 2 + 4:.0f}" {_TEXT} fill="white" text-anchor="middle">{batch}</text>'
    return bar


def _scale(end: float, y: float) -> str:
    return (
        f'<text x="{LEFT}" y="{y + 16}" {_TEXT}>0</text>'
        f'<text x="{WIDTH - 20}" y="{y + 16}" {_TEXT} text-anchor="end">{1000 * end:.1f} ms</text>'
    )


def _legend(kinds: set[str], y: float) -> list[str]:
    found, x = [], float(LEFT)
    for kind, colour in _COLOURS.items():
        if kind in kinds:
            found.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
            found.append(f'<text x="{x + 17}" y="{y}" {_TEXT}>{kind}</text>')
            x += 110
    return found
