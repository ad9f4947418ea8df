"""Addresses of live inputs and outputs, such as `mqtt://user:secret@host/hall/#?client=roof`. They are printed without
secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from cep.core.errors import CepError
from cep.core.storage.urls import EXAMPLES as STORED
from cep.core.storage.urls import is_url, local_path, near_scheme

PORTS: Mapping[str, int | None] = {
    "mqtt": 1883,
    "mqtts": 8883,
    "kafka": 9092,
    "kafkas": 9093,
    "tcp": None,
    "rate": None,
    "sensorthings+mqtt": 1883,
    "sensorthings+mqtts": 8883,
    "sensorthings+http": 80,
    "sensorthings+https": 443,
}
"""For each scheme of a live input, the default port, or None if it has none. A scheme that ends in `s` uses TLS."""

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mqtt": ("client", "qos", "version", "retained", "quiet", "limit", "format", "ca", "cert", "key"),
    "kafka": ("from", "until", "group", "gone", "limit", "format", "ca", "cert", "key", "sasl"),
    "tcp": ("until", "quiet", "limit", "format"),
    "rate": ("start", "keys", "until", "limit"),
    "sensorthings": ("by", "from", "until", "every", "page", "filter", "expand", "private", "ca", "cert", "key"),
}
OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "mqtt": ("retain", "qos", "version", "ca", "cert", "key"),
    "kafka": ("by", "ca", "cert", "key", "sasl"),
}
"""The kinds of addresses that can be outputs, each with the names of its options."""
EXAMPLES: Mapping[str, str] = {
    "mqtt": "mqtt://localhost:1883/sensors/#",
    "kafka": "kafka://localhost:9092/readings",
    "tcp": "tcp://localhost:9999",
    "rate": "rate://1000",
    "sensorthings": "sensorthings+https://example.org/FROST-Server/v1.1",
}
_FORMAT = "sensorthings"
_THINGS = "sensorthings+"
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_REST = re.compile(r"(?:([^@/?]*)@)?([^/?]*)(?:/([^?]*))?(?:\?(.*))?", re.DOTALL)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\s\[\]]+)(?::(\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address.

    - `text`: the address without user, password and options.
    - `hosts`: pairs of host and port. The port is 0 if the address has no port and its kind has no default port.
    - `path`: the part after the hosts, such as a topic.
    - `user`, `password`: the values in the address. If the address has none, the values in environment variables.
    """

    text: str
    kind: str
    tls: bool
    hosts: tuple[tuple[str, int], ...]
    path: str
    options: Mapping[str, str]
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def servers(self) -> str:
        """The hosts and ports in the form `host:port,host:port`."""
        return ",".join(f"{host}:{port}" for host, port in self.hosts)

    def number(self, option: str, usual: float, least: float = 0) -> float:
        """Return the value of an option as a number. If the option is missing, return `usual`.

        Raises CepError if the value is not a number or is less than `least`.
        """
        text = self.options.get(option)
        try:
            parsed = usual if text is None else float(text)
        except ValueError:
            parsed = float("nan")
        if not parsed >= least:
            raise self.refused(f"`{option}={text}` is not a number of at least {least:g}", f"`?{option}={usual:g}`")
        return parsed

    def choice(self, option: str, choices: tuple[str, ...]) -> str:
        """Return the value of an option that has only a few valid values. The default is the first of `choices`.

        Raises CepError if the value is not one of the choices.
        """
        chosen = self.options.get(option, choices[0])
        if chosen not in choices:
            raise self.refused(f"`{option}={chosen}` is not known", f"`{option}` is one of {', '.join(choices)}")
        return chosen

    def refused(self, reason: str, hint: str | None = None) -> CepError:
        """Return an error about this address. `reason`: the text that follows the address in the error message."""
        return CepError(f"{self.text}: {reason}", hint=hint, code="input")


def live(path: str) -> bool:
    """Return True if the path is the address of a live source, such as `kafka://...`."""
    return _SCHEME.fullmatch(path) is not None and not is_url(path) and local_path(path) == path


