"""Ranks and addresses from what torchrun and Slurm put into the environment."""

from __future__ import annotations

import pytest

from laminar.core.errors import LaminarError
from laminar.launch.choose import launcher_of
from laminar.launch.environment import EnvironmentLauncher, Place, first_host, need_place, place_of

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RESTART_COUNT": "2",
    "RANK": "3",
    "WORLD_SIZE": "4",
    "MASTER_ADDR": "head",
    "MASTER_PORT": "1234",
}
SLURM = {"SLURM_PROCID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "node[07-09],gpu1"}


def test_torchrun() -> None:
    assert place_of(TORCHRUN) == Place(rank=3, size=4, master="head", port=1234, store=True, attempt=2)


def test_slurm() -> None:
    assert place_of(SLURM) == Place(rank=1, size=4, master="node07", port=29500, store=False, attempt=0)
    given = place_of({**SLURM, "MASTER_ADDR": "ib0", "MASTER_PORT": "5000"})
    assert given is not None
    assert (given.master, given.port) == ("ib0", 5000)


def test_by_hand_and_not_at_all() -> None:
    assert place_of({"RANK": "0", "WORLD_SIZE": "2"}) == Place(rank=0, size=2, master="127.0.0.1", port=29500, store=False, attempt=0)
    assert place_of({}) is None
    assert place_of({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}) is None, "a job of one task"
    with pytest.raises(LaminarError, match="no rank in the environment"):
        need_place({})


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(LaminarError, match="WORLD_SIZE is 'four'"):
        place_of({**TORCHRUN, "WORLD_SIZE": "four"})


@pytest.mark.parametrize(
    ("text", "host"),
    [("node1", "node1"), ("node1,node2", "node1"), ("node[3-6]", "node3"), ("node[003,007]", "node003"), ("a,b[1-2]", "a")],
)
def test_the_first_host_of_slurms_short_form(text: str, host: str) -> None:
    assert first_host(text) == host


def test_without_a_store_there_must_be_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(rank=0, size=2, master="127.0.0.1", port=29500, store=False, attempt=0)
    monkeypatch.delenv("LAMINAR_TOKEN", raising=False)
    with pytest.raises(LaminarError, match="LAMINAR_TOKEN is not set"):
        EnvironmentLauncher(place)
    monkeypatch.setenv("LAMINAR_TOKEN", "secret")
    launcher = EnvironmentLauncher(place)
    assert (launcher.port, launcher.token, launcher.fixed, launcher.host) == (29500, "secret", 2, "127.0.0.1")


def test_where_workers_run_is_chosen_by_name() -> None:
    assert launcher_of("local") is None
    assert getattr(launcher_of("agents"), "name", None) == "agents"
    with pytest.raises(LaminarError, match="there is no 'rya'; did you mean 'ray'"):
        launcher_of("rya")
    with pytest.raises(LaminarError, match="does not say what listens") as found:
        launcher_of("head:6379")
    assert "ray:head:6379" in str(found.value.hint)


def test_a_name_that_means_this_machine_only_will_not_do_for_several() -> None:
    place = Place(rank=0, size=4, master="localhost", port=29500, store=True, attempt=0, nodes=2)
    with pytest.raises(LaminarError, match=r"MASTER_ADDR localhost is 127\.0\.0\.1 here") as caught:
        EnvironmentLauncher(place).host  # noqa: B018
    assert caught.value.code == "L407"
    found = place_of({"TORCHELASTIC_RUN_ID": "r", "RANK": "0", "WORLD_SIZE": "8", "GROUP_WORLD_SIZE": "4"})
    assert found is not None and found.nodes == 4
