"""docs/ref-kernel-language.md: every rule with a kernel that breaks it and one that does not; every function, constant and word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from laminar.kernels.analyse.verdicts import check
from laminar.kernels.derive.by_hand import by_hand
from laminar.kernels.language.declarations import LOCAL_BYTES, SHARED_BYTES
from laminar.kernels.language.expressions import DEEPEST
from laminar.kernels.language.intrinsics import ATOMICS, CONSTANTS, INTRINSICS, TESTS
from laminar.kernels.language.kernel import read_kernel
from laminar.kernels.language.rules import RULES, KernelError
from laminar.kernels.language.text import HEADERS, PRAGMAS, WORDS

PAGE = (Path(__file__).parents[3] / "docs" / "ref-kernel-language.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (K\d\d) .*?$(.*?)(?=^### |\Z)", PAGE, re.M | re.S))


def kernels(text: str) -> list[str]:
    return re.findall(r"^```c\n(.*?)^```", text, re.M | re.S)


def test_every_rule_has_a_section() -> None:
    assert list(SECTIONS) == list(RULES)
    assert [f"### {rule} {text}\n" in PAGE for rule, text in RULES.items()] == [True] * len(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_examples_of_a_rule(rule: str) -> None:
    bad, good = kernels(SECTIONS[rule])
    with pytest.raises(KernelError) as caught:
        all_checked(bad)
    assert caught.value.rule == rule
    all_checked(good)


def all_checked(text: str) -> None:
    """As `kernel check` does."""
    kernel = read_kernel(text)
    for one in (kernel, by_hand(kernel, "kernel.c")):
        if one is not None:
            check(one)


def test_the_first_example() -> None:
    check(read_kernel(kernels(PAGE)[0]))


def test_functions_constants_and_words_are_all_there() -> None:
    named = set(re.findall(r"`([A-Za-z_]\w*(?:\.h)?)`", PAGE))
    functions = {one for one in INTRINSICS if not (one.endswith("f") and one[:-1] in INTRINSICS)}
    assert functions | set(CONSTANTS) | TESTS <= named
    assert {word for word in (*ATOMICS, *WORDS, *PRAGMAS, *HEADERS) if word not in PAGE} == set()
    assert f"{LOCAL_BYTES >> 10} kB" in PAGE and f"{SHARED_BYTES >> 20} MB" in PAGE and f"at most {DEEPEST} operators" in PAGE
