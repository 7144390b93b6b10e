"""Write the index of a folder of images: path, class, sha256, size and form of each. It is what mirrors serve beside the images.

Every image is decoded to prove that it can be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, remark, say, size
from laminar.core.figures import many


def run(
    folder: Annotated[Path, typer.Argument(help="A folder with one folder of images a class, or with train/ and test/ of such.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file to write; FOLDER/index.json if left out.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and count them.")] = False,
    json: Json = False,
) -> None:
    from laminar.cli.progress import counted
    from laminar.data.make_index import write_index

    with counted(quiet=json) as progress:
        written = write_index(folder, out or folder / "index.json", skip_bad=skip_bad, progress=progress)
    if json:
        print_json(written.to_json())
        return
    for why in written.skipped:
        remark(f"skipped: {why}")
    say(f"{written.out}: {many(written.images, 'image')} of {many(len(written.classes), 'class')}, {size(written.bytes)}")
    say(f'pin it with  source = "index:…/{written.out.name}#sha256={written.sha256}"')
