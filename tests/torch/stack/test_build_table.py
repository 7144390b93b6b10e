"""What a build prints: figures of a width that fits, and warnings that are seen."""

from __future__ import annotations

import pytest

from tests.conftest import Example


def report_of(example: Example) -> object:
    from laminar.stack.api import Stack

    return Stack.load(example.toml).build()


def test_an_absurd_loss_is_marked_and_explained_also_when_it_is_reused(example: Example, capsys: pytest.CaptureFixture[str]) -> None:
    from laminar.cli.build import show_report

    example.edit("laminar.toml", "lr = 0.01, seed = 0, threads = 1 }\n", "lr = 1e12, seed = 0, threads = 1 }\n")
    for action in ("built", "cached"):
        show_report(report_of(example))  # type: ignore[arg-type]
        lines = capsys.readouterr().out.splitlines()
        row = next(line for line in lines if line.startswith("strokes"))
        assert action in row
        assert "e+" in row and " !" in row
        assert not any(len(word) > 20 for word in row.split())
        assert " !" not in next(line for line in lines if line.startswith("head"))
        warning = next(line for line in lines if line.startswith("warning: strokes: the test loss is"))
        assert "lower lr (it is 1e+12)" in warning
    assert any(note.startswith("warning: ") for note in example.store().layer(example.build()["strokes"].id).notes)
