"""Join: the first word with a server. Its key is pinned; a server with another one is not listened to."""

from __future__ import annotations

import ssl
from http.client import RemoteDisconnected
from pathlib import Path
from typing import Final

from laminar.core.errors import LaminarError
from laminar.grid.node.client import Client, Refusal, Unreachable
from laminar.grid.node.home import Home, Server
from laminar.grid.node.token_given import WAYS, token_asked
from laminar.grid.wire.messages import Enrolled, Facts
from laminar.grid.wire.signing import fingerprint

_TOKEN: Final = "ask whoever runs the grid for a token that lets this node in: laminar grid token --for NAME"
HELP: Final = {  # by the name of the refusal
    "version": "pip install the release of laminar-train that the server has",
    "token": _TOKEN,
    "banned": "ask whoever runs the grid: laminar grid ban NODE --undo",
    "rate": "try again in a while",
    "path": "look whether the address is right: http://HOST:8787, mostly with nothing behind the port",
}


def join(home: Home, url: str | None, token: str | None, key: str | None, told: Facts, ca: Path | None = None) -> Client:
    """A client of the server that the node belongs to, after a word with it where that is new."""
    known = home.server()
    if url is None and known is None:
        raise LaminarError("L503", f"{home.root} has joined no grid yet", hint="laminar grid join URL --token-file FILE")
    authority = ca or (home.root / "ca.pem" if (home.root / "ca.pem").exists() else None)
    if known is not None and (url is None or url.rstrip("/") == known.url) and token is None and key in (None, known.key):
        return Client(known.url, home.key, pinned=known.key, ca=str(authority) if authority else None)
    assert url is not None or known is not None
    client = Client(url or known.url, home.key, ca=str(authority) if authority else None)  # type: ignore[union-attr]
    try:
        pinned, enrolled = _enrol(client, known, token, key, told)
    except BaseException:
        client.close()
        raise
    home.pin(Server(url=client.url, key=pinned, node=enrolled.node, grid=enrolled.grid))
    if ca is not None:
        (home.root / "ca.pem").write_bytes(ca.read_bytes())
    return client


def _enrol(client: Client, known: Server | None, token: str | None, key: str | None, facts: Facts) -> tuple[str, Enrolled]:
    """The key that is pinned, and what the server said."""
    try:
        told = str(client.about().get("key", ""))
        pinned = key or (known.key if known is not None and known.url == client.url else told)
        if told != pinned:
            raise LaminarError(
                "L502",
                f"the server at {client.url} has the key {_shown(told)}, and {_shown(pinned)} was expected",
                hint="ask whoever runs the grid; if its key has really changed, join with the new --key",
            )
        token = token or token_asked(client.url)
        if token is None:
            raise LaminarError("L503", f"a node needs a token to join {client.url}", hint=WAYS)
        client.pinned = pinned
        enrolled = client.enrol(token, facts)
    except Unreachable as error:
        raise LaminarError("L501", f"the grid cannot be reached: {error}", hint=_help(client.url, error)) from error
    except Refusal as error:
        hint = HELP.get(error.error, "look whether both sides have the same Laminar: laminar --version")
        raise LaminarError("L503", f"the grid at {client.url} refuses this node: {error} ({error.error})", hint=hint) from error
    return pinned, enrolled


def _help(url: str, error: Unreachable) -> str:
    """By what the line broke with."""
    broke = error.__cause__
    if isinstance(broke, ssl.SSLCertVerificationError):
        return "--ca FILE, with the ca.pem of the server: `laminar grid serve --tls` prints where it is"
    if isinstance(broke, ssl.SSLError):
        return f"look whether the server encrypts; if not: laminar grid join {url.replace('https://', 'http://', 1)} --token-file FILE"
    if isinstance(broke, RemoteDisconnected | ConnectionResetError) and url.startswith("http://"):
        secure = url.replace("http://", "https://", 1)
        return f"look whether the server encrypts; if so: laminar grid join {secure} --token-file FILE --ca FILE"
    return "look whether the address is right and the server runs"


def _shown(key: str) -> str:
    try:
        return fingerprint(key)
    except ValueError:
        return repr(key[:50])
