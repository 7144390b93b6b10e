"""A mirror over FTP: one control connection kept, a data connection for each place at which it begins; it goes on behind a piece."""

from __future__ import annotations

import contextlib
import ftplib
import socket
from collections.abc import Generator
from typing import Final, final
from urllib.parse import unquote, urlsplit

from laminar.data.mirrors.faults import Fault, Kind
from laminar.data.mirrors.readers.protocol import BLOCK, Ask, Timeouts
from laminar.data.mirrors.readers.reach import dial, restricted
from laminar.data.mirrors.readers.socket_faults import connecting, shut

_GONE: Final = (EOFError, ConnectionError)
_TOO_MANY: Final = ("421", "425")


class _Dialled(ftplib.FTP):
    """ftplib's makes its connection itself. Data connections go to the address that this one has, whatever the server says."""

    def __init__(self, only_public: bool) -> None:
        super().__init__()
        self._only_public = only_public

    def connect(self, host: str = "", port: int = 0, timeout: float = -999, source_address: tuple[str, int] | None = None) -> str:  # noqa: ARG002
        self.host, self.port, self.timeout = host, port, timeout
        self.sock = dial(host, port, timeout, only_at_public=self._only_public)
        self.af = self.sock.family
        self.file = self.sock.makefile("r", encoding=self.encoding)
        self.welcome: str = self.getresp()
        return self.welcome


