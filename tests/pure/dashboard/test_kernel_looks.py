"""Kernels for the dashboard: which there are, small arguments that fit any, and a look that never fails whatever the text is."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.datastructures import QueryParams

from laminar.core.errors import LaminarError
from laminar.dashboard.child import ask
from laminar.dashboard.kernel_list import kernel_path, kernels
from laminar.dashboard.kernel_process import Asked, look
from laminar.dashboard.pages.kernels import values
from laminar.kernels.open_file import open_kernel
from laminar.kernels.samples import sample_arguments

EXAMPLES = Path(__file__).parents[3] / "examples" / "kernels"
LEAKY = (EXAMPLES / "leaky.c").read_text()
RACE = "void kernel(int i, int n, const int at[n], float y[n]) { y[at[i] * 0] = 1.0f; }\n"
ENDLESS = "void kernel(int i, int n, float y[n]) { int k = 0; while (k < 1) { k = 0; } y[i] = 1.0f; }\n"


def project(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_c", ".c").replace("_py", ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_kernels_are_found_with_who_reads_them_and_others_are_not(tmp_path: Path) -> None:
    project(
        tmp_path,
        leaky_c=LEAKY,
        parts__leaky_c=LEAKY,
        tool_c="int main(void) { return 0; }\n",
        nets_py='import laminar\nk = laminar.kernel("leaky.c")\n',
    )
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "hidden.c").write_text(LEAKY)
    (tmp_path / "broken.py").write_text("def kernel(:\n")
    assert [(one.path, one.used_by) for one in kernels(tmp_path)] == [("leaky.c", ["nets.py"]), ("parts/leaky.c", [])]
    assert {one.lines for one in kernels(tmp_path)} == {len(LEAKY.splitlines())}
    assert kernel_path(tmp_path, "parts/leaky.c").read_text() == LEAKY
    for name in ("../leaky.c", "/etc/passwd", "tool.c", ".venv/hidden.c", ""):
        with pytest.raises(LaminarError, match="no kernel"):
            kernel_path(tmp_path, name)


@pytest.mark.parametrize("name", ["leaky", "convolution"])
def test_examples_run_with_made_up_arguments(name: str) -> None:
    found = look(Asked(path=str(EXAMPLES / f"{name}.c")))
    assert found["error"] is None and found["run"]["findings"] == [] and found["entries"] == ["kernel"]
    assert sum(row["global"]["bytes"] for row in found["run"]["lines"]) == found["run"]["counts"]["global"]["bytes"] > 0
    assert sorted(number for row in found["circuit"]["rows"] for number in row) == [one["number"] for one in found["circuit"]["functions"]]


def test_values_that_are_wished_for_are_used() -> None:
    kernel = open_kernel(EXAMPLES / "convolution.c")
    called = sample_arguments(kernel, {"rows": 3, "cols": 5, "ins": 1})
    assert called.arrays["x"].shape == (4, 1, 3, 5) and called.count == 4 * 4 * 3 * 5
    assert sample_arguments(open_kernel(EXAMPLES / "leaky.c"), instances=7).arrays["x"].shape == (7,)


@pytest.mark.parametrize("given", [{"rows": 10_000, "cols": 10_000}, {"rows": 0}, {"rows": -3}, {"nobody": 1}])
def test_what_does_not_fit_or_is_too_much_is_said(given: dict[str, int]) -> None:
    with pytest.raises(LaminarError) as caught:
        sample_arguments(open_kernel(EXAMPLES / "convolution.c"), given)
    assert caught.value.code == "L702"


def test_findings_are_told(tmp_path: Path) -> None:
    project(tmp_path, race_c=RACE)
    found = look(Asked(path=str(tmp_path / "race.c")))
    assert {one["kind"] for one in found["run"]["findings"]} == {"race"}


def test_a_loop_without_end_is_ended_by_its_steps(tmp_path: Path) -> None:
    project(tmp_path, endless_c=ENDLESS)
    found = ask("laminar.dashboard.kernel_process", {"path": str(tmp_path / "endless.c")}, seconds=120)
    assert found["run"]["error"]["code"] == "L704" and found["parameters"]


@pytest.mark.parametrize(
    "text", ["", "void kernel(", "int x;", "void kernel(int i) {}", "\x00\xff", "void kernel(int i, int n) { malloc(3); }"]
)
def test_whatever_the_text_is_there_is_an_answer(tmp_path: Path, text: str) -> None:
    (tmp_path / "odd.c").write_text(text)
    found = look(Asked(path=str(tmp_path / "odd.c")))
    assert found["error"]["code"] in ("L701", "L702", "L008")


def test_values_of_the_query_are_numbers_or_refused() -> None:
    assert values(QueryParams("v.slope=0.5&v.n=3&v.on=true&file=x&v.empty=")) == {"slope": 0.5, "n": 3, "on": True}
    for text in ("v.n=many", "v.n=nan", "v.n=1e999"):
        with pytest.raises(LaminarError, match="no number"):
            values(QueryParams(text))
