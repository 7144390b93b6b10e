"""The gate: who may come in, and what every answer tells the browser to forbid.

Other programs of other users can reach a port of this machine, and so can any web page that the user has open elsewhere. So:
the address that `laminar ui` prints has a token, which is exchanged for a cookie that scripts cannot read and that no other site's
requests carry; the Host header must be this machine's (a name that was rebound to 127.0.0.1 is not); requests that the browser says come
from another origin are refused; and what changes something needs the Origin of this page and a second token, in a header that only a
script of this page can have read. https://owasp.org/www-community/attacks/csrf, https://en.wikipedia.org/wiki/DNS_rebinding.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, final
from urllib.parse import parse_qs

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from laminar.dashboard.answer import problem

HOSTS: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
CSRF: Final = "x-laminar-csrf"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}
LOCKED: Final = "Open the address that `laminar ui` has printed: it has the token that lets you in.\n"


@final
class Gate:
    """Wraps an app. `port` is in the cookie's name: browsers send cookies to every port, and there may be two dashboards."""

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self._app = app
        self.token = secrets.token_urlsafe(32)
        self.csrf = secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._cookie = f"laminar-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _headers(scope["headers"])
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0] if scope["path"] == "/" else ""
        entering = _same(given, self.token)
        more = {"cache-control": "no-store"} if scope["path"] == "/" or scope["path"].startswith("/api/") else {}
        if entering:
            more["set-cookie"] = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        refused = self._refuse(scope, headers, entering)
        await (refused or self._app)(scope, receive, _adding(send, HEADERS | more))

    def _refuse(self, scope: Scope, headers: dict[str, str], entering: bool) -> Response | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if name.lower() not in HOSTS:
            return _say(scope, f"this dashboard answers to 127.0.0.1 and localhost only, not to {name[:80]!r}", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _say(scope, f"{scope['method']} is not a thing to ask of this dashboard", 405)
        if not entering and not _same(_cookie(headers, self._cookie), self._session):
            return _say(scope, LOCKED, 401)
        if scope["path"] != "/" and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return _say(scope, "another site asked for this", 403)
        if scope["method"] != "POST":
            return None
        if headers.get("origin") != f"http://{host}":
            return _say(scope, "a change can only be asked for by this dashboard's own page (Origin)", 403)
        if not _same(headers.get(CSRF, ""), self.csrf):
            return _say(scope, "a change needs this page's own token: reload the page", 403)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return _say(scope, "a change is asked for in JSON", 415)
        return None


def _say(scope: Scope, text: str, status: int) -> Response:
    return problem("L008", text.strip(), status=status) if scope["path"].startswith("/api/") else PlainTextResponse(text, status)


def _same(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode(), wanted.encode())


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """The last of equal names counts but for Host and Origin: two of those are a trick, and match nothing."""
    found: dict[str, str] = {}
    for name, value in raw:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found and key in ("host", "origin") else value.decode("latin-1")
    return found


def _cookie(headers: dict[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _adding(send: Send, more: dict[str, str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: MutableMapping[str, Any] = message
            names = {name.lower() for name, _ in own.get("headers", [])}
            added = [(k.encode(), v.encode()) for k, v in more.items() if k.encode() not in names]
            own["headers"] = [*own.get("headers", []), *added]
        await send(message)

    return sending
