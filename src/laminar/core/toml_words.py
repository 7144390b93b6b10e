"""Types as the user of a TOML file knows them: a table, a list, text. Said where a decoder speaks of `object | null`."""

from __future__ import annotations

import re

_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "datetime": "a date with a time",
    "date": "a date",
    "time": "a time",
}


def in_toml_words(said: str) -> str:
    """``Expected `int | null`, got `str` `` becomes `expected a whole number, got text`."""
    spoken = re.sub(r"`([^`]*)`", lambda found: _types(found[1]), said)
    return spoken[:1].lower() + spoken[1:]


def _types(text: str) -> str:
    names = text.split(" | ")
    if not all(name in _WORDS or name == "null" for name in names):
        return text  # the name of a key
    known = [_WORDS[name] for name in names if name != "null"]  # TOML has no null: what is optional is left out
    return " or ".join(known) or "nothing"
