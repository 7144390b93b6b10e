"""The interface against its own description: schemathesis makes requests from it, good and bad; none of them makes the server fail.

Twice: with the grid's own secret, and as a node that has joined and signs whatever it is made to say.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from requests.auth import AuthBase
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from laminar.grid.server.gate import Rates
from laminar.grid.server.openapi import document
from laminar.grid.server.serve import GridServer
from laminar.grid.wire import signing
from tests.multi.grid.served import serving
from tests.multi.grid.test_grid_server import FACTS, Client

schema = schemathesis.openapi.from_dict(document())
AS_DESCRIBED = [content_type_conformance, response_schema_conformance, status_code_conformance]
OF_NODES = "^/v1/(work|files|results|runs)"


class Signed(AuthBase):
    """A node's signature, of whatever the request has come to be."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        body = request.body or b""
        digest = hashlib.sha256(body if isinstance(body, bytes) else str(body).encode()).hexdigest()
        stamp, nonce = f"{time.time():.3f}", signing.nonce()
        message = signing.of_request(str(request.method), request.path_url, stamp, nonce, digest)
        head = {signing.NODE: self._client.node, signing.TIME: stamp, signing.NONCE: nonce}
        request.headers.update({**head, signing.SIGNATURE: self._client._key.sign(message)})
        return request


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as found:
        found[0].gate.unlimited = True  # hundreds of strange requests a second are what is asked for here
        yield found


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Signed, str]]:
    """Of a server of its own: the other one's tokens may all be revoked by now."""
    with serving(tmp_path_factory.mktemp("joined")) as (server, url):
        server.gate._rates = Rates(1e6, burst=1e6)
        server._routes.close()  # whoever asks for work and would wait is told that there is none
        client = Client(url, signing.Key.make(), pinned=server.key.public)
        client.enrol(server.secrets.join, FACTS)
        yield Signed(client), url
        client.close()


def well_refused(response: schemathesis.Response) -> bool:
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()) == {"error", "message", "now"}
    return response.status_code >= 400


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case, grid: tuple[GridServer, str]) -> None:
    server, url = grid
    response = case.call(base_url=url, headers={"Authorization": f"Bearer {server.secrets.admin}"})
    if not well_refused(response) and (case.path.startswith("/v1/admin") or case.method == "GET"):
        case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])


@schema.include(path_regex=OF_NODES).parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_node_makes_the_server_fail(case: schemathesis.Case, node: tuple[Signed, str]) -> None:
    signed, url = node
    response = case.call(base_url=url, auth=signed)
    assert not (response.status_code == 401 and response.json()["error"] == "signature"), "it got no further than the gate"
    if not well_refused(response):
        case.validate_response(response, checks=AS_DESCRIBED)  # not those of signatures: ours are made after what they look at


def test_the_description_names_every_route(grid: tuple[GridServer, str]) -> None:
    told = httpx.get(grid[1] + "/v1/openapi.json").json()
    routes = {route.path for route in grid[0].app.routes}  # type: ignore[attr-defined]
    assert routes - set(told["paths"]) == {"/", "/status.js", "/view.js", "/view.css", "/v1/openapi.json"}
