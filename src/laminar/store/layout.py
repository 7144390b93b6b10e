"""Layout: where everything in a store lies. No other file joins paths of the store by hand.

A path is made of a digest, of the name of a run, or of a quoted name, and of nothing else: what is none of them is refused here, whoever
asks. Records are checked as they are read (names.py); this is the second lock on the same door.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, final
from urllib.parse import quote, unquote

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.permission import refusal
from laminar.store.names import LONGEST, is_digest, is_run

FORMAT: Final = 1
"""The next one is 10, and every later one has two digits or more: so one flipped bit in the file `format` never makes another format."""
FOLDERS: Final = (
    "objects",
    "layers",
    "keys",
    "refs",
    "runs",
    "features",
    "fingerprints",
    "leases",
    "plans",
    "projects",
    "tmp",
    "locks",
    "lost",
    "rollbacks",
    "sent",
    "experiments",
    "own",
)
_OWN: Final = frozenset((*FOLDERS, "format", "index", "remotes.json", ".gitignore"))
TAGS: Final = "tags"


def quoted(name: str) -> str:
    """A file name for any name: never a path, never hidden, never `tags` (the folder of tags)."""
    text = quote(name, safe=" +,@=").replace("~", "%7E")
    if text.startswith("."):
        text = "%2E" + text[1:]
    return "%74ags" if text == TAGS else text


def unquoted(name: str) -> str:
    return unquote(name)


@final
class Layout:
    """Paths of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = root / "objects"
        self.layers = root / "layers"
        self.keys = root / "keys"
        self.refs = root / "refs"
        self.tags = root / "refs" / TAGS
        self.runs = root / "runs"
        self.features = root / "features"
        self.fingerprints = root / "fingerprints"
        self.leases = root / "leases"
        self.plans = root / "plans"
        self.projects = root / "projects"
        self.tmp = root / "tmp"
        self.locks = root / "locks"
        self.lost = root / "lost"
        self.rollbacks = root / "rollbacks"
        self.sent = root / "sent"
        self.experiments = root / "experiments"
        self.own = root / "own"
        self.format = root / "format"
        self.index = root / "index"
        self.remotes = root / "remotes.json"

    def object(self, digest: str) -> Path:
        proved(digest)
        return self.objects / digest[:2] / digest[2:]

    def object_file(self, name: str) -> Path:
        """As `object`, for a name that a listing of the folder gave: something else than an object may lie there."""
        return self.objects / name[:2] / name[2:]

    def layer(self, id: str) -> Path:
        return self.layers / f"{proved(id)}.json"

    def key(self, key: str) -> Path:
        return self.keys / f"{proved(key)}.json"

    def run(self, run: str) -> Path:
        """The folder of a run."""
        return self.runs / _plain(run, "run")

    def feature(self, fkey: str) -> Path:
        """The folder of kept features."""
        return self.features / _plain(fkey, "set of kept features")

    def ref(self, name: str) -> Path:
        """`stack/layer` -> refs/<stack>/<layer>.json; the log lies beside it."""
        parts = name.split("/")
        if not all(parts):
            raise LaminarError("L008", f"{name[:LONGEST]!r} is no name for a ref: expected stack/layer", hint="laminar log")
        return self.refs.joinpath(*map(quoted, parts[:-1]), quoted(parts[-1]) + ".json")

    def tag(self, name: str) -> Path:
        return self.tags / f"{quoted(name)}.json"


def _plain(name: str, what: str) -> str:
    if not is_run(name):
        raise LaminarError("L303", f"{name[:LONGEST]!r} is no name of a {what}", hint="laminar verify --repair")
    return name


def proved(digest: str) -> str:
    """The digest; L303 for text that is none: no path is made of it."""
    if not is_digest(digest):
        raise LaminarError(
            "L303", f"{digest[:LONGEST]!r} is no sha256: expected 64 hexadecimal digits in lower case", hint="laminar verify --repair"
        )
    return digest


def open_layout(root: Path, *, create: bool, look: bool = False, damaged: bool = False) -> Layout:
    """The paths of the store at `root`, after a look at its format; made when missing and `create`.

    `look`: a store that was not made yet is taken for an empty one, and stays unmade.
    `damaged`: a store whose file `format` is lost or unreadable is opened all the same, to be verified and repaired.
    """
    layout = Layout(root)
    try:
        text = layout.format.read_bytes()
    except FileNotFoundError:
        if _looks_like_one(layout) and not create:
            if damaged:
                return layout
            raise LaminarError("L306", f"the store {root} has lost its file `format`", hint="laminar verify --repair") from None
        if not create and not look:
            raise LaminarError(
                "L306", f"{root} is not a store: it has no file `format`", hint="laminar build, or set LAMINAR_STORE"
            ) from None
        _must_be_free(layout)
        if create:
            _make(layout)
        return layout
    except (NotADirectoryError, IsADirectoryError):
        raise LaminarError("L306", f"{root} is not a store: it is not a folder", hint="set LAMINAR_STORE to a folder") from None
    except PermissionError as error:
        raise refusal(error, layout.format) from error
    number = text.strip()
    if number.isdigit() and len(number) > 1:
        raise LaminarError(
            "L306", f"the store {root} has format {int(number)}; this Laminar reads up to {FORMAT}", hint="pip install -U laminar-train"
        )
    if number != str(FORMAT).encode() and not damaged:
        shown = text[:20].decode(errors="replace")
        raise LaminarError("L306", f"{layout.format} should hold {FORMAT}, but holds {shown!r}", hint="laminar verify --repair")
    return layout


def _looks_like_one(layout: Layout) -> bool:
    """A store that lost its file `format`, unlike one whose making was cut short: that has no layers and no names yet."""
    return any(layout.layers.glob("*.json")) or any(layout.refs.glob("*/*"))


def _must_be_free(layout: Layout) -> None:
    """L306 when something else lies where the store would be made."""
    root = layout.root
    if root.exists():
        if not root.is_dir():
            raise LaminarError("L306", f"{root} is not a store: it is not a folder", hint="set LAMINAR_STORE to a folder")
        foreign = sorted(p.name for p in root.iterdir() if p.name not in _OWN and not p.name.startswith("."))
        if foreign:
            raise LaminarError(
                "L306",
                f"{root} is not a store and not empty: it holds {', '.join(foreign[:3])}",
                hint="set LAMINAR_STORE to an empty or new folder",
            )


def _make(layout: Layout) -> None:
    root = layout.root
    try:
        with atomic.explaining_os_errors(root):
            for name in FOLDERS:
                (root / name).mkdir(parents=True, exist_ok=True)
            for number in range(256):  # all at once: made one by one, each would cost a sync while weights are being saved
                (layout.objects / f"{number:02x}").mkdir(exist_ok=True)
            atomic.fsync_folder(layout.objects)
    except LaminarError as error:
        if error.code != "L302":
            raise
        raise LaminarError("L302", error.message, hint=f"{error.hint}, or set LAMINAR_STORE to a folder of your own") from error
    if not (root / ".gitignore").exists():
        atomic.write_text(root / ".gitignore", "*\n", tmp=layout.tmp)  # a store inside a project is not source
    atomic.write_text(layout.format, f"{FORMAT}\n", tmp=layout.tmp)
