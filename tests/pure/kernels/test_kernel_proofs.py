"""The prover alone: each fact of a kernel against runs over all small values and some at the edges, and its arithmetic against all numbers
of small ranges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pycparser")

from laminar.core.errors import LaminarError
from laminar.kernels.analyse.granted import Granted
from laminar.kernels.analyse.intervals import Interval, Intervals
from laminar.kernels.analyse.proofs import Proofs, accesses
from laminar.kernels.analyse.space import Space
from laminar.kernels.analyse.terms import HIGH, LOW, Run, Term, Terms
from laminar.kernels.analyse.verdicts import verdicts
from laminar.kernels.emulate.run import emulate
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import KernelError
from laminar.kernels.language.tree import At, Kernel, Store, Variable, statements

quick = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
EDGES = (LOW, LOW + 1, -(2**32), -(2**31) - 1, -(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1, 2**31, 2**32, HIGH - 1, HIGH)


def proofs_of(text: str) -> tuple[Kernel, Proofs]:
    kernel = read_kernel(text)
    return kernel, Proofs.of(kernel, Space.of(kernel))


# arithmetic of intervals


VALUES = [Variable(name, "long", At(1, 1)) for name in ("a", "b", "c", "d")]


def numbers(low: int, high: int) -> list[int]:
    """Some of an interval, with both ends."""
    near = {low, low + 1, low + 2, high - 2, high - 1, high, (low + high) // 2, -1, 0, 1}
    return sorted(one for one in near if low <= one <= high)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%"])
def test_what_is_computed_is_within_the_interval(operator: str, known: bool) -> None:
    """`known`: the ends are numbers, and no values of the run."""
    ends = [(low, high) for low, high in itertools.product(EDGES, EDGES) if low <= high]
    checked = 0
    if not known:
        terms = Terms()
        left, right = (Interval(terms.value(one), terms.value(other)) for one, other in (VALUES[:2], VALUES[2:]))
        made = operated(Intervals(terms), operator, left, right)
    for (a, b), (c, d) in itertools.product(ends[::2], ends[1::2]):
        if known:
            terms = Terms()
            left, right = (Interval(terms.number(low), terms.number(high)) for low, high in ((a, b), (c, d)))
            made = operated(Intervals(terms), operator, left, right)
        run = Run(dict(zip(VALUES, (a, b, c, d), strict=True)), 0, 1)
        if not all(run.holds(test) for test in made.needs):
            continue
        checked += 1
        low, high = run.value(made.low), run.value(made.high)
        for one, other in itertools.product(numbers(a, b), numbers(c, d)):
            value = computed(operator, one, other)
            assert low <= value <= high, (operator, (a, b), (c, d), one, other)
            assert LOW <= value <= HIGH, "it wraps around"
    assert checked > 100


def operated(sums: Intervals, operator: str, left: Interval, right: Interval) -> Interval:
    match operator:
        case "+":
            return sums.add(left, right)
        case "-":
            return sums.subtract(left, right)
        case "*":
            return sums.multiply(left, right)
    return sums.divide(left, right, rest=operator == "%")


def computed(operator: str, one: int, other: int) -> int:
    if operator in "/%":
        assert one >= 0 and other >= 1
        return one // other if operator == "/" else one % other
    return {"+": one + other, "-": one - other, "*": one * other}[operator]


def test_terms_are_there_once_and_numbers_are_folded() -> None:
    terms = Terms()
    value = terms.value(VALUES[0])
    assert terms.of("+", value, terms.number(1)) is terms.of("+", value, terms.number(1))
    assert terms.of("+", value, terms.number(0)) is value
    assert terms.of("*", terms.number(3), terms.number(4)).known == 12
    assert terms.of("+", terms.number(HIGH), terms.number(1)).known == LOW, "as 64 bits do it"
    sums = Intervals(terms)
    assert any(test.known is False for test in sums.add(sums.known(HIGH), sums.known(1)).needs)
    assert str(terms.of("-", terms.of("+", value, value), terms.end)) == "(a + a) - end"


# facts of kernels


class Writer:
    """Kernels in which whatever tells something of an index is near an index: conditions, loops that end early, casts, rests, functions."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.names, self.made, self.loops = draw, ["i", "n", "k", "m"], 0, 0

    def pick(self, *options: str) -> str:
        return self.draw(st.sampled_from(options))

    def number(self, depth: int = 2) -> str:
        if depth == 0 or self.pick("leaf", "more", "more") == "leaf":
            return self.pick(*self.names, *self.names[-2:], "i", "0", "1", "2", "-1", "3")
        inner = lambda: self.number(depth - 1)  # noqa: E731
        kind = self.pick("sum", "sum", "sum", "product", "rest", "choice", "long", "mask", "clamp", "wrap")
        if kind == "sum":
            return f"({inner()} {self.pick('+', '-')} {inner()})"
        if kind == "product":
            return f"({inner()} * {self.pick('2', 'm', '-1', 'n')})"
        if kind == "rest":
            return f"({inner()} {self.pick('/', '%')} {self.pick('2', 'n', 'm', '3')})"
        if kind == "choice":
            return f"({self.condition()} ? {inner()} : {inner()})"
        if kind == "long":
            return f"(int)((long){inner()} {self.pick('+', '-', '*')} {inner()})"
        if kind == "mask":
            return f"({inner()} & {self.pick('1', '3')})"
        if kind == "wrap":
            return f"({inner()} {self.pick('+', '*', '-')} 2147483647)"
        one = self.pick(*self.names)
        return self.pick(f"({one} < 0 ? 0 : {one})", f"({one} >= n ? n - 1 : {one})", f"({one} > {(other := inner())} ? {other} : {one})")

    def condition(self) -> str:
        left = self.pick(*self.names, "i", "k")
        plain = f"{left} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.number(1)}"
        kind = self.pick("plain", "plain", "plain", "and", "or", "not", "wide")
        if kind in ("and", "or"):
            return f"({plain} {'&&' if kind == 'and' else '||'} {self.condition()})"
        return f"!({plain})" if kind == "not" else f"((long){plain})" if kind == "wide" else plain

    def element(self) -> str:
        return self.pick(
            f"y[{self.number(1)}]", f"y[{self.number(0)}]", f"z[{self.number(1)}][{self.number(0)}]", f"y[(long){self.number(1)}]"
        )

    def block(self, depth: int) -> str:
        known = len(self.names)
        made = " ".join(self.statement(depth) for _ in range(self.draw(st.integers(1, 2))))
        del self.names[known:]
        return f"{{ {made} }}"

    def statement(self, depth: int) -> str:
        kind = self.pick("store", "store", "store", "declare", "assign", "if", "if", "loop", "loop", "jump", "call")
        if kind == "jump" and self.loops:
            return f"if ({self.condition()}) {self.pick('break', 'continue')};"
        if kind == "declare":
            name, value = self.name(), self.number()
            self.names.append(name)
            return f"int {name} = {value};"
        if kind == "assign" and (own := [one for one in self.names if one.startswith("v")]):
            return f"{self.pick(*own, 'k')} {self.pick('=', '+=', '-=')} {self.number(1)};"
        if kind == "call":
            return f"y[pick(k, {self.number(1)})] = 2;"
        if kind == "if" and depth:
            return f"if ({self.condition()}) {self.block(depth - 1)}" + self.pick("", f" else {self.block(depth - 1)}")
        if kind == "loop" and depth:
            return self.loop(depth)
        return f"{self.element()} {self.pick('=', '+=')} {self.pick('1', 'y[0]', self.element())};"

    def loop(self, depth: int) -> str:
        name, start, bound = self.name().replace("v", "c"), self.number(1), self.number(1)
        wide = self.pick("", "", "", "(long)")
        ways = [f"{name} < {wide}{bound}; {name}++", f"{name} <= {bound}; {name} += 2", f"{name} >= {bound}; {name}--"]
        ways += [f"{name} > {bound}; {name} -= 3", f"{name} < {bound} && {self.condition()}; {name}++"]
        self.names.append(name)
        self.loops += 1
        body = self.block(depth - 1)
        self.loops -= 1
        self.names.remove(name)
        return f"for (int {name} = {start}; {self.pick(*ways)}) {body}"

    def name(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def kernel(self) -> str:
        body = "\n  ".join(self.statement(2) for _ in range(self.draw(st.integers(1, 4))))
        early = "int pick(int k, int v) { if (k > 1) return v; if (v < 0) return 0; return k; }"
        return f"{early}\nvoid kernel(int i, int count, int n, int k, int m, inout int y[n], inout int z[m][n]) {{\n  {body}\n}}\n"


@st.composite
def kernels(draw: st.DrawFn) -> str:
    return Writer(draw).kernel()


def runs() -> list[tuple[int, int, int, int]]:
    """(n, k, m, count)"""
    small = [(n, k, m, count) for n, k, m, count in itertools.product((1, 3), (-1, 0, 2, 3), (1, 2), (1, 3))]
    return [*small[::3], (4, 2**31 - 1, 1, 2), (2, -(2**31), 2, 2), (3, 2**31 - 3, 1, 3)]


def hold(text: str) -> int:
    """How many facts there are; none is refuted by a run."""
    try:
        kernel, proofs = proofs_of(text)
        assert proofs.kernel is kernel
    except KernelError:
        return 0
    if not proofs.every:
        return 0
    for n, k, m, count in runs():
        arrays = {"y": np.arange(n, dtype="int32") - 1, "z": np.zeros((m, n), "int32")}
        try:
            emulate(kernel, arrays, {"n": n, "k": k, "m": m}, count, steps=300, proofs=True)
        except LaminarError as error:
            if error.code != "L704":  # numbers that wrap around make long loops
                raise AssertionError(f"{error} {(n, k, m, count)}\n{text}") from None
    return len(proofs.every)


@quick
@given(kernels())
def test_no_run_refutes_a_fact(text: str) -> None:
    hold(text)


def test_a_false_fact_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above can fail: with intervals that forget the upper end of a sum."""
    source = "void kernel(int i, int n, const float x[n], out float y[n]) { y[i] = x[i + 1]; }"
    values, arrays = {}, {"x": np.zeros(4, "float32")}
    emulate(read_kernel(source), arrays, values, 4, proofs=True)
    monkeypatch.setattr(Intervals, "add", lambda _, left, right: left if right else right)
    with pytest.raises(LaminarError, match=r"`x` is proved .* in instance 3 it is \(4,\)") as error:
        emulate(read_kernel(source), arrays, values, 4, proofs=True)
    assert error.value.code == "L900"


def test_facts_are_data() -> None:
    """An access, a condition and a reason."""
    kernel, proofs = proofs_of("void kernel(int i, int count, int n, int k, const float x[n], out float y[n]) { y[i] = x[k + 1]; }")
    load, store = accesses(kernel)
    assert isinstance(store, Store)
    assert {str(test) for test in proofs.intervals[id(load)].condition} == {
        "k + 1 does not wrap around",
        "0 <= k + 1",
        "k + 1 < n",
        "k + 1 <= 2147483647",
        "-2147483648 <= k + 1",
    }
    assert proofs.intervals[id(load)].reason == "the index is k + 1"
    assert {str(test) for test in proofs.intervals[id(store)].condition} >= {"0 <= begin", "end - 1 < n"}


def test_check_tells_in_which_runs_nothing_is_checked() -> None:
    kernel, _ = proofs_of(
        "void kernel(int i, int count, int n, int k, const float x[n], out float y[count]) {"
        "while (y[i] > 0.5f) y[i] -= 1.0f; y[i] = x[k]; }"
    )
    told = [one.why for one in verdicts(kernel) if one.kind == "bounds" and one.what == "`x`"]
    assert told == ["the index may be less than 0 or too large; not in runs in which 0 <= k and k < n"]


def test_what_intervals_do_not_tell_symbols_may() -> None:
    """`i - j` of a `j` up to `i` is none that intervals know to be 0 or more."""
    kernel, proofs = proofs_of(
        "void kernel(int i, int n, const float x[n], out float y[n]) { float s = 0; for (int j = 0; j <= i; j++) s += x[i - j]; y[i] = s; }"
    )
    load = next(one for one in accesses(kernel) if one.object.name == "x")
    run = Run({kernel.count: 5}, 0, 5)
    assert not all(run.holds(test) for test in proofs.intervals[id(load)].condition)
    assert all(run.holds(test) for test in proofs.symbols[id(load)].condition)
    y = np.zeros(5, "float32")
    assert emulate(kernel, {"x": np.ones(5, "float32"), "y": y}, {}, 5, proofs=True).outputs["y"].tolist() == [1, 2, 3, 4, 5]


def test_what_is_granted_of_sizes_with_quotients_is_a_test_too() -> None:
    text = "void kernel(int i, int n, int h, const float x[h], out float y[(h + 3) / 2]) { if (i < (h + 3) / 2) y[i] = x[0]; }"
    kernel, proofs = proofs_of(text)
    (h,) = kernel.values
    assert isinstance(h.of, Variable)
    load, _ = accesses(kernel)
    for value, holds in ((1, True), (4, True), (0, False), (2**31 - 1, False), (-9, False)):
        run = Run({h.of: value, kernel.count: 2}, 0, 2)
        assert all(run.holds(test) for test in proofs.symbols[id(load)].condition) == holds
        assert (Granted.of(kernel).broken({"h": value}, 2) is None) == holds


def test_what_never_holds_is_no_fact() -> None:
    """It would send every run to code that checks everything."""
    kernel, proofs = proofs_of("void kernel(int i, int n, const float x[4], out float y[n]) { y[i] = i > 8 ? x[4] : x[3]; }")
    outside, inside = (one for one in accesses(kernel) if one.object.name == "x")
    known = {*proofs.intervals, *proofs.symbols}
    assert id(outside) not in known and id(inside) in known


def test_a_node_in_two_places_is_a_fact_of_both() -> None:
    kernel = read_kernel("void kernel(int i, int n, const float x[n], out float y[n]) { if (i + 1 < n) y[i] = x[i + 1]; }")
    (guarded,) = [one for one in statements(kernel.body) if isinstance(one, Store)]
    twice = Kernel(kernel.name, kernel.text, kernel.parameters, (*kernel.body, guarded), kernel.variables, kernel.objects)
    proofs = Proofs.of(twice, Space.of(twice))
    run = Run({kernel.count: 3}, 0, 3)
    load = next(one for one in accesses(twice) if one.object.name == "x")
    fact = proofs.intervals.get(id(load))
    assert id(load) not in proofs.symbols and (fact is None or not all(run.holds(test) for test in fact.condition))


def test_the_least_number_of_a_run_is_its_first_instance() -> None:
    terms = Terms()
    run = Run({}, 3, 8)
    assert [run.value(one) for one in (terms.begin, terms.end, terms.of("-", terms.end, terms.begin))] == [3, 8, 5]
    assert isinstance(terms.begin, Term)