@final
class FtpReader:
    def __init__(self, url: str, timeouts: Timeouts) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 21
        self._user, self._password = unquote(parts.username or "anonymous"), unquote(parts.password or "")
        self._root = unquote(parts.path).rstrip("/")
        self._timeouts = timeouts
        self._only_public = restricted()
        self._ftp: ftplib.FTP | None = None
        self._data: socket.socket | None = None
        self._path, self._at = "", 0  # where the data connection stands
        self._rest, self._tried = True, False  # it can begin in the middle; this is known

    def stream(self, ask: Ask) -> Generator[bytes, None, None]:
        complete = False
        try:
            data = self._stand_at(ask)
            while self._at < ask.start:
                block = self._receive(data, min(BLOCK, ask.start - self._at))
                if not block:
                    self._ended(self._at)
                    raise Fault(Kind.SHORT, f"ends after {self._at:,} bytes")
                assert ask.skip is not None
                ask.skip(len(block))
            while ask.end is None or self._at < ask.end:
                block = self._receive(data, BLOCK if ask.end is None else min(BLOCK, ask.end - self._at))
                if not block:
                    self._ended(ask.end)
                    if ask.end is None:
                        break
                    raise Fault(Kind.SHORT, f"ends after {self._at:,} bytes, not {ask.end:,}")
                yield block
            if self._data is not None and ask.end == ask.size:  # what must come now is the end
                if self._receive(data, 1):
                    raise Fault(Kind.SHORT, f"is longer than {ask.size:,} bytes")
                self._ended(ask.end)
            complete = True
        finally:
            if not complete:
                self.close()

    def abort(self) -> None:
        data, ftp = self._data, self._ftp  # the other thread may take them away
        for sock in (data, ftp.sock if ftp is not None else None):
            if sock is not None:
                shut(sock)

    def close(self) -> None:
        """Without a farewell: a server that is gone, or in the middle of something, would let us wait."""
        data, self._data = self._data, None
        if data is not None:
            data.close()
        ftp, self._ftp = self._ftp, None
        if ftp is not None:
            ftp.close()

    def _stand_at(self, ask: Ask) -> socket.socket:
        """A data connection that gives the bytes from `start` on, or from before it, if that may be."""
        if self._data is not None:
            if self._path == ask.path and (self._at == ask.start or (self._at < ask.start and ask.skip is not None and not self._rest)):
                return self._data
            self._leave()
        if ask.start and not self._rest and ask.skip is None:
            raise Fault(Kind.WHOLE, "cannot begin in the middle of a file")
        for fresh in (False, True):
            ftp = None if fresh else self._ftp
            if ftp is None and not fresh:
                continue
            if ftp is None:
                ftp = self._connect()
            try:
                self._data = self._retrieve(ftp, ask)
            except _GONE as error:
                self.close()
                if fresh:  # else the server had ended a connection that it had kept for us
                    raise Fault(Kind.BROKE, str(error) or type(error).__name__) from error
            except ftplib.error_temp as error:
                self.close()
                if fresh or not str(error).startswith("421"):
                    raise Fault(Kind.BUSY if str(error).startswith(_TOO_MANY) else Kind.ERROR, str(error)) from error
            except ftplib.error_perm as error:
                kinds = {"550": Kind.MISSING, "554": Kind.SHORT if ask.start else Kind.REFUSED}  # 554: no such byte to begin at
                raise Fault(kinds.get(str(error)[:3], Kind.REFUSED), str(error)) from error
            except TimeoutError as error:
                raise Fault(Kind.STALLED, f"no answer for {self._timeouts.read:.3g} s") from error
            except (OSError, ftplib.Error, ValueError) as error:
                raise Fault(Kind.ERROR, f"{type(error).__name__}: {error}") from error
            else:
                self._data.settimeout(self._timeouts.read)
                self._path = ask.path
                return self._data
        raise AssertionError

    def _retrieve(self, ftp: ftplib.FTP, ask: Ask) -> socket.socket:
        command, start = f"RETR {self._root}/{ask.path}", ask.start
        if start and not self._tried:
            self._tried = True
            try:
                # Here and not by transfercmd, so that it is known what was refused.
                ftp.sendcmd(f"REST {start}")
                ftp.sendcmd("REST 0")
            except ftplib.error_perm:
                self._rest = False
                if ask.skip is None:
                    raise Fault(Kind.WHOLE, "cannot begin in the middle of a file") from None
        self._at = start if self._rest else 0
        return ftp.transfercmd(command, rest=self._at or None)

    def _connect(self) -> ftplib.FTP:
        ftp: ftplib.FTP = _Dialled(self._only_public)
        try:
            with connecting(self._timeouts.connect):
                try:
                    ftp.connect(self._host, self._port, timeout=self._timeouts.connect)
                    ftp.login(self._user, self._password)
                    ftp.voidcmd("TYPE I")
                except ftplib.error_perm as error:
                    raise Fault(Kind.LOGIN, str(error)) from error
                except ftplib.Error as error:
                    raise Fault(Kind.BUSY, str(error)) from error
        except BaseException:
            ftp.close()
            raise
        ftp.timeout = self._timeouts.read
        assert ftp.sock is not None
        ftp.sock.settimeout(self._timeouts.read)
        self._ftp = ftp
        return ftp

    def _receive(self, data: socket.socket, count: int) -> bytes:
        try:
            block = data.recv(count)
        except TimeoutError as error:
            raise Fault(Kind.STALLED, f"no byte for {self._timeouts.read:.3g} s") from error
        except OSError as error:
            raise Fault(Kind.BROKE, str(error)) from error
        self._at += len(block)
        return block

    def _ended(self, end: int | None) -> None:
        """The server says what it thinks of the end of the data: all of it, or that it broke off."""
        data, self._data = self._data, None
        assert data is not None and self._ftp is not None
        data.close()
        try:
            self._ftp.voidresp()
        except (OSError, EOFError, ftplib.Error) as error:
            raise Fault(Kind.BROKE, f"broke off after {self._at:,}{'' if end is None else f' of {end:,}'} bytes ({error})") from error

    def _leave(self) -> None:
        """Give up the data connection before its end, and hear what the server says to that."""
        data, self._data = self._data, None
        assert data is not None and self._ftp is not None
        data.close()
        try:
            with contextlib.suppress(ftplib.error_temp, ftplib.error_perm):
                self._ftp.getresp()
        except (OSError, EOFError, ftplib.Error):
            self.close()
