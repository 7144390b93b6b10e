"""What goes wrong between two machines before a protocol is spoken, as a Fault."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator

from laminar.data.mirrors.faults import Fault, Kind


@contextlib.contextmanager
def connecting(seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise Fault(Kind.UNREACHABLE, f"no connection within {seconds:.3g} s") from error
    except ssl.SSLCertVerificationError as error:
        raise Fault(Kind.UNREACHABLE, f"its certificate is not valid: {error.verify_message}") from error
    except socket.gaierror as error:
        raise Fault(Kind.UNREACHABLE, f"no such host: {error.strerror}") from error
    except (OSError, EOFError, UnicodeError, http.client.HTTPException) as error:
        raise Fault(Kind.UNREACHABLE, getattr(error, "strerror", None) or str(error) or type(error).__name__) from error


def shut(sock: socket.socket) -> None:
    """Wake up whoever waits for it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
