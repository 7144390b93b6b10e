"""Answers: a function that returns plain data becomes a route that answers with JSON; its errors become answers too."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from laminar.core import printable
from laminar.core.errors import LaminarError

LIMIT: Final = 1 << 16  # bytes of a request's body
log = logging.getLogger("laminar.dashboard")


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What a page is told when there is no answer."""

    code: str
    message: str
    hint: str = ""


def json_answer(value: Any, status: int = 200) -> Response:
    """Structs, numpy numbers and plain data. What is not finite becomes null: JSON has no word for it. Control characters and signs that
    turn the direction of writing, in the names and notes of strangers, are shown instead of obeyed."""
    try:
        content = msgspec.json.encode(value, enc_hook=_plain)
    except (OverflowError, UnicodeEncodeError):  # a file that someone wrote has a number too long, or half a character
        content = json.dumps(_tamed(msgspec.to_builtins(value, enc_hook=_plain))).encode()
    return Response(printable.shown_json(content.decode()), status, media_type="application/json")


def problem(code: str, message: str, hint: str = "", *, status: int) -> Response:
    return json_answer({"error": Problem(code=code, message=message, hint=hint)}, status)


def get(path: str, function: Callable[[Request], Any]) -> Route:
    """`function(request)` looks, in a thread of its own, and returns plain data, or a Response as it is."""

    async def answer(request: Request) -> Response:
        return await _answered(function, request)

    return Route(path, answer, methods=["GET"])


def post(path: str, function: Callable[[dict[str, Any]], Any]) -> Route:
    """`function(what the page sent)` changes something. The gate has made sure that it was the page that asked."""

    async def answer(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LIMIT:
                return problem("L008", f"the request has more than {LIMIT} bytes", status=413)
        try:
            asked = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return problem("L008", f"not a JSON object: {error}", status=400)
        return await _answered(function, asked)

    return Route(path, answer, methods=["POST"])


async def _answered(function: Callable[[Any], Any], asked: Any) -> Response:
    try:
        found = await run_in_threadpool(function, asked)
        return found if isinstance(found, Response) else json_answer(found)
    except LaminarError as error:
        return problem(error.code, error.message, error.hint, status=404 if error.code in ("L006", "L305", "L001") else 422)
    except OSError as error:  # the store went away while it was looked at, or may not be read
        name = f" ({error.filename})" if error.filename else ""
        return problem("L302", f"a file cannot be read: {error.strerror or error}{name}", "laminar doctor", status=503)
    except Exception as error:
        log.exception("the dashboard failed")
        return problem("L900", f"a bug in Laminar: {type(error).__name__}: {error}", "laminar --debug ui", status=500)


def _tamed(value: Any) -> Any:
    """Numbers as those of a browser are: it has no others."""
    if isinstance(value, dict):
        return {str(key): _tamed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_tamed(inner) for inner in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        return str(value) if abs(value) < 1 << 4096 else None
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):  # numpy, which need not be loaded to ask
        return value.tolist()
    if hasattr(value, "to_json"):
        return value.to_json()
    raise NotImplementedError(f"{type(value).__name__} is no plain data")
