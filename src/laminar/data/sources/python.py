"""python:module:function: the project's own function, called with `args`.

It returns (x, y), (x_train, y_train, x_test, y_test) or a laminar.data.dataset.Dataset. Its fingerprint is the digest of what
it returned; that is believed while its code, its arguments and every file it opened stand. A function that draws without a seed
would make keys that mean nothing, so one that is quick is called twice when it is first seen.
"""

from __future__ import annotations

import inspect
import json
import os
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import msgspec

from laminar.core import digest
from laminar.core.closure import module_file, reach
from laminar.core.declared import declared
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.core.observe import ChangedMeanwhile, Looking, place, state
from laminar.core.project_code import import_from
from laminar.core.search_path import version
from laminar.data.augment_fit import sides_of
from laminar.data.remember import at_rest
from laminar.data.sources.protocol import Contents, Opening
from laminar.data.sources.settings import refuse_image_settings
from laminar.data.spec import DataSpec

if TYPE_CHECKING:
    from laminar.data.dataset import Opened
    from laminar.data.remember import Memory

CHEAP_SECONDS = 1.0  # a function that takes longer, or returns more, is not called a second time only to see whether it repeats
CHEAP_BYTES = 64 << 20
_SHAPES = "(x, y), (x_train, y_train, x_test, y_test) or a Dataset"


class _Ran(msgspec.Struct):
    """One remembered call: for what code and arguments, what it looked at, and what came out."""

    question: str
    looked: dict[str, str]  # tag -> what it was like (core/observe.py)
    contents: Contents
    unseen: list[str] = []  # what it did where it cannot be seen
    unproved: str = ""  # why it is not known to return the same each time


