"""What a kernel consists of: a tree with every operator of it, and a table with every data object."""

from __future__ import annotations

import json
from typing import Any

from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.outline import Node, objects_of, tree_of, tree_text
from laminar.kernels.language.tree import expressions, statements, walk

TEXT = """\
float scaled(float v, float slope) {
    if (v < 0.0f) return slope * v;
    return v;
}
void kernel(int i, int n, float slope, const float x[n], float y[n], inout int hits[4]) {
    shared float t[8];
    float s = 0;
    for (int k = 0; k < 3; k++) { if (k == i) continue; s += t[k]; }
    barrier();
    atomic_add(&hits[i % 4], 1);
    y[i] = scaled(x[i], slope) + (i > 2 ? s : -s) + expf((float)i);
}
"""


def nodes(root: Node) -> list[Node]:
    return [root, *(inner for one in root.children for inner in nodes(one))]


def test_the_tree_has_every_operator() -> None:
    kernel = read_kernel(TEXT, "t.c")
    parts = [part for one in statements(kernel.body) for whole in expressions(one) for part in walk(whole)]
    found = nodes(tree_of(kernel))
    assert len([one for one in found if one.type is not None and one.operator != "declare"]) == len(parts)
    words = {one.operator for one in found}
    assert {
        "kernel",
        "declare",
        "assign",
        "store",
        "loop",
        "if",
        "continue",
        "barrier",
        "atomic_add",
        "load",
        "call",
        "cast",
        "?:",
    } <= words


def test_the_tree_as_text() -> None:
    kernel = read_kernel("void kernel(int i, int n, const float x[n], float y[n]) {\n    if (i > 0) y[i] = -x[i - 1];\n}", "t.c")
    wanted = """\
1:17  kernel kernel
 2:5  └─ if
 2:9     ├─ condition: > bool
 2:9     │  ├─ read i int
2:13     │  └─ constant 0 int
2:16     └─ then
2:16        └─ store y
2:18           ├─ index: read i int
2:24           └─ value: - float
2:24              └─ load x float
2:26                 └─ index: - int
2:26                    ├─ read i int
2:30                    └─ constant 1 int"""
    assert tree_text(tree_of(kernel)) == wanted


def test_the_tree_as_json() -> None:
    shown: dict[str, Any] = json.loads(json.dumps(tree_of(read_kernel(TEXT, "t.c")).to_json()))
    assert (shown["operator"], shown["name"], shown["line"]) == ("kernel", "kernel", 5)
    assert shown["children"][0] == {
        "operator": "declare", "part": "", "name": "t", "type": "float", "line": 6, "column": 18, "children": []
    }  # fmt: skip


def test_the_table_has_every_object() -> None:
    kernel = read_kernel(TEXT, "t.c")
    found = objects_of(kernel)
    assert [one.name for one in found[:8]] == ["i", "n", "slope", "x", "y", "hits", "t", "s"]
    assert {(one.name, one.role, one.memory) for one in found if one.memory != "register"} == {
        ("x", "array", "global"), ("y", "array", "global"), ("hits", "array", "global"), ("t", "shared", "shared")
    }  # fmt: skip
    hits, t, s = (next(one for one in found if one.name == name) for name in ("hits", "t", "s"))
    assert (hits.shape, hits.mode, hits.bytes, hits.read_in, hits.written_in) == (("4",), "inout", 16, (10,), (10,))
    assert (t.bytes, t.read_in, t.written_in) == (32, (8,), ())
    assert (s.role, s.read_in, s.written_in) == ("variable", (8, 11), (7, 8))
    assert len(found) == len(kernel.variables) + len(kernel.objects)


def test_sizes_that_the_caller_tells_have_no_bytes() -> None:
    kernel = read_kernel("void kernel(int i, int n, int m, const float x[2 * m + 1][n], float y[n]) { y[i] = x[0][i]; }", "t.c")
    x = next(one for one in objects_of(kernel) if one.name == "x")
    assert (x.shape, x.bytes) == (("(2 * m) + 1", "n"), None)
