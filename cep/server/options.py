"""The options of `cep serve`, and the checks of their combinations."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Option

from cep.app import completions
from cep.app.cli_help import WATCHING
from cep.app.cli_options import (
    BatchSize,
    ChangingKnowledgeOptions,
    DialectOptions,
    EvaluationOptions,
    InputOptions,
    Logging,
    ParameterOptions,
    PlaceOptions,
    RuleFiles,
)
from cep.app.command_line import option_values
from cep.app.durations import duration, refuse, refuse_longer_lateness, revise_duration
from cep.core.logs import LOGS, Log
from cep.core.suggest import did_you_mean

if TYPE_CHECKING:
    from cep.connectors.alerts.maintenance import MaintenanceCalendar
    from cep.connectors.receivers.routes import Routes
    from cep.connectors.receivers.targets import Target
    from cep.connectors.serving.people import People

LOCAL = ("127.0.0.1", "localhost", "::1")
"""Host names under which only this machine can reach a server."""
KEPT = "Storage"
ONE_PROCESS = (
    "--readings", "--explain", "--remember", "--format", "--lateness", "--lateness-by", "--revise", "--ahead", "--idle",
    "--knowledge-updates",
)  # fmt: skip
"""The options that only work if the rules run in this process."""

_PUBLIC = re.compile(r"https?://[^\s/?#@\"<>]+(/[^\s?#\"<>]*)?")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*")
REMEMBERED = "24h"
"""The default of `--remember`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInputOptions(InputOptions):
    revise: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="Correct derived events when an input event arrives late, is corrected or is withdrawn, up to this "
            "long before the latest event: 6h.",
        ),
    ] = None
    batch: BatchSize = 8192

    @property
    def revised(self) -> int | None:
        """The greatest age in microseconds at which results are revised, or None if they are not revised."""
        return None if self.revise is None else revise_duration(self.revise)

    @property
    def taken(self) -> ServerInputOptions:
        """The options for reading the input. If late records revise results, no file is sorted."""
        return self if self.revise is None and self.lateness_by is None else self.as_they_stand


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    PANEL: ClassVar = "Server"

    host: Annotated[str, Option(metavar="HOST", help="Address to listen on; 0.0.0.0 listens on all interfaces.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, Option(metavar="PORT", min=0, max=65_535, help="Port to listen on; 0 picks a free port.")] = (
        8000
    )
    token_file: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Require a token with each request. The file has one line per person: `name role token`.",
        ),
    ] = None
    open: Annotated[
        bool, Option(help="Allow requests without a token, from anyone who can reach --host. There is no HTTPS either.")
    ] = False
    trusted_proxy: Annotated[
        tuple[str, ...],
        Option(
            metavar="ADDRESS",
            help="Trust the X-Forwarded-User header of this proxy, which must remove it from the requests of others: "
            "127.0.0.1. Repeatable.",
        ),
    ] = ()
    allow_origin: Annotated[
        tuple[str, ...],
        Option(metavar="ORIGIN", help="Allow browsers to send requests from pages of this origin (CORS). Repeatable."),
    ] = ()
    allow_host: Annotated[
        tuple[str, ...], Option(metavar="NAME", help="Accept requests for this host name. Repeatable.")
    ] = ()
    rate: Annotated[
        float,
        Option(metavar="N", min=0, help="Largest number of requests per second from one client; 0 means no limit."),
    ] = 100.0
    streams: Annotated[
        int | None,
        Option(
            metavar="N",
            min=0,
            help="Largest number of event streams that one client may hold open; 0 means no limit. Default: 200, and "
            "no limit for this machine.",
        ),
    ] = None
    watch: Annotated[
        bool,
        Option(help="Switch to the new program when one of its files changes and has no errors. For live input."),
    ] = False
    shadow: Annotated[
        tuple[Path, ...],
        Option(
            metavar="FILE",
            help="Run this program on the same live input without notifying anyone; /shadow shows how its results "
            "differ. For a program of several files, repeat the option, in the same order.",
        ),
    ] = ()
    stay: Annotated[
        bool, Option(help="Keep answering requests after the program has failed. Default: exit with status 2 or 3.")
    ] = False
    root_path: Annotated[str, Option(metavar="PATH", help="Path prefix under which a proxy serves it: /semcep.")] = ""

    public_url: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Address to use in links to alerts: https://example.org/semcep/. Default: from --host and --port.",
        ),
    ] = None

    @property
    def local(self) -> bool:
        """True if only this machine can reach the server."""
        from cep.core.ip import here

        return here(self.host)

    @property
    def hosts(self) -> frozenset[str]:
        """The host names that requests may use. An empty set permits any name.

        If only this machine can reach the server, other names are refused, which prevents DNS rebinding.
        """
        from cep.core.ip import canonical_host

        if not self.local and not self.allow_host:
            return frozenset()
        return frozenset(map(canonical_host, (*LOCAL, self.host, *self.allow_host)))

    @property
    def proxies(self) -> frozenset[str]:
        """The addresses of trusted proxies.

        Raises CepError if an entry is not an address, or if no file of roles is set.
        """
        from cep.core.ip import inner

        if self.trusted_proxy and self.token_file is None:
            hint = "add `--token-file FILE`; its line `ann responder -` is for a person without a token"
            raise refuse("--trusted-proxy: a file of people with roles is missing", hint)
        networks = set()
        for text in self.trusted_proxy:
            try:
                networks.add(str(inner(text)))
            except ValueError:
                raise refuse(f"--trusted-proxy {text}: this is not an address", "e.g. 127.0.0.1 or ::1") from None
        return frozenset(networks)

    @property
    def root(self) -> str:
        """The path below which a proxy publishes the server, without its final slash."""
        from cep.connectors.serving import root_path

        return root_path.root(self.root_path)

    @property
    def address(self) -> str:
        """The address at which people open the web page, or "" if it is unknown.

        Raises CepError if `--public-url` is not a valid address.
        """
        if self.public_url is not None:
            return public_url(self.public_url)
        if not self.port:
            return ""
        name = socket.gethostname() if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{name}]' if ':' in name else name}:{self.port}{self.root}/"

    @property
    def link_warning(self) -> str:
        """A warning that people cannot open the links in messages, or "" if they can open them."""
        if self.public_url is not None or not self.local:
            return ""
        hint = "`--public-url https://example.org/` is the address at which people reach the page"
        if not self.address:
            return f"messages have no link to their alert; {hint}"
        return f"links in messages begin with {self.address}, which only this machine reaches; {hint}"

    def people(self) -> People | None:
        """The people who have tokens, or None if requests need no token.

        Raises CepError if other machines can reach the server but no file of tokens is set.
        """
        if self.token_file is not None:
            from cep.connectors.serving.people import read_people

            return read_people(self.token_file)
        if not self.local and not self.open:
            hint = "add `--token-file FILE`, with a line `name role token` per person, or `--open` to allow everyone"
            raise refuse(
                f"--host {self.host}: there are no tokens, so anyone who reaches this address could send requests", hint
            )
        return None


