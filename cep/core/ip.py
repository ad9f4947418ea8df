"""IP addresses: their canonical form, and the IPv4 addresses that IPv6 addresses may contain."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_AS_IT_IS = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
"""IPv6 networks in which the last 32 bits of an address are an IPv4 address: NAT64 (RFC 6052) and SIIT (RFC 2765).

Networks that Python's library recognises are omitted.
"""

_ISATAP = (0x00005EFE, 0x02005EFE)
"""The values that can precede the IPv4 address in an ISATAP address (RFC 5214), in any network."""

_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    )
)
"""Addresses of services for cloud metadata and credentials. Those in 169.254.0.0/16 are left out, because all addresses
of that network are refused as link-local. The services are those of Alibaba, Azure, Oracle, Amazon (for machines and
pods) and Google."""

_TRANSLATED = (ipaddress.IPv6Network("::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
"""Networks in which the last 32 bits of an address may be an IPv4 address: deprecated ones (RFC 4291), and local NAT64
(RFC 8215)."""


def inner(text: str) -> IpAddress:
    """Parse an address. If it is an IPv6 address that contains an IPv4 address, return the IPv4 address. Raises
    ValueError if the text is not an address."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        known = address.ipv4_mapped or address.sixtofour
        if known is not None:
            return known
        last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if any(address in network for network in _AS_IT_IS) or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
            return last
    return address


def canonical_host(host: str) -> str:
    """Return a host in canonical form: a name in lower case, an address in its shortest form."""
    name = host.strip("[]").rstrip(".").lower()
    try:
        return str(inner(name))
    except ValueError:
        return name


def here(text: str) -> bool:
    """Return True if a host is `localhost` or a loopback address. Its name is not looked up in the network."""
    name = canonical_host(text)
    try:
        return name == "localhost" or inner(name).is_loopback
    except ValueError:
        return False


def known_linked(host: str) -> bool:
    """Return True if a host is a link-local or metadata address, in any accepted notation, such as `2852039166`."""
    name = host.rstrip(".")
    with suppress(OSError, ValueError):
        name = socket.inet_ntoa(socket.inet_aton(name))
    try:
        return linked(name)
    except ValueError:
        return False


def linked(address: str) -> bool:
    """Return True if an IP address is link-local (169.254.0.0/16 or fe80::/10), or belongs to a cloud's metadata
    service.

    Raises ValueError if `address` is not an IP address.
    """
    whole = inner(address)
    last = ipaddress.IPv4Address(int(whole) & 0xFFFFFFFF)
    every = (whole, last) if any(whole in network for network in _TRANSLATED) else (whole,)
    return any(address.is_link_local or address in _METADATA for address in every)
