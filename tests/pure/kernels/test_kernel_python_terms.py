"""Terms as a function of Python: the numbers and answers of terms.Run, for numbers that fit 64 bits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from laminar.kernels.analyse import terms as analyse_terms
from laminar.kernels.analyse.terms import HIGH, LOW, Run, Term, Terms
from laminar.kernels.circuit.python_terms import PythonTerms
from laminar.kernels.language.tree import At, Variable

VARIABLES = [Variable(name, "long", At(1, 1)) for name in "abc"]
numbers = st.one_of(st.integers(-9, 9), st.sampled_from([LOW, LOW + 1, HIGH, HIGH - 1, 2**31, -(2**31)]))


@st.composite
def drawn(draw: st.DrawFn) -> tuple[list[Term], list[analyse_terms.Test]]:
    terms = Terms()
    made = [*map(terms.value, VARIABLES), terms.begin, terms.end, *(terms.number(draw(numbers)) for _ in range(3))]
    tests: list[analyse_terms.Test] = []
    for _ in range(draw(st.integers(1, 8))):
        operator = draw(st.sampled_from(["+", "-", "*", "quotient", "rest", "least", "most"]))
        one = terms.of(operator, draw(st.sampled_from(made)), draw(st.sampled_from(made)))  # type: ignore[arg-type]
        made.append(one)
        if one.operator in ("+", "-", "*"):
            tests.append(analyse_terms.Test("whole", one))
    tests += [
        analyse_terms.Test(draw(st.sampled_from(["<", "<="])), draw(st.sampled_from(made)), draw(st.sampled_from(made))) for _ in range(2)
    ]
    return made, tests


@settings(max_examples=200, deadline=None, derandomize=True)
@given(drawn(), st.lists(numbers, min_size=3, max_size=3), st.integers(0, 5), st.integers(0, 5))
def test_numbers_and_answers_are_those_of_a_run(
    of: tuple[list[Term], list[analyse_terms.Test]], values: list[int], begin: int, more: int
) -> None:
    made, tests = of
    known = dict(zip(VARIABLES, values, strict=True))
    run, code = Run(known, begin, begin + more), PythonTerms()
    names, answer = [code.term(one) for one in made], code.tests(tests)
    found, holds = code.function([], f"([{', '.join(names)}], {answer})")(known, begin, begin + more)
    wanted = all(run.holds(test) for test in tests)
    whole = all(run.holds(test) for test in tests if test.right is None)
    assert holds == wanted if whole else not holds, "what does not fit 64 bits holds nothing"
    if whole and all(LOW <= one <= HIGH for one in found):
        assert found == [run.value(one) for one in made]
