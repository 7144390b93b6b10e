"""One random local sample of a data set that is cut into fragments: as many of each class, none twice, test images apart.

The same seed gives the same sample on every machine that has the images or their index; nothing is cut or fetched for it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, remark, say, table
from laminar.core.figures import many
from laminar.stack.choose_data import choose_data, fingerprints
from laminar.stack.project import open_project


def run(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A [data.NAME] of laminar.toml.")],
    seed: Annotated[int | None, typer.Option("--seed", help="Of the sample; that of laminar.toml if left out.")] = None,
    per_class: Annotated[int | None, typer.Option("--per-class", min=1, help="Training fragments of each class.")] = None,
    test_per_class: Annotated[int | None, typer.Option("--test-per-class", min=1, help="Test fragments of each class.")] = None,
    sources: Annotated[int | None, typer.Option("--sources", min=1, help="From so many images of each class only.")] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and count them.")] = False,
    json: Json = False,
) -> None:
    from laminar.cli.progress import counted
    from laminar.data.local_sample import local_sample

    project = open_project()
    with counted(quiet=json) as progress:
        drawn = local_sample(
            choose_data(project, data),
            project.root,
            cache=fingerprints(project),
            progress=progress,
            seed=seed,
            per_class=per_class,
            test_per_class=test_per_class,
            sources=sources,
            skip_bad=skip_bad,
        )
    if json:
        print_json({"data": data, "seed": drawn.seed, "fragments": drawn.fragments})
        return
    count: dict[tuple[str, str], int] = {}
    images: dict[tuple[str, str], set[str]] = {}
    for each in drawn.fragments:
        place = (each["class"], each["split"])
        count[place] = count.get(place, 0) + 1
        images.setdefault(place, set()).add(each["source"])
    heads = ["class", "train", "train images", "test", "test images"]
    rows = [
        [name, *(f"{n:,}" for side in ("train", "test") for n in (count.get((name, side), 0), len(images.get((name, side), ()))))]
        for name in drawn.classes
    ]
    table("", heads, rows, right=heads[1:])
    say(f"{data}: sample of seed {drawn.seed} with {many(len(drawn.fragments), 'fragment')}; --json lists them")
    for note in drawn.notes:
        remark(note)
