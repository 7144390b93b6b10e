"""Live: news to a browser, by server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

One connection a page tells of all runs it shows: browsers allow six to a server. `news` is told of every run asked for when its history
has grown (or was begun anew), and `store` when a ref, a layer or a run has come or gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from laminar.core import printable
from laminar.core.errors import LaminarError
from laminar.dashboard.context import Context
from laminar.dashboard.runs import history_of, news

SECONDS: Final = 0.25  # between two looks
SILENCE: Final = 15.0  # seconds after which a line without meaning shows that the line is alive
MOST: Final = 12  # runs a connection


def live(context: Context, ending: asyncio.Event) -> Route:
    async def answer(request: Request) -> StreamingResponse:
        runs = request.query_params.getlist("run")[:MOST]
        return StreamingResponse(_stream(context, ending, request, runs), media_type="text/event-stream")

    return Route("/api/live", answer, methods=["GET"])


async def _stream(context: Context, ending: asyncio.Event, request: Request, runs: list[str]) -> AsyncIterator[bytes]:
    seen: dict[str, tuple[int, int, int]] = {}
    store: object = None
    quiet = 0.0
    yield b"retry: 1000\n\n"
    while not ending.is_set() and not await request.is_disconnected():
        told: list[bytes] = []
        found = await run_in_threadpool(_store_seen, context)
        if store is not None and found != store:
            told.append(_event("store", {}))
        store = found
        for run in runs:
            fresh = await run_in_threadpool(_news, context, run, seen)
            if fresh is not None:
                told.append(_event("news", fresh))
        quiet = 0.0 if told else quiet + SECONDS
        if quiet >= SILENCE:
            told, quiet = [b": still here\n\n"], 0.0
        for each in told:
            yield each
        await asyncio.sleep(SECONDS)


def _news(context: Context, run: str, seen: dict[str, tuple[int, int, int]]) -> dict[str, Any] | None:
    try:
        path = history_of(context.store(), run)
    except (LaminarError, OSError):  # no such run, or no store: the page hears of that where it asks
        return None
    fresh = context.histories.look(path, lambda history: news(history, seen.get(run)))
    if fresh is None:
        return None
    seen[run] = fresh.pop("seen")
    return {"run": run, **fresh}


def _store_seen(context: Context) -> object:
    """Changes when a layer, a ref or a run does: the times of the folders and of the stack file."""
    try:
        layout = context.store().layout
        project = context.project()
    except (LaminarError, OSError) as error:
        return str(error)
    folders = [layout.layers, layout.keys, layout.tags, layout.runs, layout.leases, layout.refs]
    folders += sorted(path for path in layout.refs.glob("*") if path.is_dir())
    return (project.file.text if project.file else None, *map(_changed, folders))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _event(name: str, content: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + printable.shown_json(msgspec.json.encode(content).decode()).encode() + b"\n\n"
