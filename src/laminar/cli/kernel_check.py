"""Read a kernel, check it against the rules of the language, and say what can be told of it without running it.

Every access is proved to stay within its array and to meet no other instance, or has a witness (instances that meet, an index that is
outside), or is checked when the kernel runs. The emulator has confirmed each witness that is shown. Assumptions of the kernel
(`#pragma laminar assume`) are shown and relied on here; each call is checked for them. A broken rule or a witness ends with exit code 2.
A file's `kernel_backward` is checked, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from laminar.cli.kernel_params import File
from laminar.cli.output import Json, print_json, say, table
from laminar.core.errors import LaminarError
from laminar.core.kernel_files import KernelName

if TYPE_CHECKING:
    from laminar.kernels.analyse.verdicts import Verdict
    from laminar.kernels.language.tree import Kernel


def run(file: File, json: Json = False) -> None:
    from laminar.kernels.open_file import kernel_of, need_extra, read_text

    need_extra()
    from laminar.kernels.analyse.verdicts import check, verdicts
    from laminar.kernels.derive.by_hand import by_hand
    from laminar.kernels.language.rules import KernelError, excerpt

    text = read_text(file)
    name = KernelName.of(text, file.name)
    found: list[tuple[Kernel, list[Verdict]]] = []
    error: KernelError | None = None
    try:
        kernel: Kernel | None = kernel_of(text, file.name)
        while kernel is not None:
            check(kernel, file.name)
            found.append((kernel, verdicts(kernel)))
            kernel = by_hand(kernel, file.name) if len(found) == 1 else None
    except KernelError as caught:
        error = caught
    if json:
        kernels = [_shown(kernel, told) for kernel, told in found]
        print_json({"file": file.as_posix(), "sha256": name.sha256, "error": error.to_json() if error else None, "kernels": kernels})
    elif error is None:
        for kernel, told in found:
            _say(kernel, told)
        say(f"sha256 {name.sha256}")
    if error is not None:
        raise error
    shows = [one for _, told in found for one in told if one.verdict == "witness"]
    if shows:
        said = [f"{file.name}:{one.text}\n{excerpt(text, one.at)}" for one in shows]
        raise LaminarError("L703", "\n".join(said), hint=f"laminar kernel run {file} shows it as it happens")


def _shown(kernel: Kernel, verdicts: list[Verdict]) -> dict[str, object]:
    from laminar.kernels.arguments import parameters
    from laminar.kernels.language.print import show

    assumed = [show(one) for one in kernel.assumptions]
    return {
        "name": kernel.name,
        "parameters": parameters(kernel),
        "assumes": assumed,
        "verdicts": [{"other": None} | one.to_json() for one in verdicts],
    }


def _say(kernel: Kernel, verdicts: list[Verdict]) -> None:
    from laminar.kernels.arguments import parameters
    from laminar.kernels.language.print import show

    heads = ["declared", "role", "mode"]
    table(f"{kernel.name}:", heads, [[str(one[head] or "") for head in heads] for one in parameters(kernel)])
    for assumption in kernel.assumptions:
        say(f"{assumption.at.line}:{assumption.at.column}: assumes {show(assumption)}: checked in each call")
    for one in verdicts:
        say(one.text)
    counts = {answer: sum(one.verdict == answer for one in verdicts) for answer in ("proved", "witness", "run-time")}
    say(f"{counts['proved']} proved, {counts['run-time']} checked as it runs, {counts['witness']} with a witness")
