"""Where `laminar kernel run` puts its outputs, and what it says when it cannot; inputs as other machines write them."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

from laminar.cli.kernel_params import ending_at_once

TWICE = "void kernel(int i, int n, const float x[n], float y[n]) { y[i] = 2 * x[i]; }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twice.c").write_text(TWICE)
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    from laminar.cli import main

    monkeypatch.setattr(sys, "argv", ["laminar", "kernel", *words])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0)


@pytest.mark.parametrize("engine", ["emulator", "native"])
def test_bytes_in_another_order(folder: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    np.save("x.npy", np.array([1, 2, -3], ">f4"))
    assert run(monkeypatch, "run", "twice.c", "--param", "x=@x.npy", "--engine", engine, "--out", "new/one") == 0
    assert np.load(folder / "new/one/y.npy").tolist() == [2, 4, -6]


def test_a_file_where_the_folder_should_be(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "run", "twice.c", "--param", "x=ones:3", "--out", "twice.c") == 2
    assert "error L008: --out twice.c: " in capsys.readouterr().err
    assert (folder / "twice.c").read_text() == TWICE


def test_a_full_disk_leaves_no_half_of_an_output(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(monkeypatch, "run", "twice.c", "--param", "x=ones:3") != 0
    assert "error L301" in capsys.readouterr().err
    assert os.listdir(folder) == ["twice.c"]


@pytest.mark.usefixtures("folder")
def test_bench_of_more_than_the_machine_holds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "bench", "twice.c", "--instances", str(10**15)) == 2
    assert "error L702: twice.c: 1,000,000,000,000,000 instances" in capsys.readouterr().err


def test_ctrl_c_does_not_wait_for_native_code() -> None:
    before = signal.getsignal(signal.SIGINT)
    with ending_at_once():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is before
