"""Reach: which addresses a mirror may have. Anywhere, for whoever names the mirrors himself; public ones only, for a node that fetches what
a stranger names.

A stranger's index could otherwise have a desktop call its router, a printer, or the metadata service of a cloud (server-side request
forgery). So while only public addresses are allowed, a name is resolved here, each address that came of it is looked at, and the
connection is made to one of these very addresses: a name that resolves to another one a moment later (DNS rebinding) changes nothing.
Redirects are followed by new connections, and so are looked at, too.

The setting is of the process and not of a thread, because readers run in threads of their own.
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

DIALLED: Final = ("http", "https", "ftp")  # schemes whose readers connect by way of this module
NOT_PUBLIC: Final = "its address is not a public one, and the owner of this machine lets strangers name no others (--allow-private)"
# What the Internet's registries hand out to everybody is 2000::/3; these parts of it are for something else
_IPV6: Final = ipaddress.IPv6Network("2000::/3")
_IPV6_SPECIAL: Final = tuple(ipaddress.IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last 32 bits are the IPv4 address that is really called
_IPV4_SPECIAL: Final = tuple(
    ipaddress.IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by the customers of a provider
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
        "224.0.0.0/3",  # groups, the reserved, and everybody here
    )
)
_only_public = False


@contextlib.contextmanager
def only_public(wanted: bool = True) -> Iterator[None]:
    """Within it, this process connects to mirrors at public addresses only."""
    global _only_public
    before, _only_public = _only_public, wanted or _only_public
    try:
        yield
    finally:
        _only_public = before


def restricted() -> bool:
    """Strangers name the mirrors just now."""
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
    """L504 for a mirror whose reader finds its own way to an address, while that is restricted."""
    scheme = drivers.scheme_of(url)
    if _only_public and scheme not in DIALLED:
        raise LaminarError(
            "L504",
            f"{drivers.masked(url)}: strangers may name {', '.join(DIALLED)} mirrors only, not {scheme}",
            hint="use another mirror",
        )


def dial(host: str, port: int, timeout: float, *, only_at_public: bool = False) -> socket.socket:
    """A connection to the host. Fault where none of its addresses may be called; OSError where none answers.

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
    """The other side is this very machine, at a public address that it has."""
    return bool(made.getpeername()[0] == made.getsockname()[0])


def _at_once(made: socket.socket) -> socket.socket:
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made