@final
class PythonSource:
    kind: ClassVar[str] = "python"

    def __init__(self, spec: DataSpec, rest: str, root: Path) -> None:
        refuse_image_settings(spec, self.kind)
        self._module, _, self._function = rest.partition(":")
        if not self._module or not self._function:
            raise LaminarError("L109", f"source: '{spec.source}' names no function", hint='source = "python:module:function"')
        self._args, self._root, self._where = dict(spec.args), root, spec.where
        self._reads, self._env = spec.reads, spec.env
        file = module_file(self._module, root)
        if file is None:
            words = [path.stem for path in root.glob("*.py")]
            raise LaminarError(
                "L101",
                f"source: there is no module {self._module} at {root.absolute() / self._module.replace('.', os.sep)}.py; "
                + did_you_mean(self._module, words),
                hint="the module lies beside laminar.toml, or in a folder there",
            )
        self._file = file

    def contents(self, memory: Memory) -> Contents:
        ran = self._remembered(memory)
        return ran.contents if ran is not None else self._run(memory)[1].contents

    def open(self, how: Opening) -> Opened:
        memory = how.memory
        if memory is None:
            return self._call()
        fresh = _TAKEN_OVER.pop(self._name(), None)
        if fresh is not None and self._remembered(memory, young=fresh[0]) is not None:
            ran, opened = fresh
        else:
            opened, ran = self._run(memory, before=self._remembered(memory), hand_over=False)
        if ran.unseen and not (self._reads or self._env):
            for what in ran.unseen:
                said = f"warning: {self._where} {what}: a change of what it learns there would not be seen; name it under reads or env"
                how.notes.append(f"{said} of the data")
        if ran.unproved:
            how.notes.append(f"{self._where} was called once only ({ran.unproved}): that it returns the same each time is not proved")
        return opened

    def _name(self) -> str:
        return digest.of_json(["python", 1, str(self._root.resolve()), self._module, self._function, self._args])

    def _question(self) -> str:
        said = declared(self._reads, self._env, self._root, _quick)
        order = json.dumps(self._args)  # the function sees it
        reached = reach(self._module, None, self._root)
        versions = {name: version(name) for name in sorted(reached.libraries)}
        return digest.of_json([reached.sources, versions, self._function, order, said])

    def _remembered(self, memory: Memory, young: _Ran | None = None) -> _Ran | None:
        ran = young or memory.read(self._name(), _Ran)
        if ran is None or ran.question != self._question():
            return None
        root = self._root.resolve()
        return ran if all(state(tag, root, _quick) == was for tag, was in ran.looked.items()) else None

    def forget(self, memory: Memory) -> None:
        """The next time it is asked for, the function is called, whatever was seen of it. What then comes out otherwise, is told."""
        before = self._remembered(memory)
        if before is not None:
            _FORGOTTEN[self._name()] = before
            memory.forget(self._name())

    def _run(self, memory: Memory, *, before: _Ran | None = None, hand_over: bool = True) -> tuple[Opened, _Ran]:
        from laminar.data.formats.content import opened_digest

        at = memory.now_ns()
        question = self._question()
        with Looking(self._root) as looking:
            start = time.perf_counter()
            opened = self._call()
            seconds = time.perf_counter() - start
            contents = Contents(
                digest=opened_digest(opened),
                classes=opened.classes,
                own_test=opened.test is not None,
                sides=sides_of(opened.train.x.shape[1:]),
            )
            if before is not None and before.contents.digest != contents.digest:
                memory.forget(self._name())
                self._same(contents.digest, opened_digest(self._call()))
                raise LaminarError(
                    "L108",
                    f"{self._where} returned other data than before, though its code, its arguments and all that it was seen to read are "
                    "the same: it reads something that Laminar does not see",
                    hint="laminar build again takes what it returns now; name what it reads under reads or env of the data",
                )
            unproved = "" if before is not None else self._prove(question, opened, contents.digest, seconds)
        try:
            looked = looking.settle(_quick)
        except ChangedMeanwhile as change:
            raise LaminarError(
                "L102", f"{self._where}: {change} changed while it was read", hint="laminar build again when it is at rest"
            ) from None
        ran = _Ran(question=question, looked=looked, contents=contents, unseen=looking.unseen, unproved=unproved)
        forgotten = _FORGOTTEN.pop(self._name(), None)
        if forgotten is not None and forgotten.question == question and forgotten.contents.digest != contents.digest:
            unchanged = all(looked.get(tag) == was for tag, was in forgotten.looked.items())
            if unchanged:
                ran.unseen = [*ran.unseen, "returned other data than before, though all it was seen to read is the same"]
        root = self._root.resolve()
        if all(_file_at_rest(str(place(tag.partition(":")[2], root)), at) for tag in looked if tag.startswith(("file:", "source:"))):
            memory.write(self._name(), ran)
        if hand_over:
            # The next open of the same data takes it over, so that a slow function runs once for key and training.
            _TAKEN_OVER.clear()
            _TAKEN_OVER[self._name()] = (ran, opened)
        return opened, ran

    def _prove(self, question: str, opened: Opened, result: str, seconds: float) -> str:
        """Call it again where that is cheap, and refuse it if something else comes out; why not, where it is not cheap."""
        from laminar.data.formats.content import opened_digest

        answer = digest.of_json([self._name(), question, result])
        if answer in _PROVED:
            return ""
        if seconds > CHEAP_SECONDS:
            return f"it took {seconds:.1f} s"
        size = sum(split.x.nbytes + split.y.nbytes for split in (opened.train, opened.test) if split is not None)
        if size > CHEAP_BYTES:
            return f"it returned {size / 1e6:.0f} MB"
        self._same(result, opened_digest(self._call()))
        _PROVED.add(answer)
        return ""

    def _same(self, before: str, now: str) -> None:
        if before != now:
            raise LaminarError(
                "L108",
                f"{self._where} returned other data than before, though its code, its arguments and the files it read are the same",
                hint="make it a function of its arguments: pass a seed in args and use it for every random choice",
            )

    def _call(self) -> Opened:
        try:
            module = import_from(self._root, self._module, fresh=True)
        except (Exception, SystemExit) as error:  # code that calls exit() must not end a build as if it were done
            raise self._failed("could not be imported", error) from error
        function = getattr(module, self._function, None)
        if not callable(function):
            words = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise LaminarError(
                "L108",
                f"{self._file} has no function '{self._function}'; {did_you_mean(self._function, words)}",
                hint='source = "python:module:function"',
            )
        self._check_args(function)
        try:
            result = function(**self._args)
        except LaminarError:
            raise
        except (Exception, SystemExit) as error:  # code that calls exit() must not end a build as if it were done
            raise self._failed("failed", error) from error
        return self._assembled(result)

    def _check_args(self, function: Any) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some callables written in C tell nothing
            return
        try:
            signature.bind(**self._args)
        except TypeError as error:
            known = list(signature.parameters)
            strange = next((name for name in self._args if name not in known), None)
            word = f"; {did_you_mean(strange, known)}" if strange else ""
            raise LaminarError(
                "L109", f"args: {self._where} takes {self._function}{signature}: {error}{word}", hint="correct args in the [data] section"
            ) from error

    def _assembled(self, result: Any) -> Opened:
        from laminar.data.dataset import Dataset, Opened
        from laminar.data.sources.arrays import assemble
        from laminar.data.wellformed import check_opened

        if isinstance(result, Opened):
            opened = result
        elif isinstance(result, Dataset):
            opened = Opened(result.train, result.test, result.classes)
        elif isinstance(result, tuple | list) and len(result) in (2, 4):
            opened = assemble([(result[i], result[i + 1]) for i in range(0, len(result), 2)], self._where)
        else:
            what = f"{type(result).__name__} of {len(result)}" if isinstance(result, tuple | list) else type(result).__name__
            raise LaminarError("L108", f"{self._where} returned a {what}, expected {_SHAPES}", hint=f"return {_SHAPES}")
        check_opened(opened, self._where)
        return opened

    def _failed(self, how: str, error: BaseException) -> LaminarError:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(self._root.resolve())]
        at = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        return LaminarError("L108", f"{self._where} {how}{at}: {type(error).__name__}: {error}", hint="correct the function, or its args")


_TAKEN_OVER: dict[str, tuple[_Ran, Opened]] = {}
_FORGOTTEN: dict[str, _Ran] = {}
_PROVED: set[str] = set()  # what functions gave twice in this process


def _quick(path: Path) -> str:
    """A fact that changes with a file: data functions are called again for it, which is no harm."""
    return " ".join(map(str, digest.stat_signature(path)))


def _file_at_rest(path: str, at: int) -> bool:
    try:
        return at_rest(digest.stat_signature(path), at)
    except OSError:
        return True