def address(text: str, known: Mapping[str, tuple[str, ...]] = OPTIONS) -> Address:
    """Parse the address of an input. If `known` is `OUTPUTS`, parse the address of an output instead.

    Raises CepError if the address is invalid or has an unknown option.
    """
    match = _SCHEME.fullmatch(text)
    assert match is not None, "an address has a scheme"
    scheme, rest = match.groups()
    tls, kind = scheme.endswith("s"), _kind(scheme)
    things = scheme.startswith(_THINGS)
    if scheme not in PORTS or kind not in known or (things and known is not OPTIONS):
        schemes = [name for name in PORTS if known is OPTIONS or not name.startswith(_THINGS)]
        known_schemes = ", ".join(f"{name}://" for name in schemes if _kind(name) in known)
        what = "input" if known is OPTIONS else "output"
        known_schemes += "".join(f", {scheme_name}://" for scheme_name in STORED)
        if scheme in ("http", "https") and known is OPTIONS:
            known_schemes += f"; observations of a SensorThings service are `{_THINGS}{scheme}://`"
        hint = f"use one of {known_schemes}{near_scheme(scheme, tuple(PORTS))}"
        raise CepError(f"{bare(text)}: `{scheme}://` is not a kind of {what}", hint=hint, code=what)
    match = _REST.fullmatch(rest)
    assert match is not None, "any text has these parts"
    login, places, path, options = (part or "" for part in match.groups())
    if "@" in places or ("@" in path + options and not _HOST.fullmatch(places.split(",")[-1])):
        hint = "in a user name or a password, write %40 for `@`, %2F for `/` and %3F for `?`"
        raise CepError(f"{scheme}://...: it is not clear where the host begins", hint=hint, code="input")
    if things:
        path = _observations(f"{scheme}://{places}", path, "v1.1" if kind == "mqtt" else None)
    shown = f"{scheme}://{places}" + (f"/{path}" if path else "")
    if kind == "sensorthings" and ":" in login:
        hint = "set SEMCEP_SENSORTHINGS_USER and SEMCEP_SENSORTHINGS_PASSWORD in the environment"
        raise CepError(f"{shown}: a password does not belong here, where others may read it", hint=hint, code="input")
    hosts = tuple(_host(shown, place, PORTS[scheme], kind) for place in places.split(","))
    user, colon, password = login.partition(":")
    named = f"SEMCEP_{kind.upper()}_"
    own_options = _options(shown, kind, options, known[kind])
    if things and own_options.setdefault("format", _FORMAT) != _FORMAT:
        hint = f"leave `format` out, or write `{kind}://`"
        raise CepError(f"{shown}: the messages have the format {_FORMAT}", hint=hint, code="input")
    return Address(
        shown,
        kind,
        tls,
        hosts,
        unquote(path),
        own_options,
        unquote(user) if user else os.environ.get(named + "USER"),
        unquote(password) if colon else os.environ.get(named + "PASSWORD"),
    )


def bare(text: str) -> str:
    """Return the name of an input in a form that messages may show. If the name is an address, the user, the password
    and the options are removed."""
    return re.sub(r"://[^/?]*@", "://", text.partition("?")[0]) if "://" in text else text


def _kind(scheme: str) -> str:
    """Return the kind of source that a scheme selects, such as "kafka" for `kafkas`.

    For an unknown scheme, return the scheme without an `s` at its end.
    """
    kind = scheme.removesuffix("s")
    return {"sensorthings+mqtt": "mqtt", "sensorthings+http": "sensorthings"}.get(kind, kind)


def _observations(shown: str, path: str, usual: str | None) -> str:
    """Return the path of the observations of a SensorThings service. Raises CepError if `path` leads elsewhere.

    `path`: the path of the service, of a datastream, or of the observations. `usual`: the path of the service, which is
    used if `path` is empty.
    """
    path = path.strip("/") or usual or ""
    last = path.rpartition("/")[2]
    if last == "Observations":
        return path
    if re.fullmatch(r"v\d+\.\d+", last) or re.fullmatch(r"(Multi)?Datastreams\([^()]+\)", unquote(last)):
        return f"{path}/Observations"
    what = f"`{path}` does not lead to observations" if path else "the address has no path to a service"
    hint = f"e.g. `{shown}/{usual or 'FROST-Server/v1.1'}`, or `.../v1.1/Datastreams(7)/Observations`"
    raise CepError(f"{shown}: {what}", hint=hint, code="input")


def _host(shown: str, place: str, usual: int | None, kind: str) -> tuple[str, int]:
    match = _HOST.fullmatch(place)
    if match is None or int(match[2] or 0) > 65535 or (kind == "tcp" and match[2] is None):
        what = "the address has no host" if not place else f"`{place}` is not a valid host and port"
        raise CepError(f"{shown}: {what}", hint=f"e.g. `{EXAMPLES[kind]}`", code="input")
    return match[1].strip("[]"), int(match[2] or usual or 0)


def _options(shown: str, kind: str, text: str, names: Sequence[str]) -> dict[str, str]:
    values = {}
    for part in filter(None, text.split("&")):
        name, equals, value = part.partition("=")
        known = name in names or (kind == "kafka" and "." in name)  # a name with a `.` is a setting of librdkafka
        if not (equals and known and value):
            what = f"`{name}` is not an option" if not known else f"`{name}` has no value"
            hint = f"options are {', '.join(names)}"
            more = ", and the settings of librdkafka" if kind == "kafka" else ""
            raise CepError(f"{shown}: {what}", hint=hint + more, code="input")
        values[name] = unquote(value)
    return values
