"""Pointers that change, and addresses of elements: each kernel computes what its twin without pointers does, bit for bit, in the emulator,
in native code and as a circuit; it has the same derivative; and nothing that is proved of the twin is open. What is refused is refused for
what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gradients import derived

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.arguments import arguments
from laminar.kernels.circuit.build import build
from laminar.kernels.circuit.native_call import call
from laminar.kernels.circuit.run import run_circuit
from laminar.kernels.compile.native import Options, compiled
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.print import print_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import Kernel, Store, statements

HEAD = "void kernel(int i, int n, float s, const float x[n], inout float y[n], out float z[n]) {\n"
FUNCTIONS = """\
void put(float *p, float v) { *p = v; }
void maybe(float *p) { if (p != NULL) *p += 1; }
void swap(float *a, float *b) { float t = *a; *a = *b; *b = t; }
void fill(float *a, int k, float v) { a[k] = v; }
float larger(const float *a, const float *b) { if (b == NULL || *a > *b) return *a; return *b; }
void twice(float *p, int k) { if (p == NULL) return; float *q = NULL; if (k > 2) q = p; if (q) *q += *q; q = p; *q += *p; }
void last(float *p, float *q, int k) { if (k > 2 && q != NULL) p = q; *p += 1; }
"""
N = 7


def text(body: str) -> str:
    return f"{FUNCTIONS}{HEAD}    {body}\n}}\n"


@dataclass(frozen=True)
class Twins:
    pointers: str
    plain: str


TWINS: dict[str, Twins] = {
    "an element": Twins("float *p = &z[i]; const float *q = &x[i]; *p = *q * s;", "z[i] = x[i] * s;"),
    "a variable, after NULL": Twins("float b = s; float *p = NULL; p = &b; *p += x[i]; z[i] = b;", "float b = s; b += x[i]; z[i] = b;"),
    "one variable, then another": Twins(
        "float a = s, b = 2; float *p = &a; *p += x[i]; p = &b; *p *= x[i]; z[i] = a - b;",
        "float a = s, b = 2; a += x[i]; b *= x[i]; z[i] = a - b;",
    ),
    "one of two elements": Twins(
        "const float *p; if (x[i] > 0) p = &x[i]; else p = &x[n - 1 - i]; z[i] = *p * s;",
        "int k; if (x[i] > 0) k = i; else k = n - 1 - i; z[i] = x[k] * s;",
    ),
    "a choice of elements": Twins(
        "const float *p = x[i] > 0 ? &x[i] : &x[0]; z[i] = *p * *p;", "int k = x[i] > 0 ? i : 0; z[i] = x[k] * x[k];"
    ),
    "NULL or a variable": Twins(
        "float b = s; float *p = NULL; if (x[i] > 0) p = &b; if (p != NULL) *p = x[i] * x[i]; z[i] = b;",
        "float b = s; bool set = false; if (x[i] > 0) set = true; if (set) b = x[i] * x[i]; z[i] = b;",
    ),
    "NULL or an element": Twins(
        "float *p = x[i] > 0 ? &y[i] : NULL; z[i] = 0; if (p) { *p += 1; z[i] = *p; }",
        "z[i] = 0; if (x[i] > 0) { y[i] += 1; z[i] = y[i]; }",
    ),
    "NULL within a condition": Twins(
        "const float *p = NULL; if (i > 2) p = &x[i]; z[i] = p != NULL && *p > 0 ? *p : s;",
        "z[i] = i > 2 && x[i] > 0 ? x[i] : s;",
    ),
    "NULL or something, the other way round": Twins(
        "const float *p = NULL; if (i > 2) p = &x[i]; if (p == NULL || *p < 0) z[i] = s; else z[i] = *p;",
        "if (!(i > 2) || x[i] < 0) z[i] = s; else z[i] = x[i];",
    ),
    "a return where it is NULL": Twins(
        "const float *p = NULL; if (i > 2) p = &x[i]; z[i] = 1; if (!p) return; z[i] = *p * s;",
        "z[i] = 1; if (!(i > 2)) return; z[i] = x[i] * s;",
    ),
    "the largest so far": Twins(
        "const float *best = NULL; for (int k = 0; k < n; k++) { if (best == NULL || x[k] > *best) best = &x[k]; }"
        " z[i] = best != NULL ? *best : s;",
        "int at = 0; bool set = false; for (int k = 0; k < n; k++) { if (!set || x[k] > x[at]) { at = k; set = true; } }"
        " z[i] = set ? x[at] : s;",
    ),
    "the element before": Twins(
        "float *p = NULL; float m[4] = {1}; for (int k = 0; k < 4; k++) { if (p != NULL) m[k] = *p * s; p = &m[k]; } z[i] = m[3] * x[i];",
        "int at = 0; bool set = false; float m[4] = {1};"
        " for (int k = 0; k < 4; k++) { if (set) m[k] = m[at] * s; at = k; set = true; } z[i] = m[3] * x[i];",
    ),
    "a break with a value": Twins(
        "const float *p = &x[0]; for (int k = 1; k < n; k++) { if (x[k] > 1) break; p = &x[k]; } z[i] = *p;",
        "int at = 0; for (int k = 1; k < n; k++) { if (x[k] > 1) break; at = k; } z[i] = x[at];",
    ),
    "while it is not NULL": Twins(
        "float b = x[i]; float *p = &b; int k = 0; while (p != NULL) { *p += 1; k++; if (*p > 5 || k > 6) p = NULL; } z[i] = b;",
        "float b = x[i]; bool go = true; int k = 0; while (go) { b += 1; k++; if (b > 5 || k > 6) go = false; } z[i] = b;",
    ),
    "all of an array": Twins(
        "float *p = y; p[i] = x[i] * s; p = z; p[i] = x[i] + s;", "y[i] = x[i] * s; z[i] = x[i] + s;"
    ),
    "elements of two dimensions": Twins(
        "float m[2][3] = {{1, 2, 3}, {4, 5, 6}}; float *p = &m[i % 2][i % 3]; *p *= x[i]; p = &m[1][2]; *p += 1;"
        " z[i] = m[1][2] + m[i % 2][0];",
        "float m[2][3] = {{1, 2, 3}, {4, 5, 6}}; m[i % 2][i % 3] *= x[i]; m[1][2] += 1; z[i] = m[1][2] + m[i % 2][0];",
    ),
    "by an index that changes later": Twins(
        "int k = i; const float *p = &x[k]; k = 0; z[i] = *p + k;", "z[i] = x[i] + 0;"
    ),
    "by what it points at itself": Twins(
        "int m[2][2] = {{1, 0}, {1, 1}}; int *p = &m[0][0]; p = &m[*p][*p]; z[i] = x[i] * *p;",
        "int m[2][2] = {{1, 0}, {1, 1}}; int a = m[0][0]; z[i] = x[i] * m[a][a];",
    ),
    "a copy stays when the other one moves": Twins(
        "const float *p = &x[i], *q = p; p = &x[0]; z[i] = *q - *p; q = p; z[i] *= *q;", "z[i] = x[i] - x[0]; z[i] *= x[0];"
    ),
    "a copy of what may be NULL": Twins(
        "float *p = NULL, *q = NULL; if (i > 2) p = &y[i]; q = p; p = NULL; z[i] = x[i]; if (q) { *q = s; z[i] = *q * x[i]; }",
        "z[i] = x[i]; if (i > 2) { y[i] = s; z[i] = y[i] * x[i]; }",
    ),
    "to functions": Twins(
        "put(&y[i], x[i]); float b = s; maybe(&b); maybe(NULL); maybe(&y[i]); fill(z, i, b * y[i]);",
        "y[i] = x[i]; float b = s; b += 1; y[i] += 1; z[i] = b * y[i];",
    ),
    "two elements of one array": Twins(
        "float m[3] = {1, 2, 3}; m[1] = x[i]; swap(&m[0], &m[i % 3]); swap(&m[1], &m[1]); z[i] = m[0] - m[1];",
        "float m[3] = {1, 2, 3}; m[1] = x[i]; int b = i % 3; float t = m[0]; m[0] = m[b]; m[b] = t; t = m[1]; m[1] = m[1]; m[1] = t;"
        " z[i] = m[0] - m[1];",
    ),
    "what may be NULL to a function": Twins(
        "float b = x[i]; float *p = i > 2 ? &b : NULL; maybe(p); z[i] = larger(&b, p) * larger(&b, NULL) + larger(&b, &s);",
        "float b = x[i]; if (i > 2) b += 1; z[i] = b * b + (b > s ? b : s);",
    ),
    "a parameter that moves": Twins(
        "float m[2] = {1, 2}; last(&m[0], &m[1], i); last(&m[0], NULL, i); z[i] = m[0] * x[i] + m[1];",
        "float m[2] = {1, 2}; int k = 0; if (i > 2) k = 1; m[k] += 1; m[0] += 1; z[i] = m[0] * x[i] + m[1];",
    ),
    "a function that leaves early": Twins(
        "float b = x[i]; twice(&b, i); twice(NULL, i); z[i] = b;",
        "float b = x[i]; if (i > 2) b += b; b += b; z[i] = b;",
    ),
    "behind what never ends well": Twins(
        "float b = s; float *p = NULL; for (int k = 0; k < 9; k++) { p = &b; if (p) break; p = NULL; *p = 1; }"
        " do { p = &b; break; } while (*p > 3); if (p) *p *= x[i]; z[i] = b;",
        "float b = s; for (int k = 0; k < 9; k++) { break; } do { break; } while (false); b *= x[i]; z[i] = b;",
    ),
    "in a loop's head": Twins(
        "float b = x[i]; int k = 0; for (float *p = &b; p != NULL; p = k > 2 ? NULL : &b) { *p *= s; k++; } z[i] = b;",
        "float b = x[i]; int k = 0; for (bool go = true; go; go = !(k > 2)) { b *= s; k++; } z[i] = b;",
    ),
    "blocks within": Twins(
        "float b = s; float *p = &b; { float *p = &z[i]; *p = x[i]; }"
        " if (i > 3) { float v = 2; p = &v; *p *= x[i]; z[i] += v; p = &b; } *p += 1; z[i] += b;",
        "float b = s; z[i] = x[i]; if (i > 3) { float v = 2; v *= x[i]; z[i] += v; } b += 1; z[i] += b;",
    ),
}  # fmt: skip


@pytest.fixture(params=TWINS)
def twins(request: pytest.FixtureRequest) -> Twins:
    return TWINS[request.param]


def called() -> dict[str, Any]:
    made = np.random.default_rng(3)
    return {"x": made.normal(size=N).astype("float32"), "y": made.normal(size=N).astype("float32"), "s": 1.5}


def emulated(kernel: Kernel) -> dict[str, Any]:
    given = arguments(kernel, called())
    report = emulate(kernel, given.arrays, given.values, given.count, proofs=True)
    assert not report.findings, report.findings
    return report.outputs


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name, array in other.items():
        assert one[name].tobytes() == array.tobytes(), f"{name}: {one[name]} is not {array}"


def test_the_emulator_gives_what_the_twin_gives(twins: Twins) -> None:
    same(emulated(read_kernel(text(twins.pointers))), emulated(read_kernel(text(twins.plain))))


def test_so_do_native_code_and_a_circuit(twins: Twins) -> None:
    kernel, wanted = read_kernel(text(twins.pointers)), emulated(read_kernel(text(twins.plain)))
    given = arguments(kernel, called())
    for lanes in (False, True):
        arrays = {name: one.copy() for name, one in given.arrays.items()}
        compiled(kernel, Options(lanes=lanes, cached=False)).run(list(arrays.values()), list(given.values.values()), N)
        same(arrays, wanted)
    arrays = {name: one.copy() for name, one in given.arrays.items()}
    run_circuit(build(kernel, 0.0), call, arrays, given.values, N, threads=2)
    same(arrays, wanted)


def test_the_derivative_is_right(twins: Twins) -> None:
    """In double, so that differences tell. Where the twin has none, there is none, for the same reason."""
    made = np.random.default_rng(5)
    given = {"x": made.normal(size=N), "y": made.normal(size=N), "s": 1.5}
    source, plain = (text(one).replace("float", "double") for one in (twins.pointers, twins.plain))
    try:
        derived(plain, given, N, ["x", "s"])
    except LaminarError as refused:
        with pytest.raises(LaminarError, match=refused.message.split(": ")[2].split("\n")[0].split("`")[0]):
            derived(source, given, N, ["x", "s"])
        return
    found, wanted = derived(source, given, N, ["x", "s"])
    for name, array in wanted.items():
        assert np.allclose(found[name], array, atol=1e-5), f"{name}: {found[name]} is not {array}"


def test_no_proof_is_weaker(twins: Twins) -> None:
    def open_(body: str) -> list[tuple[str, str]]:
        return sorted((one.kind, one.what) for one in verdicts(read_kernel(text(body))) if one.verdict != "proved")

    def written(body: str) -> set[str]:
        return {one.what for one in verdicts(read_kernel(text(body))) if one.kind == "written" and one.verdict == "proved"}

    assert {kind for kind, _ in open_(twins.pointers)} <= {kind for kind, _ in open_(twins.plain)}
    assert len(open_(twins.pointers)) <= len(open_(twins.plain))
    assert written(twins.pointers) >= written(twins.plain)


def test_no_pointer_is_left(twins: Twins) -> None:
    """What is printed is a kernel that reads as the same one."""
    printed = print_kernel(read_kernel(text(twins.pointers)))
    assert "*p" not in printed and "NULL" not in printed
    same(emulated(read_kernel(printed)), emulated(read_kernel(text(twins.pointers))))


def test_what_nothing_depends_on_is_not_there() -> None:
    """A pointer that is the same wherever it is used costs nothing."""
    kernel = read_kernel(text("float b = 1; float *p = NULL; if (p == NULL) p = &b; *p += x[i]; float *q = p; put(q, *p); z[i] = b;"))
    assert {one.name for one in kernel.variables} == {"i", "n", "s", "b", "v"}
    (store,) = [one for one in statements(kernel.body) if isinstance(one, Store)]
    assert store.object.name == "z"


REFUSED: dict[str, tuple[str, str, str]] = {
    "NULL is written": ("float *p = NULL; put(p, 2);", "K04", "`p` is NULL here, from line 9"),
    "it may be NULL": ("float *p = NULL; if (i > 2) p = &z[i]; *p = 1;", "K04", "`p` may be NULL here, from line 9"),
    "it is NULL behind a test": ("float *p = i > 2 ? &z[i] : NULL; if (p == NULL) *p = 1;", "K04", "`p` is NULL here"),
    "it may be NULL in the second round": (
        "float b = 1; float *p = &b; for (int k = 0; k < 3; k++) { *p += 1; if (k > i) p = NULL; } z[i] = b;",
        "K04",
        "`p` may be NULL here",
    ),
    "one of two variables": (
        "float a = 1, b = 2; float *p = &a; if (x[i] > 0) p = &b; z[i] = *p;",
        "K04",
        "`p` points at `a` from line 9, or at `b` from line 9, and the text does not tell which",
    ),
    "one of two arrays": ("float *p = y; if (x[i] > 0) p = z; p[i] = 1;", "K04", "`p` points at `y` from line 9, or at `z`"),
    "swapped in a loop": (
        "float *p = y, *q = z; for (int k = 0; k < 3; k++) { p[i] = 1; float *t = p; p = q; q = t; }",
        "K04",
        "`p` points at `y` from line 9, or at `z`",
    ),
    "an element and a variable": ("float b = 1; float *p = &b; if (i > 2) p = &z[i]; *p = 1;", "K04", "or at an element of `z`"),
    "a block has ended": ("float *p = NULL; { float v = 2; p = &v; } *p = 1;", "K04", "`p` points at `v` of line 9, whose block has ended"),
    "a block was left by a break": (
        "float *p = NULL; for (int k = 0; k < 3; k++) { float v = k; p = &v; if (k > i) break; } if (p) *p = 1;",
        "K04",
        "`p` points at `v` of line 9, whose block has ended",
    ),
    "no address": ("float *p; z[i] = *p;", "K15", "`p` has no address"),
    "no address on one way": ("float *p; if (i > 2) p = &z[i]; *p = 1;", "K15", "`p` has no address yet where some way leads here"),
    "no address yet": ("float *p; *p = 1; p = &z[i];", "K15", "`p` has no address yet"),
    "it is moved": ("float *p = &z[i]; p++;", "K04", "nothing is added to a pointer"),
    "it is moved by some": ("float *p = &z[0]; p += i;", "K04", "nothing is added to a pointer"),
    "a sum": ("float *p = &z[0]; p = p + i;", "K04", "nothing is added to a pointer"),
    "an array and a number": ("float *p = z + i;", "K04", "nothing is added to a pointer"),
    "a number": ("float *p = 0;", "K04", "`p` is set to a number"),
    "a variable's value": ("float b = 1; float *p = b;", "K04", "`p` is not the address of a variable, array or element"),
    "the value of an element": ("float *p = y[i];", "K04", "`p` is set to the value of an element"),
    "a part of an array": ("float m[2][2] = {{1}}; float *p = m[1];", "K12", "`m` has 2 dimensions, here it has 1"),
    "what a function gives": ("float *p = larger(x, y);", "K04", "`p` is set to what a function gives"),
    "the address of what is not there": ("float *p = &nope;", "K11", "`nope` is not declared"),
    "compared with a number": ("float *p = y; if (p != 0) z[i] = 1;", "K04", "`p` is a pointer, and has no value of its own"),
    "an index of an element's address": ("float *p = &z[i]; p[1] = 2;", "K12", "`p` points at one element of `z`"),
    "the address of a pointer": ("float b; float *p = &b, *q = &p;", "K04", "the address of a pointer"),
    "another type": ("int k = 1; float *p = NULL; p = &k;", "K12", "the address of a int for a pointer to float"),
    "a pointer to another type": ("int k = 1; int *q = &k; float *p = q;", "K12", "`q` is a pointer to int, `p` one to float"),
    "indices of two types": (
        "long k = i; float *p = &z[i]; if (i > 2) p = &z[k]; *p = 1;",
        "K12",
        "`p` has an element of `z` by int from line 9, by long from line 9",
    ),
    "an input's element is written": ("float *p = &x[i]; *p = 1;", "K14", "`p` points at an element of `x`, which is const"),
    "an input's element is written by a second pointer": (
        "float *q = x; float *p = &q[i]; *p = 1;",
        "K14",
        "`p` points at an element of `x`, which is const",
    ),
    "an element that is const on one way": (
        "const float *c = y; float *p = &y[0]; if (i > 2) p = &c[i]; *p = 1;",
        "K14",
        "`p` points at an element of `y`, which is const",
    ),
    "an input's element is given away": ("put(&x[i], 1);", "K14", "`x` is const, and the function may write to it"),
    "a constant is written": ("const float c = 1; float *p = &c; *p = 1;", "K14", "`p` points at `c`, which is const"),
    "a pointer to constants": ("float b = 1; const float *p = &b; *p = 2;", "K14", "`p` points at const values"),
    "such a pointer is copied": ("float b = 1; const float *p = &b; float *q = p;", "K14", "`p` points at const values, and `q` may write"),
    "a pointer that is const": ("float b = 1; float *const p = &b; p = NULL;", "K14", "`p` is const, and is made to point elsewhere"),
    "an array twice, once to be written": ("last(y, y, i);", "K04", "`y` is given to `last` twice, once to be written"),
    "an array and an element of it": ("last(y, &y[i], i);", "K04", "`y` is given to `last` twice, once to be written"),
    "memory of its own": ("float *p = NULL; p = malloc(4);", "K07", "`malloc`"),
    "an atomic of a variable": ("float b = 1; float *p = &b; atomic_add(p, 1);", "K04", "`p` points at `b`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_for_its_reason(name: str) -> None:
    body, rule, what = REFUSED[name]
    with pytest.raises(KernelError) as caught:
        read_kernel(text(body))
    assert caught.value.rule == rule and caught.value.instead
    assert what in caught.value.what


def test_a_pointer_to_an_element_in_an_atomic() -> None:
    source = "void kernel(int i, int n, inout int hits[4]) { int *p = &hits[i % 4]; atomic_add(p, 2); p = hits; atomic_max(p, i); }"
    kernel = read_kernel(source)
    report = emulate(kernel, {"hits": np.zeros(4, "int32")}, {}, 8)
    assert report.outputs["hits"].tolist() == [7, 4, 4, 4] and not report.findings


def test_an_element_outside_of_its_array_is_found_where_it_is_used() -> None:
    source = "void kernel(int i, int n, const int x[n], int y[n]) {\n const int *p = &x[i + 1];\n y[i] = 0;\n if (i < n) y[i] = *p;\n}"
    (one,) = [one for one in verdicts(read_kernel(source)) if one.kind == "bounds" and one.what == "`x`"]
    assert (one.verdict, one.at) == ("witness", (4, 21))


def test_loops_within_loops_in_which_pointers_move() -> None:
    inner = "p = &m[k0];"
    for depth in range(5):
        inner = f"for (int k{depth} = 0; k{depth} < 2; k{depth}++) {{ if (p != NULL) *p += 1; {inner.replace('k0', f'k{depth}')} }}"
    kernel = read_kernel(f"void kernel(int i, int n, float y[n]) {{ float m[2] = {{0}}; float *p = NULL; {inner} y[i] = m[0] + m[1]; }}")
    report = emulate(kernel, {"y": np.zeros(2, "float32")}, {}, 2)
    assert not report.findings and report.outputs["y"].tolist() == [57, 57]


def test_too_many_loops_in_which_pointers_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each level is read again for each one around it."""
    monkeypatch.setattr("laminar.kernels.language.statements.MOST_ROUNDS", 20)
    inner = "p5 = NULL;"
    for d in reversed(range(6)):
        inner = f"float *p{d} = &y[0]; for (int k{d} = 0; k{d} < 2; k{d}++) {{ {inner} if (p{d} != NULL) p{max(d - 1, 0)} = NULL; }}"
    with pytest.raises(KernelError, match="K19") as caught:
        read_kernel(f"void kernel(int i, int n, float y[n]) {{ {inner} }}")
    assert "pointers that change in loops within loops" in caught.value.what


def test_functions_that_nobody_calls() -> None:
    """Where their pointers point is known where they are called; the other rules hold."""
    unused = (
        "void f(float *a, float *b, int k) { float *p = NULL; for (int d = 0; d < k; d++) { if (p) *p += a[d]; p = b; a = p; } *p = 1; }\n"
    )
    kernel = "void kernel(int i, int n, float y[n]) { y[i] = 1; }"
    assert len(read_kernel(unused + kernel).variables) == 2
    with pytest.raises(KernelError, match="K11"):
        read_kernel(unused.replace("*p = 1", "*p = nope") + kernel)
