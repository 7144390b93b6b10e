"""Serve a grid: hand out the training of this stack's layers to machines that nobody controls, until Ctrl-C.

Server, database and daemons are one process, and what it knows lies in .laminar/grid: it can be killed at any moment and started again.
It prints the command and the token with which nodes join; they need Laminar, and no file of this project. Everything between server and
nodes is signed; `--tls` encrypts it too. Start a training with laminar grid train LAYER in another window.
"""

from __future__ import annotations

import json as encoder
import logging
from pathlib import Path
from typing import Annotated

import typer

from laminar.cli.output import Json, remark, say
from laminar.core.errors import LaminarError
from laminar.core.sizes import parse_bytes
from laminar.stack.project import open_project


def run(
    host: Annotated[str, typer.Option("--host", help="The address to listen at; 127.0.0.1: this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes any that is free.")] = 8787,
    database: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="PostgreSQL, in the place of SQLite in the store.")
    ] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Encrypt, with a certificate of the grid's own authority (made if there is none).")
    ] = False,
    certificate: Annotated[Path | None, typer.Option("--certificate", help="Encrypt with this certificate (PEM).")] = None,
    private_key: Annotated[Path | None, typer.Option("--private-key", help="The certificate's key (PEM).")] = None,
    address: Annotated[
        str | None, typer.Option("--address", metavar="URL", help="By which nodes reach it, if not where it listens.")
    ] = None,
    bytes_a_day: Annotated[str | None, typer.Option("--bytes-a-day", metavar="SIZE", help="Of each node, up and down together.")] = None,
    admit: Annotated[
        int, typer.Option("--admit", metavar="N", min=1, max=1_000_000, help="Nodes that the first token admits, set when it is made.")
    ] = 50,
    daemons: Annotated[
        bool, typer.Option("--daemons/--no-daemons", help="Without: they run elsewhere (laminar grid daemon), on the same PostgreSQL.")
    ] = True,
    json: Json = False,
) -> None:
    from laminar.grid.extra import need_grid, use_one_thread

    need_grid()
    use_one_thread()
    from laminar.grid.daemons.learner import TorchLearner
    from laminar.grid.server.certificates import check_certificate, own_certificate
    from laminar.grid.server.serve import GridServer, Options
    from laminar.grid.wire.signing import fingerprint

    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    project = open_project()
    file = project.need_file()
    folder = project.open_store().root / "grid"
    budget = parse_bytes(bytes_a_day) if bytes_a_day is not None else None
    if bytes_a_day is not None and not budget:
        raise LaminarError("L008", f"--bytes-a-day {bytes_a_day}: expected a size", hint="--bytes-a-day 500MB")
    if (certificate is None) != (private_key is None):
        raise LaminarError("L008", "--certificate and --private-key belong together", hint="give both, or --tls")
    pair = (certificate, private_key) if certificate is not None and private_key is not None else None
    if pair is not None:
        check_certificate(*pair)
    own = tls and pair is None
    if own:
        pair = own_certificate(folder / "tls", host)
    options = Options(
        folder,
        file.spec.stack.name,
        host=host,
        port=port,
        database=database,
        certificate=pair,
        authority=folder / "tls" / "ca.pem" if own else None,
        address=address,
        bytes_a_day=budget,
        admit=admit,
        daemons=daemons,
    )
    server = GridServer(options, TorchLearner())

    def ready(told: dict[str, str]) -> None:
        if json:
            say(encoder.dumps(told))
            return
        authority = f" --ca {folder / 'tls' / 'ca.pem'}" if own else ""
        say(f"grid {options.name} at {told['url']}, key {fingerprint(told['key'])}")
        say(f"join:    laminar grid join {told['url']} --key {told['key']}{authority}")
        say(f"token:   {told['token']}")
        say(f"status:  {told['url']}/?token={server.secrets.view}")
        say("train:   laminar grid train LAYER")
        if pair is None and host not in ("127.0.0.1", "::1", "localhost"):
            remark("not encrypted: whoever is between can read models and answers (not change them); --tls encrypts")
        remark("Ctrl-C ends it; nothing is lost")

    server.run(ready)
