"""Settings of a source: an unknown or misplaced one is an error, never ignored."""

from __future__ import annotations

from typing import Any

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.data.spec import DataSpec


def refuse_image_settings(spec: DataSpec, kind: str, *, hint: str = "") -> None:
    given = {
        "size": spec.size is not None,
        "grey": spec.grey,
        "mirrors": bool(spec.mirrors),
        "fragment": spec.fragment is not None,
        "skip_bad": spec.skip_bad,
    }
    for name in (name for name, is_given in given.items() if is_given):
        raise LaminarError(
            "L109", f"{name}: applies to folder and index sources, not to {kind}", hint=hint or f"remove {name}, or use a folder source"
        )


def refuse_args(spec: DataSpec, kind: str) -> None:
    if spec.args:
        raise LaminarError("L109", f"args.{next(iter(spec.args))}: source {kind} takes no args", hint="remove args")


def refuse_rest(rest: str, kind: str) -> None:
    if rest:
        raise LaminarError("L109", f"source: '{kind}:{rest}', but {kind} takes nothing after the colon", hint=f'source = "{kind}"')


def known_args(args: dict[str, Any], valid: dict[str, Any], kind: str) -> dict[str, Any]:
    """`args` with the defaults of `valid` filled in; names are checked, values are the source's own business."""
    for name in args:
        if name not in valid:
            raise LaminarError(
                "L109",
                f"args.{name}: source {kind} has no such argument; {did_you_mean(name, valid)}",
                hint="arguments: " + ", ".join(f"{k} = {v!r}" for k, v in valid.items()),
            )
    return {**valid, **args}


def image_shape(spec: DataSpec) -> tuple[int, int, int] | None:
    """What `shape` says of the rows of a table: channels, height and width, one channel where it names none."""
    if spec.shape is None:
        return None
    channels, height, width = [1, *spec.shape][-3:]
    return channels, height, width


def column_args(args: dict[str, Any]) -> tuple[str | int | None, list[str | int] | None]:
    """args.label and args.columns of a table, each a column's name or number; None where not given."""
    label, columns = args["label"], args["columns"]
    if label is not None and (isinstance(label, bool) or not isinstance(label, str | int)):
        raise LaminarError("L109", f"args.label: {label!r}, expected a column's name or number", hint='args = { label = "kind" }')
    if columns is not None and (
        not isinstance(columns, list) or not columns or any(isinstance(c, bool) or not isinstance(c, str | int) for c in columns)
    ):
        raise LaminarError(
            "L109",
            f"args.columns: {columns!r}, expected a list of columns, by name or number",
            hint='args = { columns = ["width", "height"] }',
        )
    return label, columns
