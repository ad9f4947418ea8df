"""Parse the targets of feeds: `--feed cloudevents+https://host/hook`, `mqtt://broker/alerts`,
`smtp://host/team@example.org`."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from cep.connectors.receivers.sender import ATTEMPTS
from cep.core.errors import CepError, reason_of
from cep.core.ip import inner, known_linked, linked

PORTS: Mapping[str, int] = {
    "cloudevents+https": 443,
    "cloudevents+http": 80,
    "alertmanager+https": 443,
    "alertmanager+http": 80,
    "mqtt": 1883,
    "mqtts": 8883,
    "smtp": 587,
    "smtps": 465,
}
EXAMPLES: Mapping[str, str] = {
    "cloudevents": "cloudevents+https://example.org/alerts",
    "alertmanager": "alertmanager+http://localhost:9093",
    "mqtt": "mqtt://localhost/alerts",
    "smtp": "smtp://user@mail.example.org/on-call@example.org",
}
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cloudevents": ("from", "attempts", "private", "origin", "parallel"),
    "alertmanager": ("from", "attempts", "every"),
    "mqtt": ("from", "attempts"),
    "smtp": ("from", "attempts", "private", "tls", "password-file"),
    "apprise": ("from", "attempts", "private"),
}
"""For each kind of target, the options that may follow `#` in its address, as in `#from=start&attempts=20`. They are
not sent to the target."""

GUARDED = ("cloudevents", "smtp")
"""The kinds of targets that need the option `#private=yes` if their addresses are in private networks."""

MAILBOX = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}@[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
"""A mailbox name that every server accepts: ASCII, without quotes."""

_OPTION = re.compile(r"([a-z-]+)=([^&]*)")


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a feed.

    - `name`: the target's name in the outbox, in logs and in metrics. It contains no user or password. A digest
      replaces the path, which may be secret.
    - `path`: the path of the URL, including the query.
    - `receiver`: the target's name in the file of routes. If it is None, the target gets every alert.
    - `start`: True to send also changes that were added to the outbox before the target's first use.
    - `attempts`: the number of refusals after which an entry becomes a dead letter.
    - `every`: the seconds until open alerts are sent again.
    - `parallel`: the number of alerts that are sent in parallel.
    - `private`: True if addresses in private networks are permitted.
    - `origin`: the name under which the sender asks a webhook for permission before it sends events. If it is None, the
      sender does not ask.
    - `secrets`: the keys that sign each message.
    - `plain`: True to send mail without encryption.
    """

    name: str
    kind: str
    tls: bool
    host: str
    port: int
    path: str = field(repr=False)
    start: bool = False
    attempts: int = ATTEMPTS
    private: bool = False
    every: float = 60.0
    origin: str | None = None
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    parallel: int = 64
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    plain: bool = False
    receiver: str | None = None


def target(text: str, environment: Mapping[str, str] = os.environ) -> Target:
    """Parse a `--feed` option. Raises CepError if the target is invalid or not permitted, or has an unknown option.

    The user and password, or a bearer token, may be set in the environment: SEMCEP_CLOUDEVENTS_USER, ..._PASSWORD,
    ..._TOKEN.
    """
    scheme, separator, rest = text.partition("://")
    shown = re.sub(r"^[^@/?#]*@", "", rest).partition("#")[0]
    bare = f"{scheme}://{shown}"
    if not separator or scheme not in PORTS:
        raise _unknown(scheme if separator else "", text.partition("#")[0].rpartition("@")[2])
    kind = scheme.removesuffix("s") if scheme in ("mqtts", "smtps") else scheme.partition("+")[0]
    if any(character <= " " or character == "\x7f" for character in text):
        raise _refused(bare, "the address has a space or a control character", f"e.g. `{EXAMPLES[kind]}`")
    try:
        parts = urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or port == 0:
        raise _refused(bare, "the host is missing, or the port is not valid", f"e.g. `{EXAMPLES[kind]}`")
    options = _options(bare, kind, parts.fragment)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    if kind == "mqtt":
        path = _topic(bare, path)
    plain, login = False, {}
    if kind == "smtp":
        if parts.password:
            hint = "put it in the variable SEMCEP_SMTP_PASSWORD, or in a file: `#password-file=/run/secrets/mail`"
            raise _refused(bare, "a password does not belong here, where others may read it", hint)
        path = _mailbox(bare, path)
        plain = _flag(bare, "tls", options.get("tls", "starttls"), ("starttls", "none"))
        login = _mail_login(bare, parts.username, options, environment)
        if plain and (scheme == "smtps" or login["user"]):
            why = "`smtps://` is encrypted" if scheme == "smtps" else "a password is not sent unencrypted"
            raise _refused(bare, f"`tls=none`: {why}", "leave out `tls=none`, or the user")
    private = _flag(bare, "private", options.get("private", "no"), ("no", "yes"))
    if kind in GUARDED and not private and known_private(host):
        hint = f"if that is meant, `{bare}#private=yes` allows it"
        raise _refused(bare, f"`{host}` is a private address", hint)
    if not private and known_linked(host):
        raise _refused(
            bare,
            f"`{host}` is a link-local address, or the address of a cloud's metadata service",
            "use an address that other machines can reach too",
        )
    named = f"SEMCEP_{kind.upper()}_"
    return Target(
        name=_named(scheme, parts.netloc.rpartition("@")[2], path, kind),
        kind=kind,
        tls=scheme.endswith("s"),
        host=host,
        port=port or PORTS[scheme],
        path=path,
        start=_flag(bare, "from", options.get("from", "now"), ("now", "start")),
        attempts=_number(bare, options, "attempts", ATTEMPTS, 1),
        private=private,
        every=_number(bare, options, "every", 60, 1),
        origin=_origin(bare, options.get("origin")),
        user=login.get("user") or (unquote(parts.username) if parts.username else environment.get(named + "USER")),
        password=login.get("password")
        or (unquote(parts.password) if parts.password else environment.get(named + "PASSWORD")),
        token=environment.get(named + "TOKEN"),
        parallel=_number(bare, options, "parallel", 64, 1, 256),
        secrets=_secrets(environment.get(named + "SECRET", "")) if kind == "cloudevents" else (),
        plain=plain,
    )


