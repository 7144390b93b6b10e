"""What a kernel consists of, before it runs: its data objects with their types, memory and lines, and its operators as a tree.

The kernel is shown as it was read: functions stand in place of their calls, pointers are the variables and elements that they point at,
and conversions are casts. A file's `kernel_backward` is shown, too.

laminar kernel show leaky.c
laminar kernel show leaky.c --json
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laminar.cli.kernel_params import File
from laminar.cli.output import Json, print_json, say, table
from laminar.core.kernel_files import KernelName

if TYPE_CHECKING:
    from laminar.kernels.language.tree import Kernel


def run(file: File, json: Json = False) -> None:
    from laminar.kernels.derive.by_hand import by_hand
    from laminar.kernels.open_file import kernel_of, read_text

    text = read_text(file)
    kernel = kernel_of(text, file.name)
    adjoint = by_hand(kernel, file.name)
    kernels = [kernel] if adjoint is None else [kernel, adjoint]
    if json:
        print_json({"file": file.as_posix(), "sha256": KernelName.of(text, file.name).sha256, "kernels": [_shown(one) for one in kernels]})
        return
    for number, one in enumerate(kernels):
        if number:
            say("")
        _say(one)


def _shown(kernel: Kernel) -> dict[str, Any]:
    from laminar.kernels.language.outline import objects_of, tree_of

    return {"name": kernel.name, "objects": [one.to_json() for one in objects_of(kernel)], "tree": tree_of(kernel).to_json()}


def _say(kernel: Kernel) -> None:
    from laminar.kernels.language.outline import objects_of, tree_of, tree_text

    rows = []
    for one in objects_of(kernel):
        size = "" if one.bytes is None else f"{one.bytes:,}"
        role = f"{one.role}, {one.mode}" if one.mode else one.role
        place = f"{one.at.line}:{one.at.column}"
        rows.append([one.name, one.type, "".join(f"[{size}]" for size in one.shape), role, one.memory, size, place, _lines(one.read_in)])
        rows[-1].append(_lines(one.written_in))
    columns = ["object", "type", "shape", "role", "memory", "bytes", "place", "read in lines", "written in lines"]
    table(f"{kernel.name}:", columns, rows, right=["bytes"])
    say("")
    say(tree_text(tree_of(kernel)))


def _lines(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
