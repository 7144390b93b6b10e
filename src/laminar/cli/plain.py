"""Plain parameters: words and paths are taken from the command line as they are.

typer (since 0.28) makes a pydantic validator for every parameter, and loading pydantic takes longer than all that a build with
nothing to do does. A word is a word without it. What is more than a word or a path (numbers, bounds) goes typer's way.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from typer import Abort
from typer.core import TyperCommand, TyperGroup

_WORDS: Final = (str, Path)
_BECOMES: Final[dict[Any, Any]] = {list[str]: str, list[Path]: Path}  # annotation: what each of the words becomes


ALONE: Final = "alone"  # the value of an option that may stand without one
_OPTIONAL: Final = {"--elastic": re.compile(r"\d+:\d+")}  # and what its value looks like: anything else is the next word


def _alone(words: list[str]) -> list[str]:
    """An option that stands without its value gets one that says so: click has no such options."""
    return [
        f"{word}={ALONE}" if word in _OPTIONAL and not _OPTIONAL[word].fullmatch(after) else word
        for word, after in zip(words, [*words[1:], ""], strict=True)
    ]


class PlainCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _alone(args) if args else args)

    def get_params(self, ctx: Any) -> Any:
        return [_plain(param) for param in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        return [_plain(param) for param in super().get_params(ctx)]

    def make_context(self, *args: Any, **more: Any) -> Any:
        with _ctrl_c_is_heard():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _ctrl_c_is_heard():
            return super().invoke(ctx)


@contextlib.contextmanager
def _ctrl_c_is_heard() -> Iterator[None]:
    """typer leaves with 130 and says nothing; its own word for it, which older ones use, reaches whoever speaks (verbs.py)."""
    try:
        yield
    except KeyboardInterrupt:
        raise Abort from None


def _plain(param: Any) -> Any:
    """The parameter, reading the same values without a validator where it can. An older typer has none, and is left as it is."""
    described = getattr(param, "type_descriptor", None)
    if described is not None and "process_value" not in vars(param):
        info = described.parameter_info
        bounded = info.parser or info.exists or info.resolve_path or info.min is not None or info.max is not None
        kind = None if bounded else _BECOMES.get(described.annotation, described.annotation)
        param.process_value = partial(_process, param, kind, param.process_value)
    return param


def _process(param: Any, kind: Any, validated: Any, ctx: Any, value: Any) -> Any:
    many = param.multiple or param.nargs == -1
    if value is None and not param.required:
        found: Any = () if many else None
    elif kind in _WORDS and many and isinstance(value, list | tuple) and value:
        found = [kind(item) for item in value]
    elif kind in _WORDS and not many and isinstance(value, str | Path):
        found = kind(value)
    elif kind is not None and type(value) is kind:  # a default
        found = value
    else:
        return validated(ctx, value)
    return found if param.callback is None else param.callback(ctx, param, found)
