"""Report: one HTML page, readable offline, with the layers of a stack and the curves of their training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from laminar.core import atomic, digest
from laminar.core.clock import iso
from laminar.core.errors import LaminarError
from laminar.core.events import read as read_events
from laminar.core.figures import number
from laminar.core.page import page, safe
from laminar.stack.plan import plan
from laminar.stack.read import StackFile
from laminar.stack.show import ancestors, own_bytes
from laminar.store.manifest import Manifest
from laminar.store.store import Store

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_LINES: Final = {"gridcolor": "rgba(125,133,144,.3)", "zerolinecolor": "rgba(125,133,144,.3)"}
COLOURS: Final = {  # of pictures that can be read on a light page and on a dark one
    "font": {"color": "#7d8590"}, "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "xaxis": _LINES, "yaxis": _LINES,
}  # fmt: skip


def write_report(file: StackFile, store: Store, out: Path) -> Path:
    """Write the page to `out`. Needs plotly, which draws the curves and is put into the page: no network is needed to look at it."""
    try:
        import plotly.io
    except ImportError:
        raise LaminarError(
            "L011", "the report draws its curves with plotly, which is not installed", hint="pip install 'laminar-train[report]'"
        ) from None
    rows, manifests = [], []
    for step in plan(file, store):
        ref = f"{file.spec.stack.name}/{step.layer.name}"
        id = store.refs.get(ref)
        manifest = store.layer(id) if id and store.has_layer(id) else None
        if manifest is not None:
            manifests.append(manifest)
        rows.append(_row(step.layer.name, manifest, step.action, step.why, store))
    figures = [f for f in (_curves(store, manifests, "loss"), _curves(store, manifests, "accuracy")) if f is not None]
    parts = [
        plotly.io.to_html(figure, full_html=False, include_plotlyjs="inline" if i == 0 else False, config={"displaylogo": False})
        for i, figure in enumerate(figures)
    ]
    history = _history(store, file.spec.stack.name)
    atomic.write_text(out, _page(file.spec.stack.name, "\n".join(rows), parts, history))
    return out


def _row(name: str, manifest: Manifest | None, action: str, why: str, store: Store) -> str:
    if manifest is None:
        return f"<tr><td>{safe(name)}</td><td colspan=6 class=mute>not built yet</td></tr>"
    own = own_bytes(store, manifest)
    metrics = "".join(f"<td class=n>{number(manifest.metrics.get(m))}</td>" for m in ("accuracy", "loss"))
    below = ", ".join(a.name for a in ancestors(store, manifest)) or "-"
    return (
        f"<tr><td>{safe(name)}</td><td><code>{digest.short(manifest.id)}</code></td><td>{safe(below)}</td>{metrics}"
        f"<td class=n>{manifest.seconds:.2f} s</td><td class=n>{own / 1000:,.1f} kB</td>"
        f"<td class=mute>{'up to date' if action == 'cached' else safe(why)}</td></tr>"
    )


def _curves(store: Store, manifests: list[Manifest], metric: str) -> Figure | None:
    from plotly.graph_objects import Figure, Scatter

    figure = Figure()
    for manifest in manifests:
        path = store.layout.run(manifest.run) / "events.jsonl" if manifest.run else None  # an imported layer was not trained here
        epochs = [e for e in read_events(path) if e.get("event") == "epoch"] if path is not None and path.exists() else []
        for split, dash in (("train", "dot"), ("test", "solid")):
            points: list[tuple[int, Any]] = [(e["epoch"] + 1, e[split][metric]) for e in epochs if metric in e.get(split, {})]
            if points:
                xs, ys = zip(*points, strict=True)
                figure.add_trace(Scatter(x=xs, y=ys, name=f"{manifest.name} ({split})", mode="lines+markers", line={"dash": dash}))
    if not figure.data:
        return None
    figure.update_layout(title=f"{metric} by epoch", xaxis_title="epoch", yaxis_title=metric, template="none", height=380, **COLOURS)
    return figure


def _history(store: Store, stack: str) -> str:
    entries = sorted(
        ((e, n) for n in store.refs.names() if n.startswith(stack + "/") for e in store.refs.log(n)), key=lambda p: -p[0].time
    )[:30]
    return "\n".join(
        f"<tr><td>{iso(e.time)}</td><td>{safe(n)}</td><td><code>{digest.short(e.id)}</code></td><td>{safe(e.op)}</td></tr>"
        for e, n in entries
    )


def _page(name: str, rows: str, figures: list[str], history: str) -> str:
    body = (
        f'<h1>{safe(name)}</h1>\n<div class="card table"><table>'
        f"<tr><th>layer</th><th>id</th><th>stands on</th><th class=n>accuracy</th>"
        f"<th class=n>loss</th><th class=n>training</th><th class=n>own tensors</th><th></th></tr>\n{rows}</table></div>\n"
        + "\n".join(f'<div class="card">{figure}</div>' for figure in figures)
        + '\n<h2>History</h2>\n<div class="card table"><table>'
        + f"<tr><th>when</th><th>ref</th><th>id</th><th>what</th></tr>\n{history}</table></div>"
    )
    return page(f"{name} - Laminar", body)
