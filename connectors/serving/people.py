"""The people who may use a server. A file lists their names, roles and tokens."""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

from cep.core.errors import CepError, reason_of
from cep.core.suggest import did_you_mean

SHORTEST = 16
"""The minimum number of characters in a token."""

NO_TOKEN = "-"
"""The text in place of a token for a person whom a proxy authenticates."""

LOCAL = "local"
"""The name of the person for all clients on this machine, if the server has no tokens."""

_NAME = re.compile(r"[^\s\x00-\x1f\x7f#]{1,64}")
_NO_NAME = re.compile(r"[\s\x00-\x1f\x7f#]")
_BAD = frozenset(' ";,\\')  # not permitted in a cookie or an address
_FORM = "a line is `name role token`: `ann editor $(openssl rand -hex 32)`"


class Role(IntEnum):
    """The rights of a person. Each role includes the rights of all lower roles."""

    VIEWER = 1
    RESPONDER = 2
    EDITOR = 3

    @property
    def title(self) -> str:
        """The role as written in a file of tokens."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Person:
    """A person who may use the server."""

    name: str
    role: Role


class People:
    """The people who may use a server, and their tokens. A proxy authenticates people who have no token.

    A received token is compared with all known tokens, so the response time reveals nothing about them.
    """

    def __init__(self, tokens: Mapping[Person, str]) -> None:
        self._listeners: set[Callable[[], None]] = set()
        self.replace(tokens)

    def replace(self, tokens: Mapping[Person, str]) -> None:
        self.tokens = tokens
        self._named = [*tokens]
        self._tokens = [
            (person, token.encode(), cookie_value(token).encode()) for person, token in tokens.items() if token
        ]
        for listener in tuple(self._listeners):
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` whenever the people are replaced, as long as the context is open.

        The listener is called in the thread that replaces the people.
        """
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    @property
    def names(self) -> list[str]:
        """The names of all people, in the order of the file."""
        return [person.name for person in self._named]

    def by_name(self, name: str) -> Person:
        """Return the person whose name a trusted proxy sent. A person who is not in the file is a viewer."""
        persons = [person for person in self._named if person.name == name]
        return persons[0] if persons else Person(_NO_NAME.sub("_", name)[:64], Role.VIEWER)

    def with_token(self, token: str) -> Person | None:
        """Return the person who has this token. Return None if nobody has it."""
        brought, owner = token.encode(), None
        for person, own, _ in self._tokens:
            if hmac.compare_digest(brought, own):
                owner = person
        return owner

    def with_cookie(self, value: str) -> Person | None:
        """Return the person whose token belongs to a cookie's value (see `cookie_value`), or None if there is none."""
        brought, owner = value.encode(), None
        for person, _, own in self._tokens:
            if hmac.compare_digest(brought, own):
                owner = person
        return owner


def cookie_value(token: str) -> str:
    """Return the value of the cookie for a token. It stays valid when the server restarts."""
    return hmac.digest(token.encode(), b"the cookie of semcep's page", "sha256").hex()


