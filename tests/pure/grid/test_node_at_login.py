"""A node that starts when its owner logs in: the files that systems read, where they are, and that nothing secret is in them."""

from __future__ import annotations

import configparser
import plistlib
import re
import shlex
import sys
from pathlib import Path

import pytest

from laminar.core.errors import LaminarError
from laminar.grid.node import at_login
from laminar.grid.node.at_login import entry_of, put, remove, text_of, words_of
from laminar.grid.node.login_files import desktop_entry, launchd_plist, startup_script, systemd_unit

ODD = ["/opt/my python/bin/python", "-m", "laminar", "--cpu", "50%", "--name", 'a "b" $HOME `x` \\ c%d', "--hours", "18-8"]


def ini(text: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, delimiters=("=",), strict=True)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read_string(text)
    return found


def test_a_unit_of_systemd_says_the_same_words() -> None:
    unit = ini(systemd_unit(ODD, 4 << 30))
    assert set(unit) == {"DEFAULT", "Unit", "Service", "Install"} and unit["Install"]["WantedBy"] == "default.target"
    service = unit["Service"]
    assert shlex.split(service["ExecStart"].replace("$$", "$").replace("%%", "%")) == ODD
    assert int(service["MemoryMax"]) > 4 << 30 and service["MemorySwapMax"] == "0" and service["OOMPolicy"] == "continue"
    assert service["KillMode"] == "mixed"  # told to end with its keeper, the computing process would seem to have failed
    assert service["Restart"] == "on-failure" and service["RestartPreventExitStatus"].split() == ["2", "5"]  # of a ban, or a wrong option
    assert "MemoryMax" not in systemd_unit(ODD, None)


def test_an_autostart_entry_says_the_same_words() -> None:
    entry = ini(desktop_entry(ODD))["Desktop Entry"]
    assert entry["Type"] == "Application" and entry["Terminal"] == "false"
    value = entry["Exec"].replace("\\\\", "\\")  # as a value of a key first, as arguments then
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', value)
    assert [re.sub(r"\\(.)", r"\1", quoted or plain).replace("%%", "%") for quoted, plain in words] == ODD


def test_an_agent_of_launchd_says_the_same_words() -> None:
    told = plistlib.loads(launchd_plist("org.laminar.laminar-node", ODD, "/tmp/log"))
    assert told["ProgramArguments"] == ODD and told["Label"] == "org.laminar.laminar-node"
    assert told["RunAtLoad"] is True and told["KeepAlive"] == {"Crashed": True} and told["Nice"] == 19


def test_a_script_of_windows_says_the_same_words() -> None:
    script = startup_script(["C:\\Program Files\\python.exe", "-m", "laminar", "--cpu", "50%", "--name", "a&b", "--home", "C:\\x&y\\"])
    assert script.isascii() and script.count("\r\n") == script.count("\n")
    assert script.splitlines()[-1] == (
        'start "Laminar node" /min /low "C:\\Program Files\\python.exe" -m laminar --cpu 50%% --name "a&b" --home "C:\\x&y\\\\"'
    )


def test_where_each_system_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMINAR_NODE", str(tmp_path / "node"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    own = tmp_path / "node"
    unit = entry_of(own, platform="linux", environment={}, systemd=True)
    assert unit.path == tmp_path / ".config/systemd/user/laminar-node.service"
    assert unit.links == tmp_path / ".config/systemd/user/default.target.wants/laminar-node.service"
    elsewhere = entry_of(own, platform="linux", environment={"XDG_CONFIG_HOME": str(tmp_path / "c")}, systemd=False)
    assert elsewhere.path == tmp_path / "c/autostart/laminar-node.desktop"
    assert entry_of(own, platform="darwin", environment={}).path == tmp_path / "Library/LaunchAgents/org.laminar.laminar-node.plist"
    roaming = entry_of(own, platform="win32", environment={"APPDATA": str(tmp_path / "r")}).path
    assert roaming == tmp_path / "r/Microsoft/Windows/Start Menu/Programs/Startup/laminar-node.cmd"
    names = {entry_of(tmp_path / name, platform="linux", environment={}, systemd=True).path.name for name in ("node", "a", "b")}
    assert len(names) == 3  # a machine may have several


@pytest.mark.parametrize(("platform", "systemd"), [("linux", True), ("linux", False), ("darwin", None), ("win32", None)])
def test_it_is_put_there_and_taken_away(platform: str, systemd: bool | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, ...]] = []
    monkeypatch.setattr(at_login, "_tell", told.append)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    home = tmp_path / "node"
    entry = entry_of(home, platform=platform, environment={}, systemd=systemd)
    words = words_of(home, ["--only-idle"])
    assert words == [sys.executable, "-m", "laminar", "grid", "join", "--home", str(home), "--only-idle"]
    for _ in range(2):  # again, with other limits, say
        put(entry, text_of(entry, words, None, home))
        written = entry.path.read_text()
        assert str(home) in written and "--only-idle" in written and "token" not in written
    if entry.links is not None:
        assert entry.links.resolve() == entry.path.resolve()
    told.clear()
    assert remove(entry) and not remove(entry)
    assert told == [entry.stop, entry.reload]
    assert [path for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()] == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    (tmp_path / ".config").write_text("a file")
    entry = entry_of(tmp_path / "node", platform="linux", environment={}, systemd=True)
    with pytest.raises(LaminarError, match="laminar-node") as caught:
        put(entry, b"x")
    assert caught.value.code == "L302" and caught.value.hint
