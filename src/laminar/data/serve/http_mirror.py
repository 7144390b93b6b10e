"""The shelf over http: GET and HEAD, with ranges."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn import Config, Server

from laminar.data.serve.shelf import Shelf

GRACE = 1  # seconds that downloads have to end when the mirror does
SMALL = 1 << 18  # bytes
BYTES = "application/octet-stream"


class _File(FileResponse):
    chunk_size = 1 << 20


def application(shelf: Shelf) -> Starlette:
    async def give(request: Request) -> Response:
        found = shelf.find(request.path_params["path"])
        if found is None:
            return PlainTextResponse("not found\n", status_code=404)
        try:
            facts = os.stat(found)
            if facts.st_size <= SMALL and "range" not in request.headers:  # at once, and not by way of three threads
                return Response(found.read_bytes(), media_type=BYTES, headers={"Accept-Ranges": "bytes"})
            return _File(found, media_type=BYTES, stat_result=facts)
        except OSError:
            return PlainTextResponse("not found\n", status_code=404)

    return Starlette(routes=[Route("/{path:path}", give, methods=["GET", "HEAD"])])


@contextlib.contextmanager
def serving_http(shelf: Shelf, sock: socket.socket) -> Iterator[None]:
    """Serve on a socket that is bound, in a thread, until the block ends."""
    config = Config(
        application(shelf), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE, server_header=False
    )
    server = Server(config)
    sock.listen(512)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, name="mirror-http", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
        sock.close()
