"""What `cep serve` is asked for: its options as they were given, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cep.app.durations import duration, refuse
from cep.app.knowledge_feed import arrives
from cep.core.logs import Log
from cep.core.suggest import did_you_mean
from connectors.feeds import document
from connectors.feeds.senders import targets
from connectors.feeds.targets import Target
from connectors.ip import here, named
from connectors.serving import root_path

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Hosts by which only this machine reaches a server."""

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
REMEMBERED = "24h"
"""The default of `--remember`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options, named as on the command line but for `updates` (`--knowledge-updates`)."""

    rules: Path
    inputs: Sequence[str]
    format: str | None
    on: str | None
    host: str
    port: int
    state: Path | None
    keep: str | None
    readings: bool
    explain: bool
    remember: str | None
    feed: Sequence[str]
    sender: str | None
    status: str
    base: str
    token_file: Path | None
    open: bool
    allow_origin: Sequence[str]
    allow_host: Sequence[str]
    rate: float
    streams: int | None
    root_path: str
    query_seconds: float
    query_bytes: int
    query_memory: int
    log_queries: bool
    policy: str | None
    lateness: str | None
    idle: str | None
    dead_letter: str | None
    facts: list[str] | None
    knowledge: list[str] | None
    reasoning: str | None
    updates: Sequence[str]
    batch: int
    max_derivations: int
    log: Log

    @property
    def local(self) -> bool:
        """Only this machine reaches it."""
        return here(self.host)

    @property
    def elsewhere(self) -> bool:
        """The rules run on Spark, and what they derive is read."""
        return self.on is not None

    @property
    def kept(self) -> int | None:
        """For how long after their end events are kept, microseconds; None: for good."""
        return None if self.keep is None else duration(self.keep, "--keep")

    @property
    def remembered(self) -> int | None:
        """For how long after its end an event can be asked why, microseconds; None: it cannot."""
        return duration(self.remember or REMEMBERED, "--remember") if self.explain else None

    @property
    def receivers(self) -> list[Target]:
        """Where alerts are sent."""
        return targets(self.feed)

    @property
    def hosts(self) -> frozenset[str]:
        """The names by which a server on this machine is asked: pages of others cannot take one of them. Elsewhere
        any."""
        if not self.local and not self.allow_host:
            return frozenset()
        return frozenset(map(named, (*LOCAL, self.host, *self.allow_host)))

    @property
    def root(self) -> str:
        """The path below which a proxy shows it, without its last slash."""
        return root_path.root(self.root_path)

    def token(self) -> str | None:
        """What requests have to bring. CepError: there is none, and the server is not for this machine alone."""
        if self.token_file is not None:
            return _token(self.token_file)
        if not self.local and not self.open:
            hint = "`--token-file FILE` asks for a token (`openssl rand -hex 32 > FILE`); `--open` does without"
            raise refuse(f"--host {self.host}: there is no token, so whoever reaches it could ask", hint)
        return None

    def check(self) -> None:
        """CepError: an option is wrong by itself, or does not go with another."""
        _ = self.kept, self.remembered, self.receivers, self.root
        if self.remember is not None and not self.explain and self.on is None:
            raise refuse("--remember: there is no --explain", "what led to events is kept with `--explain`")
        if not self.inputs:
            raise refuse("there is no --input", "name a file, or `--input -` for standard input")
        self._check_on()
        if self.status not in document.STATUSES:
            meant = did_you_mean(self.status, document.STATUSES)
            raise refuse(f"--status: `{self.status}` is none", meant or f"it is one of {', '.join(document.STATUSES)}")
        if not _IRI.fullmatch(self.base):
            raise refuse(f"--base: `{self.base}` begins no IRI", "e.g. `--base https://example.org/storms/`")
        if self.sender is not None:
            document.parse_sender(self.sender)
        for name in self.updates:
            if arrives(name) and not Path(name).is_file():
                raise refuse(f"--knowledge-updates {name}: `cep serve` reads changes from files")

    def _check_on(self) -> None:
        """CepError: the rules run nowhere, or what is given is for a run in this process."""
        if self.on is None:
            return
        if self.on != "spark":
            raise refuse(f"--on: `{self.on}` is nothing that programs run on", "`--on spark`, or none for one process")
        here = {
            "--readings": self.readings,
            "--explain": self.explain,
            "--remember": self.remember,
            "--format": self.format,
            "--lateness": self.lateness,
            "--idle": self.idle,
            "--knowledge-updates": self.updates,
        }
        for option, value in here.items():
            if value:
                raise refuse(f"{option} is not for `--on spark`", "the folder holds what the job has derived")
        if len(self.inputs) > 1:
            raise refuse("--on spark: there is more than one --input", "the one folder that the job writes")


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise refuse(f"--token-file: {file} is no text") from None
    except OSError as error:
        raise refuse(f"--token-file: {file}: {(error.strerror or str(error)).lower()}") from None
    if len(token) < 16 or not token.isascii() or set(token) & set(' ";,\\\t\r\n'):
        raise refuse(f"--token-file: {file} holds no good token", "16 letters or more: `openssl rand -hex 32 > token`")
    return token