def read_people(file: Path) -> People:
    """Read a file that has one person per line: name, role, token.

    Raises CepError with the line number if the file is not valid. The error never contains a token.
    """
    try:
        with open(file, encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read()
    except UnicodeDecodeError:
        raise CepError(f"--token-file {file}: the file is not text in UTF-8", hint=_FORM, code="option") from None
    except OSError as error:
        raise CepError(f"--token-file {file}: {reason_of(error)}", code="option") from None
    if stat.S_ISREG(mode) and mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        who = (
            "its group or others can change the file"
            if mode & (stat.S_IWGRP | stat.S_IWOTH)
            else "others can read the file"
        )
        message = f"--token-file {file}: {who} (its mode is {stat.S_IMODE(mode):04o}; only its group may also read it)"
        raise CepError(message, hint=f"`chmod 600 {file}`", code="option")
    tokens: dict[Person, str] = {}
    lines: dict[str, int] = {}  # characters of names and tokens
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        where = f"--token-file {file}, line {number}"
        person, token = _person(where, fields)
        if (first := lines.get(person.name)) is not None:
            message = f"{where}: `{person.name}` has a token already, in line {first}"
            raise CepError(message, hint="each person has one token", code="option")
        if token and (first := lines.get(" " + token)) is not None:
            message = f"{where}: `{person.name}` has the token of line {first}"
            raise CepError(message, hint="each person has a token of their own: `openssl rand -hex 32`", code="option")
        lines[person.name] = lines[" " + token] = number
        tokens[person] = token
    if not tokens:
        raise CepError(f"--token-file {file}: the file names nobody", hint=_FORM, code="option")
    return People(tokens)


def _person(where: str, fields: list[str]) -> tuple[Person, str]:
    """Convert the fields of a line to a person and a token. `where`: the position of the line, for errors."""
    if len(fields) != 3:
        words = "is 1 word" if len(fields) == 1 else f"are {len(fields)} words"
        raise CepError(f"{where}: there {words}, not 3", hint=_FORM, code="option")
    name, role, token = fields
    if not _NAME.fullmatch(name):
        raise CepError(f"{where}: `{name[:40]}` is not a name of at most 64 characters", hint=_FORM, code="option")
    roles = [role.title for role in Role]
    if role not in roles:
        hint = did_you_mean(role, roles) or f"a role is {', '.join(roles[:-1])} or {roles[-1]}"
        raise CepError(f"{where}: `{role[:40]}` is not a role", hint=hint, code="option")
    if token == NO_TOKEN:
        return Person(name, Role[role.upper()]), ""
    if len(token) < SHORTEST or not (token.isascii() and token.isprintable()) or _BAD & set(token):
        message = f"{where}: the token of `{name}` is too short, or has characters that a token cannot have"
        hint = f"{SHORTEST} letters and digits or more: `openssl rand -hex 32`"
        raise CepError(message, hint=hint, code="option")
    return Person(name, Role[role.upper()]), token


def person_of(request: Request) -> Person | None:
    """Return the person who sent the request, or None if the server has no tokens."""
    person = getattr(request.state, "person", None)
    assert person is None or isinstance(person, Person), "the guard says who it is"
    return person


def require(request: Request, role: Role, what: str) -> Person:
    """Return the person who sent the request. Raises HTTPException (403) if the action `what` is forbidden.

    An action is forbidden if the person does not have the role, if the server has no tokens, or if a page of another
    site sent the request.
    """
    refuse_other_pages(request)
    person = person_of(request)
    if person is None:
        raise HTTPException(403, f"{what} needs a server with tokens: `--token-file`")
    if person.role < role:
        raise HTTPException(403, f"{what} needs the role {role.title}; {person.name} is {person.role.title}")
    return person


def acting(role: Role, what: str, local: bool) -> Callable[[Request], Person]:
    """Return a dependency like `requires`. `local`: True if every client of a server without tokens has the role.

    Set `local` only if other machines cannot reach the server.
    """

    def acted(request: Request) -> Person:
        if local and person_of(request) is None:
            refuse_other_pages(request)
            return Person(LOCAL, role)
        return require(request, role, what)

    return acted


def requires(role: Role, what: str) -> Callable[[Request], Person]:
    """Return a dependency for FastAPI routes that checks a role. It returns the person who sent the request.

    It raises the errors of `require`.
    """

    def required(request: Request) -> Person:
        return require(request, role, what)

    return required


def refuse_other_pages(request: Request) -> None:
    """Raise HTTPException (403) if the browser reports that a page of another site sent the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site in ("same-origin", "none"):
        return
    if site is not None or (origin is not None and urlsplit(origin).netloc != request.headers.get("host")):
        raise HTTPException(403, "requests from pages of another server are refused")
