"""Lend this machine to a grid: do its tasks at the lowest priority, within what you allow, until Ctrl-C.

The machine runs no code of the server: it gets graphs of tensor operators, numbers, and names of public data. Kernels are named by their
digests, and only those are used that you have put into the folder of --kernels. The server's key is pinned when the node joins; a server
with another key is refused from then on. The token comes from a file, from the variable LAMINAR_JOIN_TOKEN, or from a prompt. Without URL
the node returns to its grid and goes on with its work, with the same name and limits; options given now replace earlier ones. With URL
it starts again with default settings. `laminar grid pause --node` in another window, or a file `paused` in the node's folder, pauses it
within a second. With --at-login the system starts it with the same options whenever you log in.
"""

from __future__ import annotations

import platform
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import remark, say
from laminar.core.errors import LaminarError


def run(
    url: Annotated[str | None, typer.Argument(metavar="URL", help="Of the grid, as `laminar grid serve` prints it.")] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="A file with the node's token; - for standard input.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="The server's key, which it must have; without it, the one that it has now.")
    ] = None,
    cpu: Annotated[str | None, typer.Option("--cpu", metavar="SHARE", help="Share of the processors, as 50%; default: all.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", metavar="SIZE", help="For tasks, as 4G.")] = None,
    only_idle: Annotated[bool, typer.Option("--only-idle", help="Only while nobody uses the machine.")] = False,
    hours: Annotated[str | None, typer.Option("--hours", metavar="FROM-TO", help="Only then, as 18-8 or 22:30-6:00.")] = None,
    battery: Annotated[bool, typer.Option("--battery", help="Also on battery.")] = False,
    allow_private: Annotated[
        bool,
        typer.Option("--allow-private", help="Fetch data also from private, loopback and link-local addresses, if a run names them."),
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="What the grid calls it; the machine's own name.")] = None,
    home: Annotated[Path | None, typer.Option("--home", metavar="DIR", help="Where the node keeps its key and its caches.")] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="The authority of the server's certificate, if it has its own.")
    ] = None,
    kernels: Annotated[
        Path | None, typer.Option("--kernels", metavar="DIR", help="Kernels (.c) that runs may use by their digest; no others are.")
    ] = None,
    at_login: Annotated[
        bool, typer.Option("--at-login", help="Also from now on whenever you log in, with these limits; `laminar grid leave` ends that.")
    ] = False,
    tasks: Annotated[int | None, typer.Option("--tasks", metavar="N", min=1, help="End after so many.")] = None,
) -> None:
    from laminar.grid.extra import need_node

    need_node()
    from laminar.core.heap import keep_freed_memory
    from laminar.grid.node.client import Client
    from laminar.grid.node.home import Home, default_home
    from laminar.grid.node.idle import doubt
    from laminar.grid.node.idle_ways import Ways
    from laminar.grid.node.join import join
    from laminar.grid.node.keeper import Keeper
    from laminar.grid.node.kernels import Kernels
    from laminar.grid.node.machine import be_modest, facts
    from laminar.grid.node.owner_words import OwnerWords, remember, remembered
    from laminar.grid.node.token_given import token_given
    from laminar.grid.wire.messages import NAME

    words = OwnerWords(
        name=name,
        cpu=cpu,
        memory=memory,
        hours=hours,
        kernels=str(kernels.resolve()) if kernels is not None else None,
        only_idle=only_idle,
        battery=battery,
        allow_private=allow_private,
    )
    limits = words.limits
    if name is not None and (not 1 <= len(name) <= NAME or not name.isprintable()):
        raise LaminarError(
            "L008", f"--name {name[:20]!r} has {len(name)} letters; expected 1 to {NAME} that can be printed", hint="--name lab-3"
        )
    if ca is not None and not ca.is_file():
        raise LaminarError("L008", f"--ca {ca}: there is no such file", hint="it is ca.pem in the folder .laminar/grid/tls of the server")
    token = token_given(token_file)
    place = Home(home or default_home())
    place.take()
    if url is None:
        words = words.over(remembered(place))
        limits = words.limits
    called = (words.name or platform.node() or "node")[:NAME]
    own = Kernels(Path(words.kernels) if words.kernels is not None else None, remark)
    client: Client = join(place, url, token, key, facts(called, limits, kernels=own.digests), ca)
    remember(place, words)
    if at_login:
        _start_at_login(place.root.resolve(), words.options, limits.memory)
    be_modest()
    keep_freed_memory()  # versions and answers come and go
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()
        client.hang_up()  # or it would wait for work for the better part of a minute

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if client.url.startswith("http://") and not _loopback(client.url):
        remark("not encrypted: whoever is between can read models and answers, not change them")
    if limits.only_idle and (said := doubt(Ways().look())):
        remark(f"--only-idle: {said}; without it, `--hours 18-8` keeps the node out of your way")
    keeper = Keeper(place, client, limits, called, remark, kernels=own, stop=stop)
    remark(f"node {client.node} at {client.url}; Ctrl-C ends it")
    if url is None and words.options:
        remark(f"as before: {' '.join(words.options)}")
    if own.folder is not None:
        remark(f"with {len(own.digests)} kernel{'s' if len(own.digests) != 1 else ''} of {own.folder}")
    try:
        done = keeper.run(tasks)
    finally:
        client.close()
    say(f"{done} tasks done")


def _start_at_login(home: Path, options: list[str], memory: int | None) -> None:
    from laminar.grid.node.at_login import entry_of, put, text_of, words_of

    entry = entry_of(home)
    put(entry, text_of(entry, words_of(home, options), memory, home))
    remark(f"it starts when you log in, by {entry.kind}: {entry.path}")
    if entry.start:
        remark(f"  at once, when this one has ended: {entry.start}")
    remark("  to undo it: laminar grid leave, or delete that file")


def _loopback(url: str) -> bool:
    host = url.partition("://")[2].partition("/")[0].rpartition(":")[0]
    return host in ("127.0.0.1", "localhost", "[::1]")
