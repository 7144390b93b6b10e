"""Commander: the other end of the server's commands, for the command line and for builds."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import urlsplit

import httpx
import msgspec

from laminar.core.errors import LaminarError
from laminar.grid.server.commands import Begin
from laminar.grid.wire.messages import PORT
from laminar.grid.wire.signing import SIGNATURE

FILE: Final = "server.json"
TOKEN: Final = "LAMINAR_GRID_TOKEN"
CA: Final = "LAMINAR_GRID_CA"
TIMEOUT: Final = 60.0
_SECRET: Final = "(`admin` in .laminar/grid/secrets.json where it is served)"
HELP: Final = {  # by the name of the refusal
    "node": "laminar grid nodes",
    "path": "look whether the address is that of a grid, and both sides have the same Laminar",
    "token": f"export {TOKEN}=… {_SECRET}; laminar grid token lists those of nodes",
    "version": "pip install the release of laminar-train that the server has",
}


class Away(LaminarError):
    """L501 that may pass: nobody answers, or the server has failed. It may be there again in a moment, with all that it knew."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A grid that is served on this machine."""

    url: str
    admin: str
    view: str
    token: str
    key: str
    pid: int
    local: str  # its address on this machine
    ca: str | None = None


def served_in(folder: Path) -> Found | None:
    """The grid that is served from this store's folder; None: none is."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Found)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise LaminarError("L501", f"{folder / FILE} cannot be read: {error}", hint="laminar grid serve writes it anew") from error


def _url(address: str) -> str:
    """grid://HOST is where `laminar grid serve` listens if nothing else is said."""
    for scheme, plain in (("grid://", "http://"), ("grids://", "https://")):
        if address.startswith(scheme):
            host = address.removeprefix(scheme).rstrip("/")
            try:
                told = urlsplit(f"//{host}").port is not None
            except ValueError:  # no number, or none of a port: said by whoever calls there
                told = True
            return plain + (host if told else f"{host}:{PORT}")
    return address.rstrip("/")


def commander_of(folder: Path | None, address: str | None = None, *, option: str = "--on") -> Commander:
    """`address`: grid://host:port, or a URL; else the grid that is served here. L501 where there is none.

    `option`: by which whoever asks can name one.
    """
    here = served_in(folder) if folder is not None else None
    if address is not None:
        url = _url(address)
        if not url.startswith(("http://", "https://")):
            raise LaminarError("L501", f"{address} is no address of a grid", hint=f"{option} grid://HOST:8787")
        token = os.environ.get(TOKEN) or (here.admin if here is not None and url in (here.url.rstrip("/"), here.local) else None)
        if token is None:
            raise LaminarError(
                "L503",
                f"the grid at {url} is commanded by whoever has its token",
                hint=f"export {TOKEN}=… {_SECRET}",
            )
        return Commander(url, token, here.ca if here is not None else None, option=option)
    if here is None:
        raise LaminarError("L501", "no grid is served from this folder", hint=f"laminar grid serve, or {option} grid://HOST:PORT")
    return Commander(here.local, here.admin, here.ca, option=option, folder=folder)


@final
class Commander:
    def __init__(self, url: str, token: str, ca: str | None = None, *, option: str = "--on", folder: Path | None = None) -> None:
        """`folder`: in which the server that is meant says where it is."""
        self._option, self._folder = option, folder
        self._open(url, token, ca)

    def _open(self, url: str, token: str, ca: str | None) -> None:
        self.url, self._token = url, token
        authority = os.environ.get(CA) or ca
        try:
            verify = ssl.create_default_context(cafile=authority) if authority else True
            self._http = httpx.Client(base_url=url, timeout=TIMEOUT, headers={"Authorization": f"Bearer {token}"}, verify=verify)
        except (httpx.InvalidURL, OSError) as error:
            raise LaminarError("L501", f"{url} is no address of a grid: {error}", hint=f"{self._option} grid://HOST:8787") from error

    def look_again(self) -> None:
        """A server that was started again may listen elsewhere: it says where, in its folder."""
        here = served_in(self._folder) if self._folder is not None else None
        if here is not None and (here.local, here.admin) != (self.url, self._token):
            self.close()
            self._open(here.local, here.admin, here.ca)

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Any:
        return self._told(self._send("GET", path))

    def post(self, path: str, body: Any = None) -> Any:
        return self._told(self._send("POST", path, b"" if body is None else msgspec.json.encode(body)))

    def put_file(self, data: bytes) -> None:
        self._send("PUT", "/v1/admin/files", data)

    def begin(self, asked: Begin) -> dict[str, Any]:
        found: dict[str, Any] = self.post("/v1/admin/runs", asked)
        return found

    def run(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/admin/runs/{name}")
        return found

    def version(self, name: str, number: int) -> bytes:
        return self._send("GET", f"/v1/admin/runs/{name}/versions/{number}").content

    def tested(self, name: str, number: int, metrics: dict[str, float]) -> None:
        self._send("PUT", f"/v1/admin/runs/{name}/versions/{number}", msgspec.json.encode({"metrics": metrics}))

    def _told(self, response: httpx.Response) -> Any:
        try:
            if SIGNATURE not in response.headers:  # a grid signs whatever it says
                raise LaminarError(
                    "L501", f"{self.url} answers, but is no grid: nothing is signed", hint=f"{self._option} grid://HOST:8787"
                )
            return msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LaminarError("L501", f"{self.url} answers, but is no grid: {error}", hint=f"{self._option} grid://HOST:8787") from error

    def _send(self, method: str, path: str, body: bytes = b"") -> httpx.Response:
        try:
            response = self._http.request(method, path, content=body)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Away(
                "L501", f"the grid at {self.url} cannot be reached: {str(error) or type(error).__name__}", hint="laminar grid serve"
            ) from error
        if response.status_code < 400:
            return response
        try:
            told = msgspec.json.decode(response.content)
            name, message = str(told["error"]), f"{told['message']} ({told['error']})"
        except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError):
            name, message = "", f"it answers {response.status_code}"
        if response.status_code >= 500:
            raise Away("L501", f"the grid at {self.url} failed: {message}", hint="look at what `laminar grid serve` says")
        raise LaminarError("L503", f"the grid at {self.url} refuses: {message}", hint=HELP.get(name, "laminar grid status"))
