"""Remotes: names for URLs, and the URLs that were used, so that repair knows where to look. Kept in remotes.json, readable by its owner."""

from __future__ import annotations

import contextlib
import re
from typing import Final, final

from laminar.core.errors import LaminarError
from laminar.core.nearest import did_you_mean
from laminar.store import records
from laminar.store.layout import Layout
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
        with self._store.lock("remotes"):
            named, used = self._read()
            if used[:1] != [url]:
                self._write(named, [url, *(old for old in used if old != url)][:32])

    def _read(self) -> tuple[dict[str, str], list[str]]:
        content = records.read(self._store.layout.remotes) or {}
        return dict(content.get("named", {})), list(content.get("used", []))

    def _write(self, named: dict[str, str], used: list[str]) -> None:
        layout: Layout = self._store.layout
        records.write(layout.remotes, {"named": named, "used": used}, tmp=layout.tmp)
        with contextlib.suppress(OSError):
            layout.remotes.chmod(0o600)  # a URL may hold a password