def apprise_target(place: str, name: str, url: str, options: str) -> Target:
    """Return the target for a URL of Apprise.

    - `place`: the file or variable that contains the URL.
    - `options`: the text after the `#` of the URL.

    Raises CepError if an option is unknown.
    """
    parsed = _options(place, "apprise", options)
    return Target(
        name=name,
        kind="apprise",
        tls=True,
        host="",
        port=0,
        path=url,
        start=_flag(place, "from", parsed.get("from", "now"), ("now", "start")),
        attempts=_number(place, parsed, "attempts", ATTEMPTS, 1),
        private=_flag(place, "private", parsed.get("private", "no"), ("no", "yes")),
    )


def _mailbox(shown: str, path: str) -> str:
    mailbox = unquote(path.strip("/"))
    if not MAILBOX.fullmatch(mailbox):
        what = f"`{mailbox[:80]}` is not a mailbox" if mailbox.isprintable() else "this is not a mailbox"
        raise _refused(shown, what, f"use one mailbox in ASCII: `{EXAMPLES['smtp']}`; for several, repeat `--feed`")
    return mailbox


def _mail_login(
    shown: str, name: str | None, options: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the user and password for mail. Both are None if mail is sent without a login."""
    user = unquote(name) if name else environment.get("SEMCEP_SMTP_USER")
    password = environment.get("SEMCEP_SMTP_PASSWORD")
    file = options.get("password-file") or environment.get("SEMCEP_SMTP_PASSWORD_FILE")
    if user and file:
        try:
            password = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8"
            raise _refused(
                shown, f"password-file {file}: {reason}", "use a file that contains the password alone"
            ) from None
    if user and not password:
        hint = "put it in the variable SEMCEP_SMTP_PASSWORD, or in a file: `#password-file=/run/secrets/mail`"
        raise _refused(shown, f"the password of `{user}` is missing", hint)
    return {"user": user, "password": password}


def _secrets(text: str) -> tuple[bytes, ...]:
    """Parse the secrets of Standard Webhooks, separated by blanks. Each is `whsec_` followed by base64."""
    secrets = []
    for word in text.split():
        try:
            secret = b64decode(word.removeprefix("whsec_"), validate=True)
        except ValueError:
            secret = b""
        if not word.startswith("whsec_") or not 24 <= len(secret) <= 64:
            hint = "`echo whsec_$(openssl rand -base64 32)` makes one; several are separated by spaces"
            message = "SEMCEP_CLOUDEVENTS_SECRET: a secret is `whsec_` and 24 to 64 bytes in base64"
            raise CepError(message, hint=hint, code="option")
        secrets.append(secret)
    return tuple(secrets)


def _named(scheme: str, place: str, path: str, kind: str) -> str:
    if kind in ("mqtt", "smtp"):
        return f"{scheme}://{place}/{path}"
    return f"{scheme}://{place}" + (f"/…{sha256(path.encode()).hexdigest()[:8]}" if path.strip("/") else "")


def known_private(host: str) -> bool:
    """Return True if a host's name shows that the host is local. Otherwise, the host's addresses must be checked."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        return not public(name)
    except ValueError:
        return bool(re.fullmatch(r"[0-9.]+|0x[0-9a-f.x]+", name))  # other ways of writing an address


def public(address: str) -> bool:
    """Return True if an IP address is public. Raises ValueError if the text is not an IP address."""
    ip = inner(address)
    return ip.is_global and not ip.is_multicast and not any(ip in network for network in _NOBODYS)


def reachable(target: Target) -> list[str]:
    """Return the IP addresses of a target's host. Raises OSError if the host has no address, or if one of its addresses
    is not permitted."""
    places = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(place[4][0]) for place in places))
    for address in addresses:
        if target.kind in GUARDED and not target.private and not public(address):
            raise OSError(f"{address} is a private address, which needs `#private=yes`")
        if not target.private and linked(address):
            raise OSError(f"{address} is a link-local address, or the address of a cloud's metadata service")
    return addresses


