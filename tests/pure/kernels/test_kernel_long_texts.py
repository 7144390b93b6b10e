"""Texts that are long, deep or odd: read in a moment, or refused in few words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laminar.kernels.analyse.space import Space
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.compile.body import DEEP
from laminar.kernels.compile.host import host
from laminar.kernels.compile.native import compiled, text_of
from laminar.kernels.compile.plan import planned
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import WIDEST, KernelError, excerpt
from laminar.kernels.language.tree import At, Constant, Kernel

HEAD = "void kernel(int i, int n, inout float y[n]) {"


def test_loops_within_loops_are_judged_one_by_one() -> None:
    """The rounds of 30 loops are not told apart where there is no barrier: there would be 2^30 ways."""
    loops = "".join(f"for (int a{number} = 0; a{number} < 2; a{number}++) " for number in range(30))
    found = verdicts(read_kernel(f"{HEAD} {loops} y[i] += 1; }}"))
    assert {one.verdict for one in found if one.kind == "race"} == {"proved"}


def test_constants_of_constants_are_computed_once() -> None:
    defines = "".join(f"#define A{number + 1} (A{number} + A{number})\n" for number in range(40))
    kernel = read_kernel(f"#define A0 1\n{defines}void kernel(int i, int n, long y[n]) {{ y[i] = A20; y[i] += A40; }}")
    assert [one.value.value for one in kernel.body[:1]] == [2**20]  # type: ignore[union-attr]


def test_the_kernel_itself_counts_among_its_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laminar.kernels.language.kernel.MOST_STATEMENTS", 100)
    read_kernel(f"{HEAD} {'y[i] = 1;' * 100} }}")
    with pytest.raises(KernelError, match="K19") as caught:
        read_kernel(f"{HEAD} if (i > 0) {{ {'y[i] = 1;' * 100} }} }}")
    assert caught.value.at == (1, 6)


def test_of_a_long_line_only_the_place_is_shown() -> None:
    line = "x" * 500 + "@" + "z" * 500
    shown, caret = excerpt(line, At(1, 501)).split("\n")
    assert len(shown) == WIDEST + 4
    assert shown[caret.index("^")] == "@"
    assert excerpt("a\tb\0c@", At(1, 6)) == "  a\tb·c@\n   \t   ^"


def test_a_constant_has_its_own_place_wherever_it_is_used() -> None:
    kernel = read_kernel("#define A 3\nvoid kernel(int i, int n, int y[n]) {\n  y[i] = A;\n  y[i] = A;\n}")
    assert [one.value.at.line for one in kernel.body] == [3, 4]  # type: ignore[union-attr]


@pytest.mark.parametrize("link", ["if (i == {0}) y[i] = {0}; else\n", "for (int a{0} = 0; a{0} < 2; a{0}++)\n"])
def test_conditions_within_each_other_have_an_end(link: str) -> None:
    """What is read can be judged: no part that walks it comes to the end of Python's stack."""

    def chain(length: int) -> str:
        return HEAD + "\n" + "".join(link.format(number) for number in range(length)) + "y[i] = 1; }"

    if link.startswith("if"):
        assert verdicts(read_kernel(chain(128)))
    with pytest.raises(KernelError, match="K19") as caught:
        read_kernel(chain(160))
    assert caught.value.at.line in (130, 131) and "128 conditions" in caught.value.what


def many(arrays: int) -> str:
    """Of 64,000 bytes each."""
    return f"{HEAD}\n" + "".join(f"float a{number}[16000]; a{number}[0] = 1;\n" for number in range(arrays)) + " y[i] = a0[0]; }"


def test_all_local_arrays_together_have_a_limit() -> None:
    """The same for whoever only checks or emulates."""
    assert read_kernel(many(32)).objects
    with pytest.raises(KernelError, match=r"^many\.c:41:7: .*2,560,000 bytes.*K19"):
        read_kernel(many(40), "many.c")


def test_what_is_made_of_a_kernel_has_the_same_limit_in_native_code() -> None:
    small, large = read_kernel(many(32)), replace(read_kernel(many(1)).objects[1], shape=(Constant(At(1, 1), "int", 99_999),))
    with pytest.raises(KernelError, match=r"^many\.c:2:7: .*2,447,996 bytes.*K19"):
        compiled(replace(small, objects=(*small.objects, large)), file="many.c")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("".join(f"if (i == {number}) y[i] = 1; else\n" for number in range(1000)) + "y[i] = 2;", range(50, 999)),
        ("".join(f"if (i > {number})\n" for number in range(1000)) + "y[i] = 2;", range(50, 999)),
        ("y[i] = " + "-\n" * 2000 + "1;", range(50, 1999)),
    ],
)
def test_where_a_text_without_brackets_is_nested_too_deeply(text: str, line: range) -> None:
    with pytest.raises(KernelError, match="nested too deeply") as caught:
        read_kernel(f"{HEAD}\n{text} }}")
    assert caught.value.at.line in line


def chosen(links: int) -> Kernel:
    """`if (i == 0) y[i] = 0; else if (i == 1) …`"""
    return read_kernel(f"{HEAD}\n" + "".join(f"if (i == {one}) y[i] = {2 * one}; else\n" for one in range(links)) + "y[i] = -1; }")


def test_long_chains_of_conditions_compile_in_time_that_grows_with_them() -> None:
    """LLVM looks back at every condition through those around it, unless it is stopped: 100 took 3 s."""
    short, long = (text_of(kernel, space := Space.of(kernel), planned(kernel, space, host())) for kernel in (chosen(10), chosen(100)))
    assert "store volatile" not in short and long.count("store volatile") >= 100 // DEEP
    found = np.zeros(128, np.float32)
    compiled(chosen(100)).run([found], [], 128)
    assert found.tolist() == [2.0 * one for one in range(100)] + [-1.0] * 28
