"""The structure of a model: canonical text of its graphs, and the digest of that text.

Values are numbers, tensors go by their names, constants by the digest of their content, modules by their paths. Not in it: names of
classes, files, lines, tracing's names, sizes of the example, weights. Two sources that do the same in the same modules give the same text.
"""

from __future__ import annotations

from typing import Any

import torch

from laminar.core import digest
from laminar.model.graph_ir import Attr, Body, Enter, Ref, Spec, Tree


def structure(train: Tree, evaluation: Tree) -> str:
    """sha256 of both forms' text."""
    return digest.of_json({"train": text(train), "eval": text(evaluation)})


def text(tree: Tree) -> str:
    lines = []
    for path in sorted(tree.bodies):
        for number, body in enumerate(tree.bodies[path]):
            lines.append(f"module {path!r} call {number}:")
            lines += ["  " + line for line in _body(body)]
    names = sorted({f"{a.kind} {a.name}" for a in tree.flat.tensors.values()})
    return "\n".join([*lines, "tensors:", *("  " + name for name in names)]) + "\n"


def _body(body: Body) -> list[str]:
    lines = [f"in {_spec(body.in_spec)} {_many(body.inputs)}" + (f" beside {_many(body.more_in)}" if body.more_in else "")]
    for step in body.steps:
        grad = "" if step.grad is None else f" grad={step.grad}"
        if isinstance(step, Enter):
            call = f"call {step.call.path!r} {step.call.number} {_spec(step.signature.in_spec)} {_value(step.signature.inputs)}"
            beside = f" beside {_value(step.more_in)} -> {_many(step.more_out)}" if step.more_in or step.more_out else ""
            lines.append(f"{_many(step.outs)} = {call}{beside} -> {_spec(step.signature.out_spec)}{grad}")
        else:
            named = "".join(f", {name}={_value(value)}" for name, value in sorted(step.kwargs))
            lines.append(f"{_many(step.outs)}{'*' if step.listed else ''} = {step.target}({_value(step.args)}{named}){grad}")
    for buffer, value in body.writes:
        lines.append(f"{buffer} := {_value(value)}")
    lines.append(f"out {_spec(body.out_spec)} {_value(body.outputs)}" + (f" beside {_many(body.more_out)}" if body.more_out else ""))
    return lines


def _value(value: Any) -> str:
    if isinstance(value, Ref):
        return f"%{value.name}"
    if isinstance(value, Attr):
        return f"@{value.kind}:{value.name}"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, torch.device):
        return f"device:{value.type}"
    return repr(value)


def _many(slots: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("-" if slot is None else f"%{slot}" for slot in slots) + ")"


def _spec(spec: Spec) -> str:
    if spec.kind == "leaf":
        return "."
    parts = ", ".join(_spec(part) for part in spec.parts)
    return f"{spec.kind}{list(spec.keys) if spec.keys else ''}<{parts}>"
