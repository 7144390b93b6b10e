"""What is found out about a Ray cluster's address without Ray."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.launch import ray
from laminar.launch.choose import launcher_of
from laminar.launch.ray import RayLauncher, reachable_from
from tests.multi.launch.cluster_project import ClusterProject


@pytest.fixture
def _has_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "find_spec", lambda _: object())


def refused(launcher: RayLauncher) -> LaminarError:
    with pytest.raises(LaminarError) as caught:
        launcher.host  # noqa: B018
    assert caught.value.code == "L407"
    return caught.value


def test_without_ray_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "find_spec", lambda _: None)
    assert refused(RayLauncher("ray://head:10001")).hint == "pip install 'laminar-train[ray]'"


@pytest.mark.usefixtures("_has_ray")
def test_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as bound:  # and does not listen
        bound.bind(("127.0.0.1", 0))
        address = f"ray://127.0.0.1:{bound.getsockname()[1]}"
        assert refused(RayLauncher(address)).message == f"nobody answers at {address}: Connection refused"


@pytest.mark.usefixtures("_has_ray")
def test_no_line_of_the_stack_file_is_blamed_for_it(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(LaminarError) as caught:
            ClusterProject(tmp_path / "p").build(RayLauncher(address), "sync")
    assert caught.value.message == f"layer base: nobody answers at {address}: Connection refused"


@pytest.mark.usefixtures("_has_ray")
@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:port", "ray://:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert f"'{address}' is no address" in refused(RayLauncher(address)).message


@pytest.mark.parametrize(
    ("address", "place"), [("ray://a:1", ("a", 1)), ("ray://a", ("a", 10001)), ("[::1]:5", ("::1", 5)), ("a:6379", ("a", 6379))]
)
def test_an_address_has_host_and_port(address: str, place: tuple[str, int]) -> None:
    assert ray._place(address) == place


def test_words_of_the_command_line() -> None:
    found = {on: launcher_of(on) for on in ("ray", "ray://head:10001", "ray:head:6379", "ray:auto")}
    assert [launcher._address for launcher in found.values() if isinstance(launcher, RayLauncher)] == [
        "local",
        "ray://head:10001",
        "head:6379",
        "auto",
    ]


def test_a_cluster_on_this_machine_calls_by_loopback_and_another_by_the_way_to_it() -> None:
    assert reachable_from(["127.0.0.1", "localhost", socket.gethostbyname(socket.gethostname())]) == "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect(("203.0.113.7", 9))  # of a network that is for examples
        except OSError:
            pytest.skip("this machine has no network")
        assert reachable_from(["127.0.0.1", "203.0.113.7"]) == way.getsockname()[0] != "127.0.0.1"
