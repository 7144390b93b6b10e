"""Trees of files: listing them, and one digest for all their names and contents, reading only what changed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import msgspec

from laminar.core import digest
from laminar.core.errors import LaminarError
from laminar.data import file_lists
from laminar.data.remember import Memory, at_rest

T = TypeVar("T")

# Lines "path\0size mtime ctime inode", the path relative and with "/". Text, because ten thousand tuples cost 10 ms more.
Listing = list[str]


class _Whole(msgspec.Struct):
    signature: str
    digest: str


class _Parts(msgspec.Struct):
    files: dict[str, msgspec.Raw]  # line of the listing -> what was learned of the file


def listing(folder: Path, suffixes: tuple[str, ...], *, prefix: str = "") -> Listing:
    """Every file below `folder` with one of the suffixes (lower case), hidden ones left out, links followed; sorted."""
    found: Listing = []
    _walk(str(folder), prefix, suffixes, found, ())
    found.sort()
    return found


def path_in(line: str) -> str:
    return line.partition("\0")[0]


def size_in(line: str) -> int:
    return _signature(line)[0]


def _walk(folder: str, prefix: str, suffixes: tuple[str, ...], found: Listing, above: tuple[tuple[int, int], ...]) -> None:
    # Names and one stat each, by descriptor: the kernel need not walk the whole path again, and no entry objects are made.
    # Together that is nearly half the time of os.scandir with paths.
    by_descriptor = os.stat in os.supports_dir_fd and os.listdir in os.supports_fd
    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY) if by_descriptor else None
        here = os.stat(folder if handle is None else handle)
        identity = (here.st_dev, here.st_ino)
        if identity in above:  # a link to a folder that contains it
            return
        for name in os.listdir(folder if handle is None else handle):
            if name[0] == ".":
                continue
            try:
                s = os.stat(os.path.join(folder, name)) if handle is None else os.stat(name, dir_fd=handle)
            except FileNotFoundError as error:
                raise LaminarError(
                    "L101",
                    f"{os.path.join(folder, name)} vanished, or is a link to nothing",
                    hint="mend or remove the link, or wait for the data",
                ) from error
            if stat.S_ISDIR(s.st_mode):
                _walk(os.path.join(folder, name), f"{prefix}{name}/", suffixes, found, (*above, identity))
            elif name.lower().endswith(suffixes):
                found.append(f"{prefix}{name}\0{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}")
    except PermissionError as error:
        raise LaminarError("L102", f"{folder} cannot be listed: {error.strerror}", hint="check its permissions") from error
    finally:
        if handle is not None:
            os.close(handle)


def tree_digest(folder: Path, files: Listing, memory: Memory, *, at: int) -> str:
    """sha256 of the relative paths and the files' contents, in the order given; `files` were listed in `folder` after `at`."""
    signature = hashlib.sha256(_bytes("\n".join(files))).hexdigest()
    name = _name("tree", folder)
    whole = memory.read(name, _Whole)
    if whole is not None and whole.signature == signature:
        return whole.digest
    known = [(path_in(line), sha) for line, sha in zip(files, file_digests(folder, files, memory, at=at), strict=True)]
    result = digest_of_files(known)
    file_lists.keep(memory, result, known)
    if all(_at_rest(line, at) and _stands(folder, line) for line in files):
        memory.write(name, _Whole(signature=signature, digest=result))
    return result


def digest_of_files(files: Iterable[tuple[str, str]]) -> str:
    """The digest of a tree from (path, sha256) of its files in their order, wherever they lie."""
    total = hashlib.sha256()
    for path, sha in files:
        total.update(_bytes(f"{path}\0{sha}\n"))
    return total.hexdigest()


def file_digests(folder: Path, files: Listing, memory: Memory | None, *, at: int) -> list[str]:
    return file_facts(folder, files, memory, str, _sha256, of="tree", at=at)


def file_facts(
    folder: Path, files: Listing, memory: Memory | None, kind: type[T], learn: Callable[[Path], T], *, of: str, at: int
) -> list[T]:
    """What `learn` says of every file, in their order; what it said before is believed while a file stands."""
    name = f"{_name(of, folder)}-files"
    before = memory.read(name, _Parts) if memory is not None else None
    known: dict[str, T] = {}
    if before is not None:
        with contextlib.suppress(msgspec.MsgspecError):
            known = {line: msgspec.json.decode(raw, type=kind) for line in files if (raw := before.files.get(line)) is not None}
    fresh = [line for line in files if line not in known]
    if fresh:
        known.update(_each(folder, fresh, learn))
        if memory is not None:
            # What changed while it was read is not remembered, nor what is too young to be told from its next version.
            resting = [line for line in files if _at_rest(line, at) and _stands(folder, line)]
            memory.write(name, _Parts(files={line: msgspec.Raw(msgspec.json.encode(known[line])) for line in resting}))
    return [known[line] for line in files]


def _name(of: str, folder: Path) -> str:
    return digest.of_json([of, 1, str(folder)])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")  # file names need not be valid text


def _signature(line: str) -> tuple[int, int, int, int]:
    size, mtime, ctime, inode = line.partition("\0")[2].split(" ")
    return int(size), int(mtime), int(ctime), int(inode)


def _at_rest(line: str, at: int) -> bool:
    return at_rest(_signature(line), at)


def _stands(folder: Path, line: str) -> bool:
    try:
        return digest.stat_signature(folder / path_in(line)) == _signature(line)
    except OSError:
        return False


def _sha256(path: Path) -> str:
    return digest.of_file(path)


def _each(folder: Path, lines: list[str], learn: Callable[[Path], T]) -> Iterable[tuple[str, T]]:
    def some(part: list[str]) -> list[tuple[str, T]]:
        return [(line, one(folder / path_in(line))) for line in part]

    def one(path: Path) -> T:
        try:
            return learn(path)
        except FileNotFoundError as error:
            raise LaminarError("L101", f"{path} vanished while it was read", hint="wait until the data is complete") from error
        except OSError as error:
            raise LaminarError("L102", f"{path} cannot be read: {error.strerror}", hint="check the file and its permissions") from error

    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for done in pool.map(some, [lines[i : i + 32] for i in range(0, len(lines), 32)]):
            yield from done