def public_url(text: str) -> str:
    """Return a web address with a final slash. Raises CepError if it is not valid."""
    if not _PUBLIC.fullmatch(text):
        hint = "use the address at which people reach the page: `--public-url https://example.org/semcep/`"
        raise refuse(f"--public-url: `{text[:80]}` must be a web address, without a query", hint)
    return text.rstrip("/") + "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOptions:
    """Options for stored data: the folder, and how long data are kept."""

    PANEL: ClassVar = KEPT

    state: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Store events and alerts in this folder and resume from it. Default: they are lost when the server "
            "stops.",
        ),
    ] = None
    keep: Annotated[
        str | None, Option(metavar="DURATION", help="How long to keep events after their end: 30d. Default: forever.")
    ] = None
    readings: Annotated[bool, Option(help="Store input records too, as observations.")] = False
    explain: Annotated[
        bool,
        Option(help="Record which input each event comes from, so that the server can explain why it was derived."),
    ] = False
    remember: Annotated[
        str | None,
        Option(
            metavar="DURATION",
            help="With --explain: how long after its end an event can be explained, in event time. Default: 24h.",
        ),
    ] = None
    keep_history: Annotated[
        bool,
        Option(
            help="With --revise: keep withdrawn events too, each in a graph of its own with the time of its withdrawal."
        ),
    ] = False
    base: Annotated[str, Option(metavar="IRI", help="Prefix of the IRIs of events.")] = "urn:semcep:"

    @property
    def keep_for(self) -> int | None:
        """The time in microseconds for which events are kept after their end, or None to keep them forever."""
        return None if self.keep is None else duration(self.keep, "--keep")

    @property
    def remembered(self) -> int | None:
        """The time in microseconds for which an event can be explained after its end. None if explanations are off."""
        return duration(self.remember or REMEMBERED, "--remember") if self.explain else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOptions:
    PANEL: ClassVar = "Alerts"

    feed: Annotated[
        tuple[str, ...],
        Option(
            metavar="RECEIVER",
            help="Send alerts to this receiver: cloudevents+https://, mqtt://, alertmanager+http://, smtp://, "
            "apprise+file://. Repeatable.",
        ),
    ] = ()
    routes: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Read receivers, and which alerts go to each, from a TOML file. Receivers of --feed get every alert.",
        ),
    ] = None
    check_routes: Annotated[
        bool, Option("--check-routes", help="Print which receivers each ALERT reaches, and exit.")
    ] = False
    sender: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Sender of alerts, unique to this server: alerts@example.org, or 'Weather Service "
            "<alerts@example.org>'. Default: semcep@ and the host name at the first start.",
        ),
    ] = None
    status: Annotated[
        str,
        Option(
            metavar="STATUS",
            autocompletion=completions.one_of("Actual", "Exercise", "Test"),
            help="Status of alerts: Actual, Exercise or Test.",
        ),
    ] = "Actual"

    maintenance: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Read maintenance windows from an iCalendar file (.ics): events whose description holds matchers, as "
            '{site="north"}.',
        ),
    ] = None

    def calendar(self) -> MaintenanceCalendar | None:
        """Return the calendar of maintenance windows, or None. Raises CepError if it cannot be read."""
        from cep.connectors.alerts.maintenance import MaintenanceCalendar

        return None if self.maintenance is None else MaintenanceCalendar(self.maintenance)

    @property
    def receivers(self) -> list[Target]:
        from cep.connectors.receivers.senders import targets

        return targets(self.feed, self.routing)

    @property
    def routing(self) -> Routes | None:
        """Return the routes to the receivers, or None if each receiver gets every alert.

        Raises CepError if the file of routes is not valid.
        """
        from cep.connectors.receivers.routes import Routes

        return None if self.routes is None else Routes.read(self.routes)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions:
    PANEL: ClassVar = "Queries"

    query_seconds: Annotated[float, Option(metavar="N", min=0.1, help="Time limit of a query, in seconds.")] = 10.0
    query_bytes: Annotated[int, Option(metavar="N", min=1024, help="Size limit of an answer, in bytes.")] = 1 << 26
    query_memory: Annotated[
        int, Option(metavar="BYTES", min=1 << 28, help="Memory limit of the store's process, in bytes.")
    ] = 1 << 32
    log_queries: Annotated[bool, Option(help="With --log json: log the text of each query, not only its duration.")] = (
        False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    PANEL: ClassVar = WATCHING

    log: Logging = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of `cep serve`, with the values from the command line."""

    rules: RuleFiles
    source: ServerInputOptions
    place: PlaceOptions
    server: ServerOptions
    retention: RetentionOptions
    alerts: AlertOptions
    queries: QueryOptions
    dialect: DialectOptions
    parameters: ParameterOptions
    evaluation: EvaluationOptions
    knowledge: ChangingKnowledgeOptions
    logging: LogOptions

    @property
    def name(self) -> str:
        return ", ".join(path.name for path in self.rules)

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the program's files, without folders unless two names would be equal."""
        names = tuple(path.name for path in self.rules)
        return names if len({*names}) == len(names) else tuple(map(str, self.rules))

    def files_texts(self) -> dict[str, str]:
        """Return the current texts of the program's files, by file name. Raises CepError if a file cannot be read."""
        from cep.app.terminal import text_of

        return dict(zip(self.file_names, map(text_of, self.rules)))

    def shadow_texts(self) -> dict[str, str]:
        """Return the texts of the shadow program, by the names of the program's files.

        Raises CepError if a file cannot be read, or if the number of files differs from the program's.
        """
        from cep.app.terminal import text_of

        if len(self.server.shadow) != len(self.rules):
            message = f"--shadow: there are {len(self.server.shadow)} files, but the program has {len(self.rules)}"
            raise refuse(message, "use `--shadow` once for each file of the program, in their order")
        return dict(zip(self.file_names, map(text_of, self.server.shadow)))

    @property
    def changeable(self) -> bool:
        """True if another program may replace this one while the server runs."""
        server = self.server
        changes = server.token_file is not None or server.watch or bool(server.shadow)
        return changes and self.knowledge.service is None

    @property
    def log(self) -> Log:
        """The log to which the server writes."""
        return LOGS[self.logging.log]

    def check(self) -> None:
        """Raise CepError if an option is not valid, or cannot be combined with another option."""
        from cep.app.knowledge_updates import is_stream
        from cep.connectors.receivers import document

        retention, alerts = self.retention, self.alerts
        _ = retention.keep_for, retention.remembered, alerts.receivers, self.source.revised
        _ = self.server.root, self.server.address, self.server.proxies
        if retention.remember is not None and not retention.explain and self.place.on is None:
            raise refuse("--remember: `--explain` is missing", "add `--explain`, which records the origins of events")
        if alerts.check_routes and alerts.routes is None:
            raise refuse("--check-routes: `--routes` is missing", "add `--routes FILE`")
        if not self.source.inputs and not alerts.check_routes:
            raise refuse("there is no --input", "name a file, or `--input -` for standard input")
        if self.place.on_spark:
            self._check_spark()
        self._check_revised()
        if alerts.status not in document.STATUSES:
            hint = did_you_mean(alerts.status, document.STATUSES) or f"use one of {', '.join(document.STATUSES)}"
            raise refuse(f"--status: `{alerts.status}` is not a valid status", hint)
        if not _IRI.fullmatch(retention.base):
            raise refuse(
                f"--base: `{retention.base}` is not the beginning of an IRI",
                "use e.g. `--base https://example.org/storms/`",
            )
        if alerts.sender is not None:
            document.parse_sender(alerts.sender)
        for name in self.knowledge.updates:
            if is_stream(name) and not Path(name).is_file():
                raise refuse(f"--knowledge-updates {name}: `cep serve` reads changes only from files")

    def _check_spark(self) -> None:
        """Raise CepError if an option does not work with `--on spark`, because the rules must run in this process."""
        values = dict(option_values(self))
        for option in ONE_PROCESS:
            if values[option]:
                raise refuse(f"{option} cannot be used with `--on spark`", "leave it out: the job derives the results")
        if len(self.source.inputs) > 1:
            raise refuse("--on spark: there is more than one --input", "use only the folder that the job writes")

    def _check_revised(self) -> None:
        revise, keep = self.source.revised, self.retention.keep_for
        if revise is None:
            if self.retention.keep_history:
                raise refuse("--keep-history needs --revise", "add `--revise`: without it, no event is withdrawn")
            return
        refuse_longer_lateness(self.source.lateness, self.source.revise)
        if keep is not None and keep < revise:
            message = f"--keep {self.retention.keep} is less than --revise {self.source.revise}"
            raise refuse(message, "events that may be corrected must be kept: use a `--keep` that is at least as long")
