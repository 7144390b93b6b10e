"""An invitation to join: for its owner alone, and only while someone is there."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from laminar.core.errors import LaminarError
from laminar.parallel.apart import invitation
from laminar.parallel.apart.calls import Over, Server
from laminar.parallel.apart.messages import Welcome
from laminar.parallel.wire.hub import Hub
from laminar.store.store import Store


def invite(store: Store, run: str, address: str) -> Path:
    folder = store.run_folder(run) / "apart"
    folder.mkdir(exist_ok=True)
    return invitation.write(folder, {"addresses": [address], "run": run, "folder": str(folder), "token": run})


def test_an_invitation_holds_until_its_training_ends_or_another_build_goes_on_with_it(tmp_path: Path) -> None:
    told = {"folder": str(tmp_path), "token": "a", "addresses": []}
    with invitation.kept(tmp_path):
        path = invitation.write(tmp_path, told)
        assert invitation.holds(told)
        invitation.write(tmp_path, told | {"token": "b"})
        assert not invitation.holds(told)
        path.write_text("{")
        assert invitation.holds(told)
        path.unlink()
        assert not invitation.holds(told)
        invitation.write(tmp_path, told)
    assert not path.exists() and not invitation.holds(told)


def test_an_invitation_of_a_chief_that_was_killed_does_not_hold(tmp_path: Path) -> None:
    told = {"folder": str(tmp_path), "token": "a", "addresses": []}
    path = invitation.write(tmp_path, told)  # nobody has the lock that its death has freed
    assert not invitation.holds(told)
    path.write_text(path.read_text().replace(socket.gethostname(), "elsewhere"))
    assert invitation.holds(told), "a lock of another machine need not be seen here"


def test_nobody_waits_for_a_server_of_a_training_that_has_ended(tmp_path: Path) -> None:
    told = {"folder": str(tmp_path), "token": "a"}
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        (tmp_path / invitation.FILE).unlink()

    server = Server(f"unix:{tmp_path}/nobody", "a", "", timeout=60.0, pause=pause, over=lambda: not invitation.holds(told))
    with invitation.kept(tmp_path):
        invitation.write(tmp_path, told)
        with pytest.raises(Over):
            server.call()
    assert len(pauses) == 1


def test_nobody_waits_for_a_server_that_hangs_when_its_training_has_ended(tmp_path: Path) -> None:
    told = {"folder": str(tmp_path), "token": "a"}
    with socket.socket(socket.AF_UNIX) as hangs, invitation.kept(tmp_path):
        hangs.bind(f"{tmp_path}/s")
        hangs.listen()  # calls are taken, and none is answered
        looks: list[bool] = []

        def over() -> bool:
            looks.append(invitation.holds(told))
            (tmp_path / invitation.FILE).unlink(missing_ok=True)
            return not looks[-1]

        server = Server(f"unix:{tmp_path}/s", "a", "", timeout=0.01, pause=lambda _: None, over=over)
        invitation.write(tmp_path, told)
        with pytest.raises(Over):
            server.call()
        server.close()
        assert looks == [True, False]

        server = Server(f"unix:{tmp_path}/s", "a", "", timeout=0.01, pause=lambda _: None)
        with pytest.raises(LaminarError, match=r"did not answer for 0\.03 s"):
            server.call()
        server.close()


def test_a_guest_does_not_wait_for_ever_for_a_server_that_hangs_on_after_its_welcome(tmp_path: Path) -> None:
    hub = Hub(f"unix:{tmp_path}/s", "a", payload_limit=0)
    heard: list[Any] = []

    def welcome() -> None:
        while not heard:
            for one in hub.turn(1.0):
                heard.append(one.header)
                hub.send(one.caller, Welcome(worker="2", version=0, next=0, kept=-1))

    hears = threading.Thread(target=welcome)
    hears.start()
    server = Server(hub.address, "a", "", timeout=0.1, chief="its build (process 1 on lab5)")
    assert server.call().worker == "2"
    hears.join()
    with pytest.raises(
        LaminarError, match=r"did not answer for 0\.3 s \(it .*\), and its build \(process 1 on lab5\) has started"
    ) as caught:
        server.hear()
    assert caught.value.code == "L401" and caught.value.exit_code == 4 and "laminar join again" in caught.value.hint
    asked = [one.header for _ in range(5) for one in hub.turn(0.0)]
    assert asked[:1] == [{"say": "alive", "answer": True}] and len(asked) == 3
    server.close()
    hub.close()


def test_only_trainings_under_way_are_found(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", create=True)
    with pytest.raises(LaminarError, match="no training under way") as caught:
        invitation.find(store)
    assert caught.value.code == "L006" and caught.value.exit_code == 2
    assert caught.value.message.endswith("could join here"), "there is nothing to add"
    hub = Hub(f"unix:{tmp_path}/s", "token", payload_limit=0)
    path = invite(store, "abcd", hub.address)
    assert path.stat().st_mode & 0o777 == 0o600
    with invitation.kept(path.parent):
        with invitation.kept(invite(store, "mute", f"unix:{tmp_path}/nobody").parent):  # newer, and its server is not there
            invite(store, "dead", hub.address)  # left behind by a build that was killed, and somebody else has its address
            (store.run_folder("half") / "apart").mkdir()
            (store.run_folder("half") / "apart" / invitation.FILE).write_text("{")
            assert invitation.find(store) == invitation.find(store, "ab") == ("abcd", json.loads(path.read_text()))
            for name in ("dead", "mute"):
                with pytest.raises(LaminarError, match=f"'{name}' is under way"):
                    invitation.find(store, name)
        hub.close()
        with pytest.raises(LaminarError, match="none is"):
            invitation.find(store, "ab")
