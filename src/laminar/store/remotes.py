"""Remotes: names for URLs, and the URLs that were used, so that repair knows where to look. Kept in remotes.json, readable by its owner."""

from __future__ import annotations

import os
import re
from typing import Final, final

from laminar.core import atomic
from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.core.places import BINARY
from laminar.store import records
from laminar.store.drivers import must_be_url
from laminar.store.store import Store

_NAME: Final = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


@final
class Remotes:
    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self) -> dict[str, str]:
        """Name -> URL."""
        return dict(self._read()[0])

    def used(self) -> list[str]:
        """Every URL that is known, last used first."""
        named, used = self._read()
        return list(dict.fromkeys([*used, *named.values()]))

    def add(self, name: str, url: str) -> None:
        if not _NAME.match(name):
            raise LaminarError(
                "L008", f"{name!r} is no name for a remote: expected letters, digits, . _ -", hint="laminar remote add lab URL"
            )
        must_be_url(url)
        with self._store.lock("remotes"):
            named, used = self._read()
            self._write({**named, name: url}, used)

    def remove(self, name: str) -> None:
        with self._store.lock("remotes"):
            named, used = self._read()
            if name not in named:
                raise LaminarError("L006", f"there is no remote {name!r}; {did_you_mean(name, named)}", hint="laminar remote list")
            gone = named.pop(name)
            self._write(named, [url for url in used if url != gone])

    def url(self, text: str) -> str:
        """The URL behind a name; a URL or a path is returned as it is. L006 for a word that is neither."""
        named = self._read()[0]
        if text in named:
            return named[text]
        if "://" in text or "/" in text or text.startswith((".", "~")):
            return text
        raise LaminarError(
            "L006",
            f"there is no remote {text!r}; {did_you_mean(text, named)}",
            hint=f"laminar remote add {text} URL, or write ./{text} for a folder",
        )

    def note_use(self, url: str) -> None:
        """For repair. A store that may not be written remembers nothing."""
        if self._store.read_only:
            return
        with self._store.lock("remotes"):
            named, used = self._read()
            if used[:1] != [url]:
                self._write(named, [url, *(old for old in used if old != url)][:32])

    def _read(self) -> tuple[dict[str, str], list[str]]:
        content = records.read(self._store.layout.remotes) or {}
        return dict(content.get("named", {})), list(content.get("used", []))

    def _write(self, named: dict[str, str], used: list[str]) -> None:
        """A URL may hold a password: the file is its owner's alone from the first moment on, not once it has been renamed."""
        path = self._store.layout.remotes
        temp = self._store.objects.temporary(path.name)
        with atomic.explaining_os_errors(path):
            temp.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o600)
            try:
                with open(fd, "wb") as file:
                    file.write(records.dump({"named": named, "used": used}))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temp, path)
            finally:
                temp.unlink(missing_ok=True)
            atomic.fsync_folder(path.parent)
