"""A dashboard in a thread, and a visitor that sends exactly what it is told to: paths, hosts and headers that no browser would."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from laminar.dashboard.server import Dashboard


@contextlib.contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Dashboard]:
    dashboard = Dashboard(folder, port=0, **options)
    ready = threading.Event()
    thread = threading.Thread(target=dashboard.run, args=(ready.set,))
    thread.start()
    try:
        assert ready.wait(20)
        yield dashboard
    finally:
        dashboard.stop()
        thread.join(20)
        assert not thread.is_alive()


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Visitor:
    dashboard: Dashboard
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.dashboard.url.split("/")[2]

    def enter(self) -> Visitor:
        answer = self.ask("GET", "/?" + self.dashboard.url.partition("?")[2])
        assert answer.status == 200
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def changing(self) -> Visitor:
        """With what a change needs."""
        self.headers = {"x-laminar-csrf": self.get("/api/session").json()["csrf"], "origin": f"http://{self.host}"}
        return self

    def get(self, path: str, query: dict[str, Any] | None = None, **headers: str) -> Answer:
        return self.ask("GET", path + (f"?{urlencode(query, doseq=True)}" if query else ""), headers=headers)

    def post(self, path: str, content: Any, **headers: str) -> Answer:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return self.ask("POST", path, headers={"content-type": "application/json", **headers}, body=body)

    def ask(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, hosts: list[str] | None = None, body: bytes = b""
    ) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in {**self.headers, **(headers or {})}.items()}
        hosts = hosts if hosts is not None else [sent.pop("host", self.host)]
        name, port = self.host.split(":")
        line = http.client.HTTPConnection(name, int(port), timeout=20)
        try:
            line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for host in hosts:
                line.putheader("Host", host)
            for key, value in sent.items():
                line.putheader(key, value)
            if self.cookie:
                line.putheader("Cookie", self.cookie)
            if body:
                line.putheader("Content-Length", str(len(body)))
            line.endheaders(body or None)
            answer = line.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            line.close()
