"""The interface against its own description: schemathesis makes requests from it, good and bad; none of them makes the server fail."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from laminar.grid.server.openapi import document
from laminar.grid.server.serve import GridServer
from tests.multi.grid.served import serving

schema = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GridServer, str]]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as found:
        found[0].gate.unlimited = True  # hundreds of strange requests a second are what is asked for here
        yield found


@schema.parametrize()
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case, grid: tuple[GridServer, str]) -> None:
    server, url = grid
    response = case.call(base_url=url, headers={"Authorization": f"Bearer {server.secrets.admin}"})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()) == {"error", "message", "now"}
    elif case.path.startswith("/v1/admin") or case.method == "GET":
        case.validate_response(response, checks=[schemathesis.checks.not_a_server_error])


def test_the_description_names_every_route(grid: tuple[GridServer, str]) -> None:
    told = httpx.get(grid[1] + "/v1/openapi.json").json()
    routes = {route.path for route in grid[0].app.routes}  # type: ignore[attr-defined]
    assert routes - set(told["paths"]) == {"/", "/status.js", "/view.js", "/view.css", "/v1/openapi.json"}
