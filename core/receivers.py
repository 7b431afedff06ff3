"""Which addresses events may be sent to. A user names URLs that the cluster's own machine then asks. Pure.

The form of a URL is looked at when it is given. An address is looked at when it is connected to, so that a name
which resolves to another one by then leads nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from .notify import MOST_URL, shown_place

Address = IPv4Address | IPv6Address
# Where clouds answer with the credentials of their machines. No setting opens them.
METADATA = frozenset(
    map(ip_address, ("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"))
)
METADATA_NAMES = ("metadata.google.internal", "metadata.goog", "metadata", "instance-data")
_NAT64 = ip_network("64:ff9b::/96")


def url_problem(url: str, allowed: Iterable[str] = ()) -> str:
    """Return why a URL of http or https is not accepted, in one sentence without its secret parts; "": it is.

    Args:
        allowed: hosts, addresses and networks of `webhooks.allowed`.
    """
    allowed, told = tuple(allowed), shown_place(url)
    if len(url) > MOST_URL:
        return f"the URL has {len(url)} characters; at most {MOST_URL} are accepted"
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return f"{told} is not a URL such as https://hooks.example.com/coadapt"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return f"{told} is not a URL such as https://hooks.example.com/coadapt"
    if parts.username is not None or parts.password is not None:
        return f"{told} has a user or a password in it; a URL without them is accepted"
    if parts.fragment:
        return f"{told} has a fragment, which no server sees; a URL without # is accepted"
    if host in METADATA_NAMES:
        return f"{told} is a cloud's metadata service, to which nothing is sent"
    literal = _literal(host)
    if literal is not None and (why := address_problem(str(literal), host, allowed)):
        return why
    if (host == "localhost" or host.endswith(".localhost")) and not _allows(
        host, IPv4Address("127.0.0.1"), allowed
    ):
        return f"{told} is this machine itself; {_PUBLIC}"
    if parts.scheme == "http" and not _names(host, literal, allowed):
        return f"{told} is not encrypted; a URL of https is accepted"
    return ""


def address_problem(address: str, host: str, allowed: Iterable[str] = ()) -> str:
    """Return why nothing may be sent to an address, in one sentence; "": it may be.

    Args:
        host: the name that led to it.
        allowed: as in `url_problem`.
    """
    try:
        found = inner(ip_address(address.partition("%")[0]))
    except ValueError:
        return f"{host} leads to {address}, which is no address of the internet"
    told = f"{host} is {found}," if host != str(found) else f"{found} is"
    if found in METADATA:
        return f"{told} a cloud's metadata service, to which nothing is sent"
    if (found.is_global and not found.is_multicast) or _allows(host, found, allowed):
        return ""
    kind = (
        "this machine itself"
        if found.is_loopback or found.is_unspecified
        else "an address of one link only"
        if found.is_link_local
        else "no public address"
    )
    return f"{told} {kind}; {_PUBLIC}"


_PUBLIC = "public addresses are accepted, and what an operator names in `webhooks.allowed`"


def inner(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (int(address) >> 32 == 0 and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _literal(host: str) -> Address | None:
    """Return the address that a host is written as, also in the forms of old: 2130706433, 0x7f.1, 127.1."""
    try:
        return inner(ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    parts = host.split(".")
    if len(parts) > 4:
        return None
    try:
        numbers = [
            int(part, 16 if part[:2] in ("0x", "0X") else 8 if part[:1] == "0" and part != "0" else 10)
            for part in parts
        ]
    except ValueError:
        return None
    *first, last = numbers
    value = last + sum(number << 8 * (3 - at) for at, number in enumerate(first))
    return IPv4Address(value) if 0 <= value < 1 << 32 else None


def _allows(host: str, address: Address, allowed: Iterable[str]) -> bool:
    return any(_is(one, host, address) for one in allowed)


def _names(host: str, literal: Address | None, allowed: Iterable[str]) -> bool:
    """Return whether an operator has named a host, or the network of an address: it needs no TLS."""
    known = literal if literal is not None else IPv4Address("127.0.0.1") if host == "localhost" else None
    return any(_is(one, host, known) for one in allowed)


def _is(one: str, host: str, address: Address | None) -> bool:
    if one.lower() == host.lower():
        return True
    if address is None:
        return False
    try:
        return address in ip_network(one)
    except ValueError:
        return False
