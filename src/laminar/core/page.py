"""Pages: the frame and the look of what Laminar writes as HTML. One file each, which asks nothing of any network.

For light and dark, for a phone, and for paper. `laminar report` and `laminar experiment report` are such pages.
"""

from __future__ import annotations

from html import escape
from typing import Final

# Text and marks of these have a contrast of 4.5 or more on --card, light and dark alike (a test computes it).
LIGHT: Final = {
    "back": "#f6f7f9", "card": "#ffffff", "text": "#1b1f24", "dim": "#59636e", "line": "#d8dee4", "soft": "#eef1f5",
    "good": "#17752f", "bad": "#b3261e", "warn": "#8a5300", "link": "#0b57d0",
}  # fmt: skip
DARK: Final = {
    "back": "#0f1216", "card": "#14181f", "text": "#e6e9ee", "dim": "#9aa4b0", "line": "#2f3742", "soft": "#1f252d",
    "good": "#56d364", "bad": "#ff8a80", "warn": "#f0b452", "link": "#8ab4f8",
}  # fmt: skip

_LOOK: Final = """\
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; margin: 0; background: var(--back); color: var(--text); }
main { max-width: 66rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; text-wrap: balance; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .7rem; } h3 { font-size: 1rem; margin: 0 0 .3rem; }
h1, h2, h3, p, li, dd, caption, figcaption, summary { overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; } a { color: var(--link); }
.mute { color: var(--dim); } .good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .7rem; padding: .9rem 1rem; margin: 0 0 1rem; }
.card.table { padding: 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .45rem .8rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; font-size: .87rem; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--soft); border-radius: .5rem; padding: .7rem .9rem; overflow-x: auto; margin: .5rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .2rem 0; }
@media print {
  @page { margin: 15mm; }
  body { background: none; font-size: 10pt; } main { max-width: none; padding: 0; }
  .card { break-inside: avoid; } .card.table { overflow: visible; break-inside: auto; } tr { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; } pre { white-space: pre-wrap; }
}
"""


def colours(light: dict[str, str], dark: dict[str, str]) -> str:
    """CSS variables of both, for the reader's choice of light or dark; paper is light."""
    return (
        f":root {{ color-scheme: light dark; {_variables(light)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(dark)} }} }}\n"
    )


def _variables(values: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in values.items())


def printable(text: str) -> str:
    """Without what no page can show; lines stay."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def safe(text: str) -> str:
    """Text as HTML, in a tag or between tags."""
    return escape(printable(text))


def page(title: str, body: str, *, style: str = "", script: str = "") -> str:
    """`title` is text; `body` is HTML that its author has escaped."""
    code = f"<script>\n{script}</script>\n" if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{safe(title)}</title>\n<style>\n{colours(LIGHT, DARK)}{_LOOK}{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n{code}</body>\n</html>\n"
    )
