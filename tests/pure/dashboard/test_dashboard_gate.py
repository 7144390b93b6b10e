"""The gate: who is let in, what every answer says, and what may change something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import laminar.dashboard
from laminar.dashboard.server import Dashboard
from tests.pure.dashboard.visitor import Visitor, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nothing-here")


@pytest.fixture(scope="module")
def dashboard(folder: Path) -> Iterator[Dashboard]:
    with serving(folder) as made:
        yield made


@pytest.fixture
def stranger(dashboard: Dashboard) -> Visitor:
    return Visitor(dashboard)


@pytest.fixture
def page(dashboard: Dashboard) -> Visitor:
    return Visitor(dashboard).enter()


def test_nothing_is_said_without_the_token(dashboard, stranger):
    for path in ("/", "/static/app.js", "/api/session", "/api/stack", "/api/runs", "/api/live", "/nowhere"):
        answer = stranger.get(path)
        assert answer.status == 401 and "laminar ui" in answer.text, path
    token = dashboard.gate.token
    assert stranger.get("/", {"token": token[:-1] + "x"}).status == 401
    assert stranger.get("/api/stack", {"token": token}).status == 401, "the token opens the first page only"
    assert "set-cookie" not in stranger.get("/", {"token": ""}).headers


def test_the_token_is_exchanged_for_a_cookie_that_scripts_cannot_read(dashboard, stranger):
    answer = stranger.get("/", {"token": dashboard.gate.token})
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(r"laminar-\d+=[\w-]{40,}; Path=/; HttpOnly; SameSite=Strict", cookie)
    assert dashboard.gate.token not in cookie and dashboard.gate.token not in answer.text
    inside = stranger.enter()
    assert inside.get("/api/session").status == 200
    assert "set-cookie" not in inside.get("/api/session").headers


def test_two_dashboards_do_not_share_a_cookie(page, folder):
    with serving(folder) as other:
        strange = Visitor(other, cookie=page.cookie)
        assert strange.get("/api/session").status == 401


@pytest.mark.parametrize("path", ["/", "/static/app.css", "/static/app.js", "/api/session", "/api/nothing", "/static/../gate.py"])
def test_every_answer_forbids_what_the_page_does_not_need(page, stranger, path):
    for visitor in (page, stranger):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers


@pytest.mark.parametrize("host", ["evil.example:8686", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "127.0.0.1@evil.example"])
def test_a_name_that_was_rebound_to_this_machine_is_refused(page, host):
    answer = page.get("/api/session", host=host)
    assert answer.status in (421, 400) and "csrf" not in answer.text


@pytest.mark.parametrize("host", ["localhost:9000", "LOCALHOST:9000", "[::1]:8686", "127.0.0.1"])
def test_a_tunnel_may_have_another_port(page, host):
    assert page.get("/api/session", host=host).status == 200


@pytest.mark.parametrize("hosts", [["127.0.0.1:1", "evil.example"], ["evil.example", "127.0.0.1:1"], []])
def test_two_host_headers_or_none_match_nothing(page, hosts):
    assert page.ask("GET", "/api/session", hosts=hosts).status in (421, 400)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_for_is_refused(page, site):
    assert page.get("/api/session", sec_fetch_site=site).status == 403
    assert page.get("/", sec_fetch_site=site).status == 200, "a link may lead here; the page itself says nothing"


def test_a_change_needs_origin_and_token_and_json(page):
    right = dict(page.changing().headers)
    body = {"id": "abcd", "name": "x:v1"}
    for wrong in (
        {},
        {"origin": right["origin"]},
        {"x-laminar-csrf": right["x-laminar-csrf"]},
        right | {"origin": "http://evil.example"},
        right | {"origin": "null"},
        right | {"origin": "http://127.0.0.1:3000"},
        right | {"x-laminar-csrf": "x" * 43},
    ):
        page.headers = wrong
        assert page.post("/api/stack/tag", body).status == 403, wrong
    page.headers = right
    assert page.post("/api/stack/tag", b"id=abcd", content_type="application/x-www-form-urlencoded").status == 415
    assert page.post("/api/stack/tag", b"{").status == 400
    assert page.post("/api/stack/tag", b"[1]").status == 400
    assert page.post("/api/stack/tag", b'{"id": "\xff"}').status == 400
    assert page.post("/api/stack/tag", b'{"id": ' + b"[" * 60_000).status == 400
    assert page.post("/api/stack/tag", b'{"id": "' + b"a" * 100_000 + b'"}').status == 413
    assert page.post("/api/stack/tag", body).status in (404, 422), "through the gate: there is no store"


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(page, method):
    assert page.ask(method, "/api/stack").status == 405


def test_looking_changes_nothing(page, folder):
    for path in ("/api/stack/rollback", "/api/stack/tag"):
        assert page.get(path).status == 405
    for path in ("/api/stack", "/api/runs", "/api/stack/plan"):
        page.get(path)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "path",
    ["../server.py", "..%2fserver.py", "%2e%2e/gate.py", "....//gate.py", "/etc/passwd", "pages/../../gate.py", "pages", "", "..\\gate.py"],
)
def test_no_path_leads_out_of_the_static_files(page, path):
    answer = page.get(f"/static/{path}")
    assert answer.status == 404 and "import" not in answer.text


@pytest.mark.parametrize("run", ["../../etc", "..", ".", "a/b", "%2e%2e", "", "\x00", "x" * 500, "~", ".hidden"])
def test_a_run_is_a_name_and_never_a_path(page, run):
    for path in ("/api/runs/csv", "/api/runs/curves"):
        answer = page.get(path, {"run": run})
        assert answer.status == 404, answer.text
        assert answer.json()["error"]["code"] == "L006"


def test_static_files_are_asked_for_again_but_not_sent_again(page):
    first = page.get("/static/app.js")
    assert first.headers["content-type"].startswith("text/javascript") and first.headers["cache-control"] == "no-cache"
    assert page.get("/static/app.js", if_none_match=first.headers["etag"]).status == 304
    assert page.get("/").headers["cache-control"] == "no-store"


def test_nothing_in_the_pages_comes_from_elsewhere():
    """Neither styles nor scripts within the page (the policy forbids them), nor addresses of other machines, nor text read as HTML."""
    assert laminar.dashboard.__file__ is not None
    for path in sorted((Path(laminar.dashboard.__file__).parent / "static").rglob("*")):
        if path.suffix not in (".js", ".css", ".html"):
            continue
        text = path.read_text()
        addresses = [a for a in re.findall(r"https?://[^\s\"'`)]+", text) if not a.startswith("http://www.w3.org/")]
        assert not addresses, (path, addresses)
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", 'setAttribute("style'):
            assert word not in text, (path, word)
        if path.suffix == ".html":
            assert not re.search(r"<style|style=|<script(?![^>]*src=)|\son\w+=", text)