_NOBODYS: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    ipaddress.IPv4Network("192.0.0.0/24"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
    ipaddress.IPv6Network("3fff::/20"),
    ipaddress.IPv6Network("5f00::/16"),
    ipaddress.IPv6Network("fec0::/10"),
)
"""Networks that are reserved for protocols, translation and documentation (RFC 6890, registries of IANA). Some versions
of Python do not know all of these networks."""


def _unknown(scheme: str, text: str) -> CepError:
    known = "use `cloudevents+https://`, `alertmanager+http://`, `mqtt://`, `smtp://` or `apprise+file://`"
    if scheme in ("http", "https"):
        known = (
            f"`cloudevents+{scheme}://...` posts CloudEvents, `alertmanager+{scheme}://...` speaks to an Alertmanager"
        )
    if scheme in ("cloudevents", "alertmanager"):
        known = f"add how to send it: `{scheme}+https://`"
    if scheme in ("mailto", "mailtos", "mail"):
        known = f"use `smtp://` or `smtps://` for mail: `{EXAMPLES['smtp']}`"
    if scheme == "apprise":
        known = "put its URLs in a file, `apprise+file:///etc/semcep/on-call`, or a variable, `apprise+env://ON_CALL`"
    what = f"`{scheme}://` is not a kind of feed" if scheme else f"`{text}` is not an address"
    return CepError(f"--feed: {what}", hint=known, code="option")


def _refused(shown: str, reason: str, hint: str) -> CepError:
    return CepError(f"--feed {shown}: {reason}", hint=hint, code="option")


def _options(shown: str, kind: str, text: str) -> dict[str, str]:
    parsed: dict[str, str] = {}
    another = re.compile(rf"[,;#?](?=(?:{'|'.join(OPTIONS[kind])})=)")
    for part in filter(None, text.split("&")):
        if another.search(part):
            hint = f"`#{another.sub('&', text)}`, in quotes on a command line"
            raise _refused(shown, f"`{part}` has several options, which need `&` between them", hint)
        match = _OPTION.fullmatch(part)
        if match is None or match[1] not in OPTIONS[kind]:
            known = ", ".join(OPTIONS[kind])
            raise _refused(shown, f"`{part}` is not an option", f"options are {known}: `#from=start`")
        parsed[match[1]] = match[2]
    return parsed


def _origin(shown: str, name: str | None) -> str | None:
    if name is not None and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?", name):
        raise _refused(shown, f"`origin={name}` is not a valid host name", "`#origin=alerts.example.org`")
    return name


def _flag(shown: str, option: str, text: str, choices: tuple[str, str]) -> bool:
    if text not in choices:
        raise _refused(shown, f"`{option}={text}` is not known", f"`{option}` is one of {', '.join(choices)}")
    return text == choices[1]


def _number(shown: str, options: Mapping[str, str], option: str, usual: int, least: int, most: int = 1_000_000) -> int:
    text = options.get(option, str(usual))
    if not text.isdecimal() or not least <= int(text) <= most:
        reason = f"`{option}={text}` is not a whole number from {least} to {most:,}"
        raise _refused(shown, reason, f"use `#{option}={usual}`, which is the default")
    return int(text)


def _topic(shown: str, path: str) -> str:
    topic = unquote(path.strip("/")) or "alerts"
    if any(character in topic for character in "+#\0") or len(topic.encode()) > 1000:
        raise _refused(shown, "use a topic without `+` and `#`", f"e.g. `{EXAMPLES['mqtt']}`")
    return topic
