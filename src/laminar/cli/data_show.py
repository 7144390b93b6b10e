"""What a data set holds: classes, sides, fragments, bytes; and a contact sheet, a picture with some samples of every class."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from laminar.cli.output import Json, print_json, remark, say, size, table
from laminar.core.figures import many
from laminar.stack.choose_data import choose_data, fingerprints
from laminar.stack.project import open_project

if TYPE_CHECKING:
    from laminar.data.overview import Overview


CLASSES = 100  # that are listed


def run(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A [data.NAME] of laminar.toml, or a source such as folder:photos.")],
    sheet: Annotated[Path | None, typer.Option("--sheet", metavar="FILE", help="The picture; DATA-sheet.png if left out.")] = None,
    no_sheet: Annotated[bool, typer.Option("--no-sheet", help="Write no picture.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and count them.")] = False,
    json: Json = False,
) -> None:
    import msgspec

    from laminar.cli.progress import counted
    from laminar.data.overview import overview

    project = open_project()
    spec = choose_data(project, data)
    if skip_bad:
        spec = msgspec.structs.replace(spec, skip_bad=True)
    with counted(quiet=json) as progress:
        found = overview(spec, project.root, cache=fingerprints(project), progress=progress, look=not no_sheet)
    written = None
    if found.shown:
        from laminar.data.contact_sheet import write_sheet

        written = sheet or Path(f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', data)}-sheet.png")
        write_sheet(written, [each.name for each in found.classes], found.shown)
    if json:
        print_json({"data": data, **found.to_json(), "sheet": None if written is None else str(written)})
        return
    _show(data, found)
    if written is not None:
        say(f"look at {written}")
    elif not no_sheet:
        remark("no picture: samples are not images")


def _show(data: str, found: Overview) -> None:
    fragments = found.fragments_per_image is not None
    if found.classes:
        heads = ["class", "train", "test"] + (["train images", "test images"] if fragments else [])
        rows = [
            [c.name, f"{c.train:,}", f"{c.test:,}"] + ([f"{c.train_images:,}", f"{c.test_images:,}"] if fragments else [])
            for c in found.classes[:CLASSES]
        ]
        table("", heads, rows, right=heads[1:])
        if len(found.classes) > CLASSES:
            say(f"… {len(found.classes):,} classes in all; --json lists them")
    what = "fragments" if fragments else "samples"
    say(
        f"{data}: {found.train:,} {what} for training, {found.test:,} for testing, "
        f"{'x'.join(map(str, found.shape))} {found.dtype}, {size(found.bytes)} of samples"
    )
    if found.images is not None and found.image_bytes is not None:
        each = ""
        if found.fragments_per_image is not None:
            least, most = found.fragments_per_image
            each = f", {many(least, 'fragment')} each" if least == most else f", {least:,} to {most:,} fragments each"
            each += f" ({found.counting})" if found.counting else ""
        say(f"{many(found.images, 'source image')}, {size(found.image_bytes)}{each}")
    if found.sample is not None:
        say(f"a build takes a sample of {found.sample['train']:,} for training and {found.sample['test']:,} for testing")
    for note in found.notes:
        remark(note)
