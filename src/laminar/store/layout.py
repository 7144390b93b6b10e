"""Layout: where everything in a store lies. No other file joins paths of the store by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Final, final
from urllib.parse import quote, unquote

from laminar.core import atomic
from laminar.core.errors import LaminarError

FORMAT: Final = 1
FOLDERS: Final = (
    "objects",
    "layers",
    "keys",
    "refs",
    "runs",
    "features",
    "fingerprints",
    "leases",
    "projects",
    "tmp",
    "locks",
    "lost",
    "rollbacks",
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
        self.projects = root / "projects"
        self.tmp = root / "tmp"
        self.locks = root / "locks"
        self.lost = root / "lost"
        self.format = root / "format"
        self.index = root / "index"
        self.remotes = root / "remotes.json"

    def object(self, digest: str) -> Path:
        return self.objects / digest[:2] / digest[2:]

    def layer(self, id: str) -> Path:
        return self.layers / f"{id}.json"

    def key(self, key: str) -> Path:
        return self.keys / f"{key}.json"

    def ref(self, name: str) -> Path:
        """`stack/layer` -> refs/<stack>/<layer>.json; the log lies beside it."""
        return self.refs.joinpath(*map(quoted, name.split("/"))).with_name(quoted(name.split("/")[-1]) + ".json")

    def tag(self, name: str) -> Path:
        return self.tags / f"{quoted(name)}.json"


def open_layout(root: Path, *, create: bool) -> Layout:
    """The paths of the store at `root`, after a look at its format; made when missing and `create`."""
    layout = Layout(root)
    try:
        text = layout.format.read_text().strip()
    except FileNotFoundError:
        if not create:
            raise LaminarError(
                "L306", f"{root} is not a store: it has no file `format`", hint="laminar build, or set LAMINAR_STORE"
            ) from None
        _make(layout)
        return layout
    except (NotADirectoryError, IsADirectoryError):
        raise LaminarError("L306", f"{root} is not a store: it is not a folder", hint="set LAMINAR_STORE to a folder") from None
    except UnicodeDecodeError:
        text = "?"
    except PermissionError as error:
        raise LaminarError(
            "L302", f"may not read {layout.format}: {error.strerror}", hint="set LAMINAR_STORE to a folder you own"
        ) from error
    if not text.isdigit():
        raise LaminarError(
            "L306", f"{layout.format} should hold {FORMAT}, but holds {text[:20]!r}", hint=f"echo {FORMAT} > {layout.format}"
        )
    if int(text) > FORMAT:
        raise LaminarError(
            "L306", f"the store {root} has format {text}; this Laminar reads up to {FORMAT}", hint="pip install --upgrade laminar"
        )
    return layout


def _make(layout: Layout) -> None:
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
    with atomic.explaining_os_errors(root):
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(256):  # all at once: made one by one, each would cost a sync while weights are being saved
            (layout.objects / f"{number:02x}").mkdir(exist_ok=True)
        atomic.fsync_folder(layout.objects)
    if not (root / ".gitignore").exists():
        atomic.write_text(root / ".gitignore", "*\n", tmp=layout.tmp)  # a store inside a project is not source
    atomic.write_text(layout.format, f"{FORMAT}\n", tmp=layout.tmp)
