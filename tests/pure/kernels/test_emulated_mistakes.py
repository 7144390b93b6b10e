"""Kernels with a mistake, and kernels that look as if they had one: what the emulator finds, and what it must not.

The kinds are those that Oclgrind's own tests are sorted by: races, atomics, memory, values that nobody wrote, barriers, and the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from emulated import emulated, found, ints

N = 8


@dataclass(frozen=True)
class Case:
    """`body` is of `void kernel(int i, int n, {parameters})`, from line 2 on; `finds`: kinds and lines."""

    parameters: str
    body: str
    finds: tuple[tuple[str, int], ...] = ()
    outputs: dict[str, list[int]] = field(default_factory=dict)
    empty: tuple[str, ...] = ()


X = "const int x[n], int y[n]"
ONE = "const int x[n], int y[1]"
BOTH = "const int x[n], inout int y[n]"
TOTAL = "const int x[n], inout int y[1]"
UP = list(range(N))

RACES = {
    "two instances write one element": Case(X, "y[i / 2] = x[i];", (("race", 2),)),
    "all write one element, each its own value": Case(ONE, "y[0] = x[i];", (("race", 2),)),
    "all write the same value": Case(ONE, "y[0] = 1;", (("race", 2),)),
    "a neighbour's element is read while it is written": Case(BOTH, "int v = y[(i + 1) % n];\ny[i] = v;", (("race", 2),)),
    "read and written in two lines": Case(BOTH, "y[i] = x[i];\nif (i > 0) y[i] = y[i - 1];", (("race", 2), ("race", 3))),
    "between neighbours in shared memory": Case(X, "shared int t[8];\nt[i] = x[i];\ny[i] = t[n - 1 - i];", (("race", 3),)),
    "one writes in shared memory, all read without a barrier": Case(
        X, "shared int t[1];\nif (i == 0) t[0] = 5;\ny[i] = t[0];", (("race", 3),)
    ),
    "after a barrier the next round begins too early": Case(
        BOTH, "y[i] = x[i];\nbarrier();\nint v = y[(i + 1) % n];\ny[i] = v;", (("race", 4),)
    ),
    "a loop whose rounds overlap": Case(
        X,
        "shared int t[8];\nint v = x[i];\nfor (int k = 0; k < 2; k++) {\nt[i] = v;\nbarrier();\nv = t[(i + 1) % n];\n}\ny[i] = v;",
        (("race", 5),),
    ),
    "a condition that two instances meet": Case(ONE, "if (x[i] >= 6) y[0] = x[i];", (("race", 2),)),
    "through a function": Case(X, "put(y, i / 2);", (("race", 1),)),
    # these have none
    "one element each": Case(X, "y[i] = x[i];", outputs={"y": UP}),
    "each its own element, the other way round": Case(X, "y[n - 1 - i] = x[i];", outputs={"y": UP[::-1]}),
    "all read one element": Case(X, "y[i] = x[0] + x[i];", outputs={"y": UP}),
    "one instance reads what it wrote": Case(BOTH, "y[i] = x[i];\ny[i] += y[i];", outputs={"y": [2 * one for one in UP]}),
    "one instance writes twice": Case(X, "y[i] = 1;\ny[i] = x[i];", outputs={"y": UP}),
    "one instance writes for all, then a barrier": Case(
        X, "shared int t[1];\nif (i == 0) t[0] = 5;\nbarrier();\ny[i] = t[0];", outputs={"y": [5] * N}
    ),
    "a tree of sums with barriers": Case(
        ONE,
        "shared int t[8];\nt[i] = x[i];\nbarrier();\n"
        "for (int s = 4; s > 0; s /= 2) {\nif (i < s) t[i] += t[i + s];\nbarrier();\n}\nif (i == 0) y[0] = t[0];",
        outputs={"y": [28]},
    ),
    "read before a barrier, written after it": Case(
        BOTH, "int v = y[(i + 1) % n] + x[(i + 1) % n];\nbarrier();\ny[i] = v;", outputs={"y": [*UP[1:], 0]}
    ),
    "a permutation through an array": Case(X, "y[x[i] ^ 1] = i;", outputs={"y": [1, 0, 3, 2, 5, 4, 7, 6]}),
    "only one instance goes in": Case(ONE, "if (x[i] == 3) y[0] = i;", outputs={"y": [3]}),
}

ATOMICS = {
    "an atomic sum": Case(TOTAL, "atomic_add(&y[0], x[i]);", outputs={"y": [28]}),
    "a minimum and a maximum": Case(
        "const int x[n], inout int y[2]", "atomic_min(&y[0], -x[i]);\natomic_max(&y[1], x[i]);", (), {"y": [-7, 7]}
    ),
    "an atomic in shared memory": Case(
        ONE,
        "shared int t[1];\nif (i == 0) t[0] = 0;\nbarrier();\natomic_add(&t[0], x[i]);\nbarrier();\nif (i == 0) y[0] = t[0];",
        (),
        {"y": [28]},
    ),
    "a plain write beside atomics": Case(TOTAL, "atomic_add(&y[0], x[i]);\nif (i == 3) y[0] = 9;", (("race", 2),)),
    "a plain read beside atomics": Case(
        "const int x[n], inout int y[1], int z[n]", "z[i] = y[0];\natomic_add(&y[0], x[i]);", (("race", 2),)
    ),
    "a plain write before atomics": Case(TOTAL, "if (i == 0) y[0] = 0;\natomic_add(&y[0], x[i]);", (("race", 2),)),
    "the same, with a barrier": Case(TOTAL, "if (i == 0) y[0] = 0;\nbarrier();\natomic_add(&y[0], x[i]);", (), {"y": [28]}),
    "a sum that is no atomic": Case(TOTAL, "y[0] += x[i];", (("race", 2),)),
    "one instance, plain and atomic": Case(BOTH, "y[i] = x[i];\natomic_add(&y[i], 1);", (), {"y": [one + 1 for one in UP]}),
    "atomics outside of the array": Case(TOTAL, "atomic_add(&y[i], x[i]);", (("out-of-bounds", 2),), {"y": [0]}),
    "atomics on what nobody wrote": Case(
        ONE, "shared int t[1];\natomic_add(&t[0], x[i]);\nbarrier();\nif (i == 0) y[0] = t[0];", (("uninitialised", 3),), {"y": [28]}
    ),
}

MEMORY = {
    "read after the end": Case(X, "y[i] = x[i + 1];", (("out-of-bounds", 2),), {"y": [*UP[1:], 0]}),
    "read before the start": Case(X, "y[i] = x[i - 1];", (("out-of-bounds", 2),), {"y": [0, *UP[:-1]]}),
    "write after the end": Case(X, "y[i + 1] = x[i];", (("out-of-bounds", 2),), {"y": [0, *UP[:-1]]}),
    "an index from memory": Case(X, "y[x[i] * 2] = i;", (("out-of-bounds", 2),), {"y": [0, 0, 1, 0, 2, 0, 3, 0]}),
    "in one dimension only, though memory goes on": Case(
        "const int x[4][2], int y[n]", "y[i] = x[0][i / 4 + 1];", (("out-of-bounds", 2),), {"y": [1] * 4 + [0] * 4}
    ),
    "a local array": Case(X, "int t[4] = {1, 2, 3, 4};\ny[i] = t[i];", (("out-of-bounds", 3),), {"y": [1, 2, 3, 4, 0, 0, 0, 0]}),
    "a shared array": Case(X, "shared int t[4];\nt[i] = x[i];\ny[i] = x[i];", (("out-of-bounds", 3),), {"y": UP}),
    "an index that wrapped around": Case(X, "y[i] = x[i + 2147483647];", (("out-of-bounds", 2),), {"y": [0] * 8}),
    "too large for an int": Case(X, "y[i] = x[i + 4294967296];", (("out-of-bounds", 2),), {"y": [0] * 8}),
    "read and write of one statement": Case(BOTH, "y[i + 4] += x[i];", (("out-of-bounds", 2),), {"y": [0] * 4 + UP[:4]}),
    # these are within
    "a test of the index": Case(X, "y[i] = i + 1 < n ? x[i + 1] : -1;", outputs={"y": [*UP[1:], -1]}),
    "a test that looks at the array only if need be": Case(
        X, "if (i + 1 < n && x[i + 1] > 3) y[i] = 1;", outputs={"y": [0, 0, 0, 1, 1, 1, 1, 0]}
    ),
    "the last element of all dimensions": Case("const int x[4][2], int y[n]", "y[i] = x[3][1];", outputs={"y": [7] * 8}),
}

VALUES = {
    "a variable": Case(X, "int v;\ny[i] = v;", (("uninitialised", 3),), {"y": [0] * N}),
    "a variable that some set": Case(X, "int v;\nif (x[i] > 3) v = 1;\ny[i] = v;", (("uninitialised", 4),), {"y": [0] * 4 + [1] * 4}),
    "a variable of each round": Case(
        X, "for (int k = 0; k < 2; k++) {\nint v;\nif (k == 0) v = 5;\ny[i] = v;\n}", (("uninitialised", 5),), {"y": [0] * N}
    ),
    "a local array, in part": Case(X, "int t[4];\nt[0] = 1;\ny[i] = t[i % 2];", (("uninitialised", 4),), {"y": [1, 0] * 4}),
    "a shared array": Case(X, "shared int t[8];\ny[i] = t[i];", (("uninitialised", 3),), {"y": [0] * N}),
    "a shared array of which only half is written": Case(
        X, "shared int t[8];\nif (i < 4) t[i] = x[i];\nbarrier();\ny[i] = t[i];", (("uninitialised", 5),), {"y": [0, 1, 2, 3, 0, 0, 0, 0]}
    ),
    "global memory that is empty": Case(BOTH, "y[i] = y[i] + x[i];", (("uninitialised", 2),), {"y": UP}, ("y",)),
    "a function that does not always return": Case(X, "y[i] = some(x[i]);", (("uninitialised", 2),), {"y": [0] * 4 + [7] * 4}),
    "as an index": Case(X, "int k;\ny[i] = x[k];", (("uninitialised", 3),), {"y": [0] * N}),
    "as a condition": Case(X, "bool b;\nif (b) y[i] = 1;", (("uninitialised", 3),), {"y": [0] * N}),
    # these have values
    "set by both branches": Case(X, "int v;\nif (x[i] > 3) v = 1;\nelse v = 2;\ny[i] = v;", outputs={"y": [2] * 4 + [1] * 4}),
    "set in a loop, read after it": Case(X, "int v;\nfor (int k = 0; k < 2; k++) v = x[i];\ny[i] = v;", outputs={"y": UP}),
    "set through a pointer": Case(X, "int v;\nset(&v, x[i]);\ny[i] = v;", outputs={"y": UP}),
    "the rest of a list is zero": Case(X, "int t[4] = {5};\ny[i] = t[3] + t[0];", outputs={"y": [5] * N}),
    "empty, and written before it is read": Case(BOTH, "y[i] = x[i];\ny[i] += 1;", (), {"y": [one + 1 for one in UP]}, ("y",)),
    "read only where it was set": Case(X, "int v;\nif (x[i] > 3) v = 1;\nif (x[i] > 3) y[i] = v;", outputs={"y": [0] * 4 + [1] * 4}),
}

BARRIERS = {
    "only some reach it": Case(X, "if (x[i] > 3) barrier();\ny[i] = x[i];", (("divergent-barrier", 2),), {"y": UP}),
    "two that are not the same": Case(
        X, "if (i % 2) {\nbarrier();\n} else {\nbarrier();\n}\ny[i] = 1;", (("divergent-barrier", 3),), {"y": [1] * N}
    ),
    "some reach it more often": Case(
        X, "for (int k = 0; k <= i / 4; k++) barrier();\ny[i] = 1;", (("divergent-barrier", 2),), {"y": [1] * N}
    ),
    "some return before it": Case(X, "if (i == 5) return;\nbarrier();\ny[i] = 1;", (("divergent-barrier", 3),), {"y": [1] * 5 + [0, 1, 1]}),
    # all reach these
    "in a loop that is the same for all": Case(X, "for (int k = 0; k < n; k++) barrier();\ny[i] = 1;", outputs={"y": [1] * N}),
    "under a condition that is the same for all": Case(X, "if (x[0] == 0) barrier();\ny[i] = 1;", outputs={"y": [1] * N}),
    "within a function": Case(X, "wait(n);\ny[i] = 1;", outputs={"y": [1] * N}),
}

OTHERS = {
    "division by zero": Case(X, "y[i] = 12 / x[i];", (("division-by-zero", 2),), {"y": [0, 12, 6, 4, 3, 2, 2, 1]}),
    "the rest of a division by zero": Case(X, "y[i] = 12 % x[i];", (("division-by-zero", 2),), {"y": [0, 0, 0, 0, 0, 2, 0, 5]}),
    "a divisor that is tested": Case(X, "y[i] = x[i] == 0 ? -1 : 12 / x[i];", outputs={"y": [-1, 12, 6, 4, 3, 2, 2, 1]}),
    "floats by zero": Case(X, "float v = 1.0f / (float)x[i];\ny[i] = isinf(v);", outputs={"y": [1] + [0] * 7}),
    "an instance that does nothing": Case(X, "if (i < 8) return;\ny[i] = 1;", outputs={"y": [0] * N}),
    "a table in place of a switch": Case(X, "const int t[3] = {4, 5, 6};\ny[i] = t[x[i] % 3];", outputs={"y": [4, 5, 6, 4, 5, 6, 4, 5]}),
    "many variables": Case(
        X,
        "".join(f"int v{k} = x[i] + {k};\n" for k in range(40)) + f"y[i] = {' + '.join(f'v{k}' for k in range(40))};",
        (),
        {"y": [40 * one + 780 for one in UP]},
    ),
}

CASES = {
    f"{kind}: {name}": case
    for kind, cases in {"race": RACES, "atomic": ATOMICS, "memory": MEMORY, "value": VALUES, "barrier": BARRIERS, "other": OTHERS}.items()
    for name, case in cases.items()
}
FUNCTIONS = (
    " void put(int y[8], int k) { y[k] = k; } int some(int v) { if (v > 3) return 7; } "
    "void set(int *p, int v) { *p = v; } void wait(int n) { barrier(); if (n > 3) barrier(); }"
)


def written(case: Case) -> tuple[str, dict[str, Any]]:
    """Its text, and what it is called with."""
    source = FUNCTIONS + f"void kernel(int i, int n, {case.parameters}) {{ /* line 1 */\n{case.body}\n}}"
    given: dict[str, Any] = {"x": ints(*UP)}
    if "x[4][2]" in case.parameters:
        given["x"] = given["x"].reshape(4, 2)
    if "inout int y[n]" in case.parameters:
        given["y"] = np.zeros(N, "int32")
    elif "inout" in case.parameters:
        given["y"] = np.zeros(2 if "y[2]" in case.parameters else 1, "int32")
    return source, given


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_is_found(name: str, seed: int | None) -> None:
    case = CASES[name]
    source, given = written(case)
    report = emulated(source, N, seed=seed, empty=case.empty, **given)
    seen = tuple(dict.fromkeys(found(report)))
    if "race" in dict(case.finds):  # what was written by then depends on the order
        seen = tuple(one for one in seen if one[0] == "race")
    assert seen == case.finds, "\n".join(one.text("t.c", source) for one in report.findings)
    if "race" not in dict(case.finds):
        for output, values in case.outputs.items():
            assert report.outputs[output].tolist() == values


def test_a_race_names_both_places_and_both_instances() -> None:
    source = "void kernel(int i, int n, inout int y[n]) {\n    y[i] = i;\n    int v = y[(i + 1) % n];\n    y[i] = v;\n}"
    (first, second) = emulated(source, 3, y=ints(0, 0, 0)).findings
    assert (first.kind, first.at, first.other) == ("race", (2, 5), (3, 13))
    assert first.what == "instance 1 writes y[1], and instance 0 reads it in line 3"
    assert (first.instances, first.times, first.object, first.index) == ((1, 0), 2, "y", (1,))
    assert (second.at, second.other) == ((3, 13), (4, 5))


def test_places_of_findings_have_a_caret() -> None:
    source = "void kernel(int i, int n, const int x[n], int y[n]) {\n\ty[i] = x[i + 1] / x[0];\n}"
    (divides, outside) = emulated(source, x=ints(0, 1)).findings
    assert outside.text("shift.c", source) == (
        "shift.c:2:9: instance 1 reads x[2], the array has 2 elements\n  \ty[i] = x[i + 1] / x[0];\n  \t       ^"
    )
    assert divides.to_json() == {
        "kind": "division-by-zero",
        "line": 2,
        "column": 9,
        "instances": [0],
        "times": 2,
        "what": "instance 0 divides a whole number by zero",
        "object": None,
        "index": [],
        "other": None,
    }
