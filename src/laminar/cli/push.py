"""Copy a layer with all it needs to a remote: a folder, or a URL (ftp, s3, ssh).

What the remote has already is not sent again; with `--check` it is read back first, and sent again if it is damaged. A tag is pushed as
that tag, any other ref under the layer's name.
"""

from __future__ import annotations

from typing import Annotated

import typer

from laminar.cli.output import Json, print_json, say, size
from laminar.cli.progress import counting
from laminar.core import digest
from laminar.stack.project import open_project
from laminar.stack.share import push


def run(
    remote: Annotated[str, typer.Argument(help="A folder, a URL, or a name given by `laminar remote add`.")],
    ref: Annotated[str, typer.Argument(help="head, digits/head, a tag or an id.")],
    check: Annotated[bool, typer.Option("--check", help="Read back and hash what the remote has; send again what is damaged.")] = False,
    json: Json = False,
) -> None:
    project = open_project()
    with counting("pushing", quiet=json) as progress:
        done = push(project, project.open_store(create=False), remote, ref, check=check, progress=progress)
    if json:
        print_json(
            {"remote": remote, "id": done.id, "refs": list(done.refs), "sent": done.sent, "skipped": done.skipped, "bytes": done.bytes}
        )
    else:
        say(f"{', '.join(done.refs)} ({digest.short(done.id)}): {done.sent} objects sent ({size(done.bytes)}), {done.skipped} were there")
