"""Reach: which addresses a mirror may have. Users may name mirrors at any address; a node that fetches what a stranger names uses public
addresses only.

Otherwise a stranger's index could make a desktop call its router, a printer, or a cloud's metadata service (server-side request forgery).
So while only public addresses are allowed, this module resolves the name, checks each address, and connects to one of the checked
addresses. A name that resolves to another address a moment later (DNS rebinding) changes nothing. Each redirect makes a new connection
and is checked, too.

The setting belongs to the process and not to a thread, because readers run in threads of their own.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterator
from typing import Final

from laminar.core.errors import LaminarError
from laminar.data.mirrors.faults import Fault, Kind
from laminar.store import drivers

DIALLED: Final = ("http", "https", "ftp")  # schemes whose readers connect through this module
NOT_PUBLIC: Final = "its address is not a public one, and the owner of this machine lets strangers name no others (--allow-private)"
# Public IPv6 addresses are in 2000::/3; these parts of it have other purposes
_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_IPV6_SPECIAL: Final = tuple(ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are the IPv4 address that is actually contacted
_IPV4_SPECIAL: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
    )
)
_only_public = False


@contextlib.contextmanager
def only_public(wanted: bool = True) -> Iterator[None]:
    """While the context is active, this process connects to mirrors at public addresses only."""
    global _only_public
    before, _only_public = _only_public, wanted or _only_public
    try:
        yield
    finally:
        _only_public = before


def restricted() -> bool:
    """Whether only public addresses are allowed now."""
    return _only_public


def is_public(address: str) -> bool:
    """Whether anybody on the Internet could connect to this address (digits, no name)."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        if inner is None:
            return found in _IPV6 and not any(found in special for special in _IPV6_SPECIAL)
        found = inner
    return not any(found in special for special in _IPV4_SPECIAL)


def refuse_scheme(url: str) -> None:
    """Raise L504 for a mirror whose reader does not connect through this module, while addresses are restricted."""
    scheme = drivers.scheme_of(url)
    if _only_public and scheme not in DIALLED:
        raise LaminarError(
            "L504",
            f"{drivers.masked(url)}: strangers may name {', '.join(DIALLED)} mirrors only, not {scheme}",
            hint="use another mirror",
        )


def dial(host: str, port: int, timeout: float, *, only_at_public: bool = False) -> socket.socket:
    """Connect to the host. Raises Fault if none of its addresses is allowed, and OSError if none answers.

    `only_at_public`: at public addresses only, also after the end of `only_public`: readers that were made in it may outlive it.
    """
    if not (only_at_public or _only_public):
        return _at_once(socket.create_connection((host, port), timeout))
    addresses = [found[4][0] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    public = [str(address) for address in dict.fromkeys(addresses) if is_public(str(address))]
    if not public:
        raise Fault(Kind.REFUSED, NOT_PUBLIC)
    failed: OSError | None = None
    for address in public:
        try:
            made = socket.create_connection((address, port), timeout)
        except OSError as error:
            failed = error
            continue
        if _is_own(made):
            made.close()
            raise Fault(Kind.REFUSED, NOT_PUBLIC)
        return _at_once(made)
    assert failed is not None
    raise failed


def _is_own(made: socket.socket) -> bool:
    """Whether the other side is this machine itself, at one of its public addresses."""
    return bool(made.getpeername()[0] == made.getsockname()[0])


def _at_once(made: socket.socket) -> socket.socket:
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
