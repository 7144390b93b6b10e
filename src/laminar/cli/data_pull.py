"""Fetch the images of a data set, or of its local sample, from its mirrors: from all at once, each checked by its sha256.

They come into the cache that all projects share; what is there already is not fetched again, and what broke off goes on.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, remark, say, seconds, size, table
from laminar.core.figures import many
from laminar.stack.choose_data import choose_data, fingerprints
from laminar.stack.project import open_project


def run(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A [data.NAME] of laminar.toml, or index:URL.")],
    per_class: Annotated[int | None, typer.Option("--per-class", min=1, help="Only what a sample of so many of each class needs.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample; that of laminar.toml if left out.")] = None,
    sources: Annotated[int | None, typer.Option("--sources", min=1, help="A sample from so many images of each class only.")] = None,
    json: Json = False,
) -> None:
    import msgspec

    from laminar.cli.progress import counted
    from laminar.data.local_sample import pull
    from laminar.data.pictures import CACHE_BYTES, file_cache

    project = open_project()
    spec = choose_data(project, data)
    try:
        with counted(quiet=json) as progress:
            pulled = pull(
                spec, project.root, cache=fingerprints(project), progress=progress, seed=seed, per_class=per_class, sources=sources
            )
    except KeyboardInterrupt:
        remark("interrupted: what has arrived is kept, and the same command goes on")
        raise typer.Exit(130) from None
    fetched = pulled.fetched
    if fetched is not None and pulled.bytes > file_cache().budget:
        remark(
            f"the images take {size(pulled.bytes)}, more than {CACHE_BYTES} lets the cache keep: the next fetch of others will drop some"
        )
    if json:
        shown = None if fetched is None else msgspec.to_builtins(fetched)
        print_json({"data": data, "images": pulled.images, "bytes": pulled.bytes, "fetched": shown})
    elif fetched is None:
        say(f"{data}: {many(pulled.images, 'image')} ({size(pulled.bytes)}) in a folder of this machine: nothing to fetch")
    else:
        if fetched.mirrors:
            heads = ["mirror", "bytes", "speed", "failures"]
            rows = [
                [
                    mirror.url,
                    size(mirror.bytes),
                    f"{size(mirror.bytes / mirror.seconds)}/s" if mirror.seconds else "-",
                    ", ".join(f"{kind} {count}" for kind, count in mirror.failures.items()) or "-",
                ]
                for mirror in fetched.mirrors
            ]
            table("", heads, rows, right=heads[1:3])
        others = f", and {fetched.by_others:,} by another process meanwhile" if fetched.by_others else ""
        say(
            f"{data}: {many(pulled.images, 'image')} ({size(pulled.bytes)}) {'is' if pulled.images == 1 else 'are'} in the cache; "
            f"{fetched.files:,} {'was' if fetched.files == 1 else 'were'} fetched "
            f"({size(fetched.bytes)} in {seconds(fetched.seconds)}){others}"
        )
        remark("laminar build uses them from there")
