"""Write: an experiment is read, and the files that were asked for are written, each whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.experiments.lineage import lineage
from laminar.experiments.listing import read_view
from laminar.experiments.pictures.sheet import Picture, in_file, need_matplotlib
from laminar.experiments.pictures.timelines import Timeline, timelines
from laminar.experiments.report.compose import compose
from laminar.experiments.report.document import Document
from laminar.experiments.report.html import to_html
from laminar.experiments.report.numbers import tables
from laminar.experiments.report.pdf import to_pdf
from laminar.experiments.view import View
from laminar.store.store import Store


@dataclass(frozen=True)
class Written:
    files: tuple[Path, ...]
    view: View


def write_report(
    store: Store,
    name: str,
    *,
    html: Path | None = None,
    pdf: Path | None = None,
    csv: Path | None = None,
    png: Path | None = None,
    svg: Path | None = None,
) -> Written:
    """`html` and `pdf` are files; `csv`, `png` and `svg` folders, which get a file for each table or picture.

    L018 when there is no such experiment, L011 when a library of laminar-train[experiments] is missing: before anything is written.
    """
    for path in (html, pdf):
        if path is not None:
            _refuse_folder(path, "--html")
    for path in (csv, png, svg):
        if path is not None and path.exists() and not path.is_dir():
            raise LaminarError("L008", f"{path} is a file, but tables and pictures go to a folder of that name", hint="--html OTHER.html")
    found = read_view(store, name)
    document = compose(found, lineage(store, list(found.done)), timelines(found, store))
    files: dict[Path, bytes] = {}
    if html is not None:
        files[html] = to_html(document).encode()
    if pdf is not None:
        files[pdf] = to_pdf(document)
    if csv is not None:
        files |= {csv / name: text.encode() for name, text in tables(found).items()}
    for kind, folder in (("png", png), ("svg", svg)):
        if folder is not None:
            files |= _drawn(document, folder, kind)
    for path, content in files.items():
        atomic.write_bytes(path, content)
    return Written(tuple(files), found)


def check_page(page: Path) -> None:
    """What would keep a page from being written, before the trials that it is about: L008 for a folder, L011 for a missing library."""
    _refuse_folder(page, "--report")
    need_matplotlib()


def _refuse_folder(path: Path, option: str) -> None:
    if path.is_dir():
        raise LaminarError("L008", f"{path} is a folder, but must be a file", hint=f"{option} {path / 'report.html'}")


def _drawn(document: Document, folder: Path, kind: str) -> dict[Path, bytes]:
    found: dict[Path, bytes] = {}
    for section in document.sections:
        for block in section.blocks:
            if isinstance(block, Picture):
                found[folder / f"{block.name}.{kind}"] = in_file(block, "png" if kind == "png" else "svg")
            elif isinstance(block, Timeline) and kind == "svg":
                found[folder / f"{block.name}.svg"] = block.svg.encode()
    return found
