"""A PostgreSQL server of one's own, in a temporary folder, on a socket that only this machine's user can reach: for tests that need one."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def programs() -> Path | None:
    """The folder with initdb and pg_ctl; None where PostgreSQL is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    return next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)


@contextlib.contextmanager
def postgres(*options: str) -> Iterator[str]:
    """The address of an empty database. It ends with the block, whatever happens in it."""
    bin = programs()
    assert bin is not None
    folder = Path(tempfile.mkdtemp(prefix="laminar-pg-", dir="/tmp"))
    quiet = _quietly(folder)
    if "user" in quiet:
        os.chown(folder, quiet["user"], quiet["group"])
    os.chmod(folder, 0o700)
    data = folder / "data"
    settings = ["-c", f"unix_socket_directories={folder}", "-c", "listen_addresses=", *(word for one in options for word in ("-c", one))]
    try:
        subprocess.run([bin / "initdb", "-D", data, "-U", "laminar", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"], **quiet)
        subprocess.run([bin / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", " ".join(settings), "start"], **quiet)
        try:
            yield f"postgresql+psycopg://laminar@/postgres?host={folder}"
        finally:
            subprocess.run([bin / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"], **quiet)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def restart(url: str) -> None:
    """As if its machine had lost power: connections break, and it recovers from its log."""
    bin, folder = programs(), Path(url.rpartition("host=")[2])
    assert bin is not None
    subprocess.run([bin / "pg_ctl", "-D", folder / "data", "-m", "immediate", "-w", "-l", folder / "log", "restart"], **_quietly(folder))


def _quietly(folder: Path) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to be root
        user = pwd.getpwnam("nobody")
        more = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True, "cwd": folder, **more}
