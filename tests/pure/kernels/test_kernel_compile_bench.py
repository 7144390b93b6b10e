"""`laminar kernel bench`: random inputs of the right sizes, three ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laminar.cli import kernel_bench
from laminar.core.errors import LaminarError

KERNEL = """#pragma laminar instances n * m
void kernel(int i, int count, int n, int m, float slope, const int at[n], const float x[n][m], float y[n][m]) {
    y[i / m][i % m] = slope * x[at[i / m]][i % m];
}"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LAMINAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "k.c").write_text(KERNEL)
    return tmp_path / "k.c"


def test_three_ways_are_timed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel_bench.run(file, ["n=5", "m=40"], rounds=2, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["instances"] == 200 and found["independent"] and "lanes" in found["plan"]
    assert [one["name"] for one in found["ways"]] == ["one instance after another", "lanes", "lanes, 2 threads"]
    assert all(one["median_ms"] >= one["best_ms"] > 0 for one in found["ways"])
    kernel_bench.run(file, ["n=5", "m=40"], instances=120, threads=1, rounds=1)
    assert "120 instances" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("param", "instances", "said"),
    [(["n=5"], None, "the value `m`"), (["n=0", "m=4"], 3, "an array without elements"), (["n=5", "m=4"], 0, "0 instances")],
)
def test_what_is_missing_is_told(file: Path, param: list[str], instances: int | None, said: str) -> None:
    with pytest.raises(LaminarError, match=said) as raised:
        kernel_bench.run(file, param, instances=instances, rounds=1)
    assert raised.value.code == "L702"


@pytest.mark.parametrize("barrier", ["barrier();", ""])
def test_kernels_with_barriers_and_shared_arrays_are_timed(barrier: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = f"shared float t[64]; t[i] = x[i]; {barrier} y[i] = t[{'n - 1 - i' if barrier else 'i'}];"
    file.write_text(f"void kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")
    kernel_bench.run(file, instances=64, rounds=1, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["plan"].startswith("2 phases: ") == bool(barrier) and len(found["ways"]) == 3


def test_a_local_array_that_is_only_written_behind_a_barrier(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = "float w[2]; w[0] = x[i]; y[i] = w[0]; barrier(); w[1] = 1;"
    file.write_text(f"void kernel(int i, int n, const float x[n], float y[n]) {{ {body} }}")
    kernel_bench.run(file, instances=64, rounds=1, json=True)
    assert json.loads(capsys.readouterr().out)["plan"].startswith("2 phases: ")
