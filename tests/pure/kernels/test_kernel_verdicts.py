"""Verdicts on races, bounds, values, divisions, barriers, ends and outputs: proved, a witness, or checked as it runs."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pycparser")

from laminar.kernels.analyse.replay import Replay
from laminar.kernels.analyse.verdicts import Verdict, verdicts
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError


def judged(lines: str, parameters: str = "const float x[n], float y[n]") -> list[Verdict]:
    return verdicts(read_kernel(f"void kernel(int i, int n, {parameters}) {{\n{lines}\n}}"))


def answers(found: list[Verdict], kind: str) -> list[str]:
    return [one.verdict for one in found if one.kind == kind]


SHARED = "shared float t[64];"
REDUCTION = """shared float t[64];
t[i] = x[i];
barrier();
for (int s = 32; s > 0; s = s / 2) {
    if (i < s) t[i] += t[i + s];
    barrier();
}
if (i == 0) y[0] = t[0];"""


@pytest.mark.parametrize(
    "lines",
    [
        "y[i] = x[i];",
        "y[n - 1 - i] = x[i];",
        "y[i] += x[i]; y[i] *= 2;",
        "if (i == 0) y[0] = 1;",
        "if (i == 3) y[5] = 1; if (i == 3) y[5] = 2;",
        "if (2 * i + 1 < n) { y[2 * i] = 1; y[2 * i + 1] = 2; }",
        "if (3 * i < n) y[3 * i] = 1;",
        "atomic_add(&y[0], x[i]);",
        "if (i < 10) y[i] = 1; if (i >= 10) y[i] = 2;",
        "if (i < 10) y[i] = y[i + 10];",
        f"{SHARED} if (i < 64) t[i] = x[i]; barrier(); y[i] = t[(i + 1) % 64];",
        f"{SHARED} if (i == 0) t[0] = x[0]; barrier(); y[i] = t[0];",
        REDUCTION,
        f"{SHARED} for (int k = 0; k < 8; k++) {{ if (i == k) t[0] = x[i]; barrier(); y[i] += t[0]; barrier(); }}",
    ],
)
def test_instances_that_never_meet(lines: str) -> None:
    assert set(answers(judged(lines), "race")) <= {"proved"}


def test_what_each_instance_owns_is_proved_for_rows_blocks_and_images() -> None:
    rows = "for (int k = 0; k < m; k++) y[i * m + k] = x[i];"
    assert answers(judged(rows, "int m, const float x[n], float y[n * m]"), "race") == ["proved"]
    assert answers(judged("for (int k = 0; k < m; k++) y[i][k] = x[i];", "int m, const float x[n], float y[n][m]"), "race") == ["proved"]
    image = "y[i / (h * w)][i / w % h][i % w] = x[i];"
    assert answers(judged(image, "int c, int h, int w, const float x[n], float y[c][h][w]"), "race") == ["proved"]
    padded = "y[i / w][i % w] = 1;"
    assert answers(judged(padded, "int h, int w, int more, const float x[h][w], float y[h][w + more]"), "race") == ["proved"]


@pytest.mark.parametrize(
    ("lines", "instances"),
    [
        ("y[0] = x[i];", (0, 1)),
        ("y[i / 2] = x[i];", (0, 1)),
        ("y[i % 2] = x[i];", (0, 2)),
        ("y[i] = 1; if (i + 1 < n) y[i + 1] = 2;", (1, 0)),
        ("y[i] = y[n - 1 - i];", (0, 1)),
        ("for (int k = 0; k < n; k++) y[k] = x[i];", (0, 1)),
        ("atomic_add(&y[0], 1.0f); if (i == 1) y[0] = 2;", (0, 1)),
        (f"{SHARED} t[0] = i; barrier(); y[i] = t[0];", (0, 1)),
        (f"{SHARED} t[i % 64] = i; y[i] = t[(i + 1) % 64];", (1, 0)),
    ],
)
def test_two_instances_that_meet_are_shown(lines: str, instances: tuple[int, int]) -> None:
    found = [one for one in judged(lines) if one.kind == "race" and one.verdict == "witness"]
    assert found and tuple(sorted(found[0].instances)) == tuple(sorted(instances))
    assert all(one.other is not None and one.why for one in found)


@pytest.mark.parametrize(
    "lines",
    [
        "int k = (int)x[i]; y[k] = 1;",
        "if (x[i] > 0) y[0] = 1;",
        "y[i * m] = x[i];",
        "int k = 0; while (x[k] > 0) k++; y[k] = 1;",
        f"{SHARED} if (x[i] > 0) t[0] = 1; barrier(); y[i] = t[0];",
    ],
)
def test_what_depends_on_data_is_checked_as_it_runs(lines: str) -> None:
    found = answers(judged(lines, "int m, const float x[n], float y[n]"), "race")
    assert "run-time" in found and "witness" not in found


PHASES = {
    "LU": """if (i > k) { A[i][k] /= A[k][k]; for (int j = k + 1; j < v; j++) A[i][j] -= A[i][k] * A[k][j]; }
        barrier();""",
    "Gaussian elimination": """if (i > k) {
            double f = A[i][k] / A[k][k];
            for (int j = k; j < v; j++) A[i][j] -= f * A[k][j];
            b[i] -= f * b[k];
        }
        barrier();""",
    "a row for each, read by all in the next phase": """b[i] = A[k][i];
        barrier();
        for (int j = 0; j < v; j++) A[i][j] += b[j];
        barrier();""",
}


@pytest.mark.parametrize("name", PHASES)
def test_what_lies_in_other_phases_is_no_race(name: str) -> None:
    """Loops within a phase do not hide that both are in the same round of the loop around."""
    source = "#pragma laminar instances v\nvoid kernel(int i, int n, int v, inout double A[v][v], inout double b[v]) {\n"
    source += f"    for (int k = 0; k < v; k++) {{\n        {PHASES[name]}\n    }}\n}}\n"
    assert set(answers(verdicts(read_kernel(source)), "race")) == {"proved"}


def test_rounds_that_go_on_without_the_barrier_are_not_told_apart() -> None:
    lines = "for (int k = 0; k < 4; k++) { barrier(); if (m == k) continue; y[i + k] = i; barrier(); }"
    assert "witness" not in answers(judged(lines, "int m, float y[n + 4]"), "race")
    lines = "for (int k = 0; k < 4; k++) { y[i + k] = i; if (m == k) continue; barrier(); }"
    assert set(answers(judged(lines, "int m, float y[n + 4]"), "race")) == {"witness"}


def test_a_witness_that_the_emulator_does_not_see_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "y[0] = 1;"
    assert "witness" in answers(judged(lines), "race")
    monkeypatch.setattr(Replay, "meet", lambda *_: None)
    assert answers(judged(lines), "race") == ["run-time"]


def test_a_fault_that_is_never_reached_is_no_witness() -> None:
    for lines in ("if (n < 0) y[i] = (float)(i / (1 - 1));", "if (n < 0) { while (true) y[i] += 1; }", "if (n < 0) y[n] = 1;"):
        assert "witness" not in {one.verdict for one in judged(lines)}, lines


def test_a_race_that_only_two_rounds_have_is_not_hidden_by_a_barrier() -> None:
    lines = f"{SHARED} for (int k = 0; k < 4; k++) {{ y[i] += t[k]; barrier(); if (i == 0) t[k + 1] = 1; }}"
    found = [one for one in judged(lines) if one.kind == "race" and one.what == "`t`"]
    assert "proved" not in [one.verdict for one in found if one.at != one.other]


def test_bounds_name_the_element_that_is_beyond() -> None:
    (found,) = [one for one in judged("y[i] = x[i + 1];") if one.kind == "bounds" and one.verdict != "proved"]
    assert (found.verdict, found.instances) == ("witness", (1,)) and found.why == "with 2 instances it is x[2]"
    (found,) = [one for one in judged("y[i] = x[(int)x[i]];") if one.kind == "bounds" and one.verdict != "proved"]
    assert (found.verdict, found.why) == ("run-time", "the index may be less than 0 or too large")
    every = answers(judged("float t[3]; t[0] = 1; atomic_add(&y[i], t[0]);"), "bounds")
    assert every == ["proved"] * 3


def test_images_need_no_pragma() -> None:
    lines = "int r = i / w, q = i % w; float s = 0; for (int k = 0; k < m; k++) s += a[r][k] * b[k][q]; c[r][q] = s;"
    found = judged(lines, "int h, int w, int m, const float a[h][m], const float b[m][w], float c[h][w]")
    assert {one.verdict for one in found} == {"proved"}
    assert [one.said for one in found if one.kind == "written"] == [True]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("float s; if (x[i] > 0) s = 1; y[i] = s;", "run-time"),
        ("float s; if (x[i] > 0) s = 1; else s = 2; y[i] = s;", "proved"),
        ("float s; for (int k = 0; k < n; k++) s = x[k]; y[i] = s;", "run-time"),
        ("float s; for (int k = 0; k < 3; k++) s = x[k]; y[i] = s;", "proved"),
        ("float s; int k = 0; do { s = x[k]; k++; } while (k < n); y[i] = s;", "proved"),
        ("float s; for (int k = 0; k < n; k++) { if (k > 0) y[i] = s; s = 1; }", "run-time"),
        ("float s[2] = {1}; y[i] = s[1];", "proved"),
        ("float s[4]; for (int k = 0; k < 4; k++) s[k] = k; y[i] = s[3];", "proved"),
        ("float s[2][3]; for (int a = 0; a < 2; a++) for (int b = 0; b < 3; b++) s[a][b] = 0; y[i] = s[1][i % 3];", "proved"),
        ("float s[4]; for (int k = 1; k < 4; k++) s[k] = k; y[i] = s[0];", "run-time"),
        ("float s[4]; for (int k = 0; k < 4; k++) if (x[k] > 0) s[k] = k; y[i] = s[0];", "run-time"),
        ("float s[4]; for (int k = 0; k < 4; k++) { s[k] = k; y[i] += s[3]; }", "run-time"),
        ("float s[2]; if (x[i] > 0) s[0] = 1; s[1] = 1; y[i] = s[0];", "run-time"),
        ("float s[2][2]; for (int a = 1; a < 2; a++) for (int b = 0; b < 2; b++) s[0][b] = 0; y[i] = s[1][1];", "run-time"),
    ],
)
def test_values_before_they_are_used(lines: str, expected: str) -> None:
    found = [one for one in judged(lines) if one.kind == "uninitialised" and one.what == "`s`"]
    assert [one.verdict for one in found] == [expected]


@pytest.mark.parametrize(
    "lines",
    [
        "float s; y[i] = s;",
        "float s; y[i] = s; s = 1;",
        "for (int k = 0; k < n; k++) { float s; y[i] = s; s = 1; }",
        "float s[2]; y[i] = s[0];",
    ],
)
def test_a_variable_without_any_value_breaks_rule_15(lines: str) -> None:
    with pytest.raises(KernelError, match="K15") as error:
        judged(lines)
    assert error.value.at.line == 2 and "^" in str(error.value)


@pytest.mark.parametrize(
    "lines",
    [
        "if (i < 3) barrier();",
        "if (x[i] > 0) { y[i] = 1; } else { barrier(); }",
        "for (int k = 0; k < i; k++) barrier();",
        "for (int k = 0; k < n; k++) { if (x[i] > k) break; barrier(); }",
        "for (int k = 0; k < n; k++) { if (x[i] > k) continue; barrier(); }",
        "if (i > 3) return; y[i] = 1; barrier();",
        "int k = 0; if (i > 2) k = 1; if (k == 1) barrier();",
    ],
)
def test_barriers_that_not_all_reach_break_rule_16(lines: str) -> None:
    with pytest.raises(KernelError, match="K16") as error:
        judged(lines)
    assert "line 2" in error.value.what and error.value.instead


@pytest.mark.parametrize(
    "lines",
    [
        "barrier();",
        "if (n > 3) barrier();",
        "for (int k = 0; k < n; k++) { barrier(); if (x[i] > k) continue; y[i] = 1; }",
        "for (int k = 0; k < n; k++) { if (x[0] > k) break; barrier(); }",
        "float s = 0; if (i < 3) s = 1; barrier(); y[i] = s;",
    ],
)
def test_barriers_that_all_reach(lines: str) -> None:
    assert answers(judged(lines), "barrier") == ["proved"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("y[i] = i / 3;", "proved"),
        ("y[i] = i % n;", "proved"),
        ("y[i] = 7 / (i + 1);", "proved"),
        ("y[i] = 7 / (n - i);", "proved"),
        ("y[i] = 7 / i;", "run-time"),
        ("if (i > 0) y[i] = 7 / i;", "proved"),
        ("y[i] = 7 / (i - i);", "witness"),
        ("y[i] = n / m;", "run-time"),
    ],
)
def test_divisors(lines: str, expected: str) -> None:
    assert answers(judged(lines, "int m, const float x[n], float y[n]"), "division") == [expected]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("for (int k = 0; k < n; k++) y[i] += k;", "proved"),
        ("for (int k = 0; k <= i; k++) y[i] += k;", "proved"),
        ("for (int k = 0; k < 100; k += 7) y[i] += k;", "proved"),
        ("for (int k = 0; k < n; k += 7) y[i] += k;", "run-time"),
        ("while (x[i] > 0) y[i] += 1;", "run-time"),
        ("while (1) y[i] += 1;", "witness"),
        ("while (1) { y[i] += 1; if (y[i] > 3) break; }", "run-time"),
        ("while (1) { y[i] += 1; if (y[i] > 3) continue; y[i] += 2; }", "witness"),
    ],
)
def test_loops_that_end(lines: str, expected: str) -> None:
    assert answers(judged(lines), "end") == [expected]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("y[i] = 1;", "proved"),
        ("if (x[i] > 0) y[i] = 1;", "run-time"),
        ("if (x[i] > 0) y[i] = 1; else y[i] = 2;", "proved"),
        ("if (x[i] > 0) return; y[i] = 1;", "run-time"),
        ("y[0] = 1;", "run-time"),
        ("float s = 0; for (int k = 0; k < n; k++) { if (x[k] > 0) continue; s += 1; } y[i] = s;", "proved"),
        ("for (int k = 0; k < n; k++) { if (x[k] > 0) return; } y[i] = 1;", "run-time"),
        ("for (int k = 0; k < n; k++) z[i][k] = 1; y[i] = 1;", "proved"),
    ],
)
def test_outputs_that_are_written_everywhere(lines: str, expected: str) -> None:
    found = [one for one in judged(lines, "const float x[n], float y[n], out float z[n][n]") if one.kind == "written"]
    assert found[0].verdict == expected
    assert found[1].verdict == ("proved" if "z" in lines else "run-time")


def test_verdicts_are_said_in_words_and_in_json() -> None:
    found = judged("y[i / 2] = x[i];")
    race = next(one for one in found if one.kind == "race")
    assert race.text == "2:1 and 2:1: race of `y`: a witness, with 2 instances: 0 and 1 use the same element"
    told = json.loads(json.dumps([one.to_json() for one in found]))
    assert {"kind", "verdict", "line", "column", "what", "why", "instances", "said"} <= set(told[0])
    assert all(one.text for one in found)


def test_every_access_and_every_pair_has_a_verdict() -> None:
    found = judged("y[i] = x[i] + y[i]; y[i] += 1;")
    assert len(answers(found, "bounds")) == 5
    assert len(answers(found, "race")) == 7  # of two stores and two loads of y: every pair but those of loads


def test_many_accesses_to_one_array_are_one_verdict_and_not_silence() -> None:
    text = "void kernel(int i, int n, const float x[n], float y[n]) { " + "y[i] = y[i] + x[i]; " * 150 + "}"
    found = verdicts(read_kernel(text))
    (race,) = [one for one in found if one.kind == "race"]
    assert race.verdict == "run-time" and race.why == "33,825 pairs of accesses are too many to look at" and race.other is not None
    assert len([one for one in found if one.kind == "bounds"]) == 450


@pytest.mark.parametrize("deep", [6, 7, 20])
def test_barriers_deep_within_loops_are_looked_at_or_left_to_the_run(deep: int) -> None:
    """Neither for ever, nor by a witness that cannot be."""
    loops = "".join(f"for (int k{one} = 0; k{one} < 2; k{one}++) {{ " for one in range(deep))
    text = f"void kernel(int i, int n, const float x[n], float y[n]) {{ shared float t[8]; {loops} t[i % 8] = x[i]; barrier(); "
    found = verdicts(read_kernel(text + "y[i] = t[(i + 1) % 8]; barrier(); " + "}" * deep + " }"))
    races = {one.verdict for one in found if one.kind == "race" and one.what == "`t`"}
    assert "witness" not in races and "run-time" in races
