"""Door: how many connections there are at once, and which is closed when there are more. Pure: no sockets, no clock but the log's.

A connection is a stranger's until somebody known has signed a request on it, and again after a request that nobody has. Strangers have a
part of the room to themselves, so that whoever is known never keeps a newcomer out; and the known have the rest, so that strangers never
push one of them out.

When there is one stranger too many, it is the oldest connection of the address that has most of them: one address, or a few, can hold as
many as they like to open and take room from nobody but themselves. Most nodes of an office with one address are known, and do not count.
"""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from typing import Final, final

OFTEN: Final = 3600.0  # seconds between two lines about the same
OWN: Final = 4  # connections that are known to be one node's; it needs one, and those that broke on the way end by themselves
SHARED: Final = 64  # of those who have a secret that several may have
NODE, SECRET = "node ", "secret "  # who has vouched for a request, by the beginning of the name
VISIT: Final = "laminar.visit"  # in a request's scope: on which connection it came
log: Final = logging.getLogger("laminar.grid")


@lru_cache(maxsize=4096)
def place_of(host: str) -> str:
    """What counts as one address: of IPv6 the network of one house, since everybody has 2**64 of its addresses."""
    if ":" not in host:
        return host
    try:
        found = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))


@final
class Visit:
    """A connection, from its first moment on."""

    __slots__ = ("close", "name", "place", "there", "vouched")

    def __init__(self, place: str, close: Callable[[], None]) -> None:
        self.place, self.close = place, close
        self.name = ""  # who is known to be there; nothing: a stranger
        self.vouched = False  # for the request that is under way
        self.there = True  # its request may be worked at for a while after it has ended


Line = OrderedDict[Visit, None]  # the oldest first


@final
class Door:
    def __init__(self, most: int, count: Callable[[str], None] = lambda _: None, clock: Callable[[], float] = time.monotonic) -> None:
        """`most`: connections at once."""
        self.strangers_most = max(2, most // 4)  # of which one address has
        self.place_most = max(2, self.strangers_most // 2)  # at most
        self.known_most = max(1, most - self.strangers_most)
        self._count, self._clock = count, clock
        self._places: dict[str, Line] = {}  # strangers
        self._names: dict[str, Line] = {}  # the known
        self._idle: Line = OrderedDict()  # the known that ask nothing; whoever did so last is the last
        self.strangers = self.known = 0
        self._said, self._unsaid = -OFTEN, 0

    def come(self, host: str, close: Callable[[], None]) -> Visit:
        """A new connection, for which there is room. `close`: at once, and as often as one likes."""
        visit = Visit(place_of(host), close)
        self._strange(visit)
        return visit

    def go(self, visit: Visit) -> None:
        """It has ended, whoever has ended it."""
        if visit.there:
            visit.there = False
            self._forget(visit)

    def begins(self, visit: Visit) -> None:
        """A request."""
        self._idle.pop(visit, None)

    def vouch(self, visit: Visit, name: str) -> bool:
        """Somebody known has signed the request. False: there is no room for any more of the known, all of whom are at something."""
        if not visit.there:
            return True
        if visit.name != name:
            if not (visit.name or self.known < self.known_most or self._close_idle()):
                return False
            self._forget(visit)
            self._know(visit, name)
        visit.vouched = True
        return True

    def ends(self, visit: Visit) -> None:
        """The request is answered."""
        if visit.vouched and visit.name:
            visit.vouched = False
            self._idle[visit] = None
        elif visit.name:
            self._unknow(visit)
            self._strange(visit)

    def _forget(self, visit: Visit) -> None:
        if visit.name:
            self._unknow(visit)
        else:
            self._unstrange(visit)

    def _close(self, visit: Visit) -> None:
        self.go(visit)
        visit.close()

    # The known

    def _know(self, visit: Visit, name: str) -> None:
        visit.name = name
        line = self._names.setdefault(name, OrderedDict())
        line[visit] = None
        self.known += 1
        if len(line) > (OWN if name.startswith(NODE) else SHARED):
            oldest = next(iter(line))
            self._unknow(oldest)
            self._strange(oldest)

    def _unknow(self, visit: Visit) -> None:
        line = self._names[visit.name]
        del line[visit]
        if not line:
            del self._names[visit.name]
        self._idle.pop(visit, None)
        self.known -= 1
        visit.name, visit.vouched = "", False

    def _close_idle(self) -> bool:
        """The one that has asked nothing for longest: it notices, and comes again when it has something to say."""
        if not self._idle:
            return False
        self._close(next(iter(self._idle)))
        return True

    # Strangers

    def _strange(self, visit: Visit) -> None:
        line = self._places.setdefault(visit.place, OrderedDict())
        line[visit] = None
        self.strangers += 1
        if len(line) > self.place_most:
            self._turn_out(line)
        elif self.strangers > self.strangers_most:
            self._turn_out(max(self._places.values(), key=len))

    def _unstrange(self, visit: Visit) -> None:
        line = self._places[visit.place]
        del line[visit]
        if not line:
            del self._places[visit.place]
        self.strangers -= 1

    def _turn_out(self, line: Line) -> None:
        visit = next(iter(line))
        self._close(visit)
        self._count("crowd")
        now = self._clock()
        if now - self._said < OFTEN:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last such line)" if self._unsaid else ""
        log.warning("too many connections on which nothing is signed; the oldest of %s is closed%s", visit.place, more)
        self._said, self._unsaid = now, 0
