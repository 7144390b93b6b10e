"""The app and the process: listens on this machine only, until Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import mimetypes
import threading
from collections.abc import Callable
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final, final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from laminar import __version__
from laminar.core.errors import LaminarError
from laminar.dashboard.answer import get
from laminar.dashboard.context import Context
from laminar.dashboard.gate import Gate
from laminar.dashboard.layers import overview
from laminar.dashboard.live import live
from laminar.dashboard.pages import PAGES
from laminar.grid.server.listening import Listening, listen

HOST: Final = "127.0.0.1"
PORT: Final = 8686
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg+xml"}


@final
class Dashboard:
    def __init__(self, start: Path, *, port: int = PORT, grid: str | None = None) -> None:
        """L405 where it cannot listen."""
        self.context = Context(start, grid=grid)
        self._ending = asyncio.Event()
        self._socket = listen(HOST, port)
        self._static = _static()
        app = Starlette(routes=self._routes())
        self.gate = Gate(app, port=self._socket.getsockname()[1])
        self._server: Listening | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._socket.getsockname()[1]}/?token={self.gate.token}"

    def run(self, ready: Callable[[], None]) -> None:
        """Until Ctrl-C, SIGTERM or `stop`."""
        config = uvicorn.Config(
            self.gate,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        threading.Thread(target=self._warm, name="warm", daemon=True).start()
        self._server = Listening(config, ready, self._let_go)
        self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """From another thread: `run` ends."""
        if self._server is not None:
            self._server.should_exit = True
            self._let_go()

    def close(self) -> None:
        """Of one that was not run."""
        self._socket.close()

    def _warm(self) -> None:
        """Read what the first page will ask for, before it asks: what was read once stays in memory while its file is the same."""
        with contextlib.suppress(LaminarError, OSError):  # the page will say it
            overview(self.context.project(), self.context.store())
            self.context.runs.all(self.context.store())

    def _let_go(self) -> None:
        self._ending.set()  # looked at several times a second by whoever waits for news

    def _routes(self) -> list[Route]:
        found = [
            Route("/", self._page, methods=["GET"]),
            Route("/static/{path:path}", self._file, methods=["GET"]),
            get("/api/session", self._session),
            live(self.context, self._ending),
        ]
        for routes in PAGES.values():
            found += routes(self.context)
        return found

    def _session(self, request: Request) -> dict[str, object]:  # noqa: ARG002
        """What the page needs to know first. The second token: only a page of this origin can read it here."""
        return {"csrf": self.gate.csrf, "version": __version__, "folder": from_home(self.context.start), "grid": self.context.grid}

    async def _page(self, request: Request) -> Response:
        return self._give("index.html", request)

    async def _file(self, request: Request) -> Response:
        return self._give(request.path_params["path"], request)

    def _give(self, name: str, request: Request) -> Response:
        """Only what came with the package has a name here, so no path leads elsewhere."""
        found = self._static.get(name)
        if found is None:
            return PlainTextResponse("there is no such file\n", 404)
        content, tag, kind = found
        headers = {"etag": tag, "cache-control": "no-cache"} if name != "index.html" else {}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)


def from_home(folder: Path) -> str:
    """As people write it: what is below their home begins with ~."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}".removesuffix("/.")
    except (ValueError, RuntimeError):  # elsewhere; or there is no home
        return str(folder)


def _static() -> dict[str, tuple[bytes, str, str]]:
    """Name to content, tag and kind of every file in static/."""
    found: dict[str, tuple[bytes, str, str]] = {}

    def walk(folder: Traversable, before: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                walk(each, f"{before}{each.name}/")
            else:
                content = each.read_bytes()
                kind = TYPES.get(Path(each.name).suffix) or mimetypes.guess_type(each.name)[0] or "application/octet-stream"
                text = kind.startswith("text/")
                found[before + each.name] = (
                    content,
                    f'"{hashlib.sha256(content).hexdigest()[:24]}"',
                    kind + ("; charset=utf-8" if text else ""),
                )

    walk(files("laminar.dashboard") / "static", "")
    return found
