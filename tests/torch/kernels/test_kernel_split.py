"""Kernels with long functions and few instances, called as operators: as a circuit they give the bits of the whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import laminar
from laminar.kernels.circuit.guess import Account
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.compile.variants import Variants
from laminar.kernels.operator import engine, split
from laminar.kernels.operator.decide import Decider

TEXT = """
float slow(float a, int m) { float s = a; for (int k = 0; k < 20000; k++) s = s * 0.999f + a * (float)m; return s; }
void kernel(int i, int n, const float x[n], float y[n]) {
    float a = slow(x[i], 1);
    float b = slow(x[i], 2);
    float r = a;
    if (slow(a, 3) > 0.0f) r = slow(b, 4);
    y[i] = r + b;
}
"""
ROUNDS = """
#pragma laminar instances 1
float heavy(float a, int rounds) { float s = a; for (int k = 0; k < rounds; k++) s = s * 0.99f + a; return s; }
void kernel(int i, int count, int n, int rounds, const float x[n], float y[n]) {
    for (int t = 0; t < n / 2; t++) y[t] = heavy(x[t], rounds);
    for (int t = n / 2; t < n; t++) y[t] = heavy(x[t], rounds);
}
"""
EXAMPLES = Path(__file__).parents[3] / "examples" / "kernels"


@pytest.fixture(autouse=True)
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All ways are tried, however short a call is; calls as a circuit, as they come."""
    for place, name, value in ((engine, "SHORT", -1.0), (engine, "LONG", 0.0), (split, "LONG", 0.0)):
        monkeypatch.setattr(place, name, value)
    runs: list[int] = []

    def run(*given: Any, **more: Any) -> Account:
        runs.append(1)
        return run_circuit(*given, **more, grain=0.0)

    monkeypatch.setattr(split, "run_circuit", run)
    return runs


def test_a_circuit_gives_what_the_whole_gives(tried: list[int]) -> None:
    slow = laminar.kernel(source=TEXT)
    x = torch.linspace(-1, 1, 64)
    answers = [slow(x) for _ in range(9)]
    assert len(tried) >= 2, "one call as a circuit, which compiles it, and one that is measured"
    for one in answers[1:]:
        assert torch.equal(one, answers[0])


@pytest.mark.usefixtures("tried")
def test_the_account_of_guesses() -> None:
    slow = laminar.kernel(source=TEXT.replace("0.999f", "0.998f"))  # calls of one text share an account
    assert slow.guesses.runs == 0
    for _ in range(9):
        slow(torch.linspace(-1, 1, 64))
    account = slow.guesses
    assert account.runs >= 1 and account.started == account.committed + account.thrown_away
    assert slow.guesses == account and slow.guesses is not account, "a copy, which later calls do not change"


def test_kernels_that_never_run_as_a_circuit_have_guessed_nothing() -> None:
    waits = laminar.kernel(source="void kernel(int i, int n, const float x[n], float y[n]) { barrier(); y[i] = x[i]; }")
    waits(torch.ones(3))
    assert (waits.guesses.runs, waits.guesses.started) == (0, 0)


def test_loops_that_count_and_halves_of_an_array_give_what_the_whole_gives(tried: list[int]) -> None:
    kernel = laminar.kernel(source=ROUNDS)
    x = torch.linspace(-1, 1, 33)
    for rounds in (10, 2000):
        answers = [kernel(x, rounds=rounds) for _ in range(7)]
        assert all(torch.equal(one, answers[0]) for one in answers)
    assert len(tried) >= 4, "a first call with few rounds does not decide for many"


def test_one_instance_never_runs_as_lanes(tried: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Variants, "several", property(lambda _: pytest.fail("lanes of one instance")))
    kernel = laminar.kernel("one.c", source=TEXT)  # not the one of another test
    assert len({float(kernel(torch.tensor([0.5]))) for _ in range(6)}) == 1 and tried
    short = laminar.kernel(source="void kernel(int i, int n, const float x[n], float y[n]) { y[i] = x[i] * 2.0f; }")
    assert short(torch.tensor([0.5])) == 1.0
    phases = "void kernel(int i, int n, const float x[n], float y[n]) { shared float t[8]; t[i] = x[i]; barrier(); y[i] = t[n - 1 - i]; }"
    with pytest.raises(pytest.fail.Exception):
        laminar.kernel(source=phases)(torch.ones(3))


def test_short_calls_are_never_tried_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Decider] = []

    def make(*given: Any) -> Decider:
        made.append(Decider(*given))
        return made[-1]

    monkeypatch.setattr(split, "Decider", make)
    monkeypatch.setattr(engine, "LONG", 60.0)
    kernel = laminar.kernel("few.c", source=ROUNDS)
    for _ in range(3):
        kernel(torch.linspace(-1, 1, 8), rounds=5)
    assert not made


def text_of(name: str, block: int) -> str:
    return re.sub(r"#define B \d+", f"#define B {block}", (EXAMPLES / name).read_text())


@pytest.mark.parametrize("n", [8, 32])
def test_a_cholesky_factor_by_blocks(tried: list[int], n: int) -> None:
    kernel = laminar.kernel("cholesky.c", source=text_of("cholesky.c", 8))
    made = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    a = made @ made.T + n * torch.eye(n, dtype=torch.float64)
    answers = [kernel(a) for _ in range(5)]
    assert all(torch.equal(one, answers[0]) for one in answers) and len(tried) >= 2
    torch.testing.assert_close(torch.tril(answers[0]), torch.linalg.cholesky(a))


@pytest.mark.parametrize("n", [8, 40])
def test_longest_common_subsequences_by_blocks(tried: list[int], n: int) -> None:
    kernel = laminar.kernel("lcs.c", source=text_of("lcs.c", 8))
    x, y = (torch.randint(0, 3, (n,), dtype=torch.int32, generator=torch.Generator().manual_seed(seed)) for seed in (2, 3))
    wanted = torch.zeros(n + 1, n + 1, dtype=torch.int32)
    for i in range(n):
        for j in range(n):
            wanted[i + 1, j + 1] = wanted[i, j] + 1 if x[i] == y[j] else torch.maximum(wanted[i, j + 1], wanted[i + 1, j])
    for _ in range(5):
        assert torch.equal(kernel(x, y), wanted)
    assert len(tried) >= 2
