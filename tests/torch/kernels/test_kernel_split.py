"""Kernels with long functions and few instances, called as operators: as a circuit they give the bits of the whole."""

from __future__ import annotations

import pytest
import torch

import laminar
from laminar.kernels.operator import split

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


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_circuit_gives_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LONG", 0.0)
    runs: list[int] = []
    real = split.run_circuit
    monkeypatch.setattr(split, "run_circuit", lambda *given, **more: (runs.append(1), real(*given, **more)))
    slow = laminar.kernel(source=TEXT)
    x = torch.linspace(-1, 1, 64)
    answers = [slow(x) for _ in range(5)]
    assert len(runs) >= 2, "the second and third calls are as a circuit, whichever is faster then"
    for one in answers[1:]:
        assert torch.equal(one, answers[0])


@pytest.mark.usefixtures("two_threads")
def test_the_account_of_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "LONG", 0.0)
    slow = laminar.kernel(source=TEXT.replace("0.999f", "0.998f"))  # calls of one text share an account
    assert slow.guesses.runs == 0
    for _ in range(3):
        slow(torch.linspace(-1, 1, 64))
    account = slow.guesses
    assert account.runs >= 1 and account.started == account.committed + account.thrown_away
    assert slow.guesses == account and slow.guesses is not account, "a copy, which later calls do not change"


def test_kernels_that_never_run_as_a_circuit_have_guessed_nothing() -> None:
    waits = laminar.kernel(source="void kernel(int i, int n, const float x[n], float y[n]) { barrier(); y[i] = x[i]; }")
    waits(torch.ones(3))
    assert (waits.guesses.runs, waits.guesses.started) == (0, 0)
