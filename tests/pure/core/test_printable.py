"""What a terminal and a page are sent: text of strangers without what they would obey."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from laminar.core import printable
from laminar.core.errors import LaminarError

TITLE = "\x1b]0;owned\x07"
OBEYED = [TITLE, "\x1b[2J", "\x9b31m", "a\rb", "\x08", "\u202egnp.exe", "\u2066", "\u2028", "\U000e0041", "\x7f", "\0", "\ud800"]


@pytest.mark.parametrize("text", OBEYED)
def test_what_a_terminal_obeys_is_shown(text: str) -> None:
    for cleaned in (printable.line(text), printable.lines(text)):
        assert cleaned.isprintable()
        assert cleaned.encode("utf-8")
    assert printable.line("a\nb\tc") == "a\\nb\\tc"
    assert printable.lines("a\nb\tc\r\n") == "a\nb\tc\r\n"


def test_letters_stay() -> None:
    for text in ("größe", "журнал", "深度", "می\u200cخواهم", "👩\u200d🔬", "e\u0301"):
        assert printable.line(text) == text


def test_every_character_that_is_no_sign_is_hidden() -> None:
    """The joiners stay; and the few format characters that are drawn as signs, of Arabic numbers, music and hieroglyphs."""
    drawn = {0x200C, 0x200D, *range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x1343F)}
    drawn |= set(range(0x1BCA0, 0x1BCA4))
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Zl", "Zp") and code not in drawn:
            assert printable.line(chr(code)) != chr(code), hex(code)


@given(some.recursive(some.text() | some.integers(), lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner)))
def test_json_stays_the_same_and_json_to_look_at_can_be_looked_at(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    assert json.loads(printable.json(text)) == value
    assert printable.lines(printable.json(text)) == printable.json(text)
    shown = json.loads(printable.shown_json(text))
    assert printable.lines(json.dumps(shown, ensure_ascii=False)) == json.dumps(shown, ensure_ascii=False)
    assert json.dumps(shown) == json.dumps(_looked_at(value))


def _looked_at(value: object) -> object:
    if isinstance(value, dict):
        return {_looked_at(name): _looked_at(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_looked_at(inner) for inner in value]
    return printable.lines(value) if isinstance(value, str) else value


def test_an_error_shows_what_it_quotes() -> None:
    error = LaminarError("L403", f"no layer {TITLE}", hint=f"rm {TITLE}")
    assert "\x1b" not in str(error)
    assert error.message == "no layer \\x1b]0;owned\\x07"
    assert error.hint == "rm \\x1b]0;owned\\x07"
