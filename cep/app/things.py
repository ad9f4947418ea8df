"""Things of SensorThings services as knowledge. They are fetched when the run starts, and again at intervals."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from cep.connectors.addresses import Address, address
from cep.connectors.brokers.sources import FIRST, LONGEST
from cep.connectors.brokers.things import service_iri, things
from cep.connectors.records.batch import Batch
from cep.core.durable_files import sync_names, write_whole
from cep.core.errors import CepError, reason_of
from cep.core.logs import Log
from cep.core.private_files import private_folder
from cep.knowledge.load import is_service

if TYPE_CHECKING:
    from cep.knowledge.graph import Knowledge
    from cep.runtime.knowledge_changes import KnowledgeChanges

_OPTIONS = ("every", "page", "private", "ca", "cert", "key", "format")
_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class ThingsService:
    """A SensorThings service. `every`: the seconds between two fetches, or None to fetch only at the start."""

    address: Address
    every: float | None

    @classmethod
    def of(cls, text: str) -> ThingsService:
        """Parse the address of a service. Raises CepError if the text is not the address of a service, or if the
        address contains a wrong option."""
        place = address(text)
        place = replace(place, text=place.text.removesuffix("/Observations"))
        if place.kind != "sensorthings":
            hint = "`sensorthings+https://host/FROST-Server/v1.1`"
            raise CepError(f"{place.text}: only SensorThings over HTTP has Things", hint=hint, code="option")
        for option in place.options:
            if option not in _OPTIONS:
                hint = f"the options of knowledge are {', '.join(_OPTIONS[:-1])}"
                raise place.refused(f"`{option}` is an option of an input, not of knowledge", hint)
        service_iri(place)
        _ = place.number("page", 100, 1)
        return cls(place, place.number("every", _EVERY, 1) if "every" in place.options else None)

    @property
    def name(self) -> str:
        """Return the address of the service. It is also the name of the graph that contains the service's triples."""
        return service_iri(self.address)

    def triples(self) -> str:
        """Fetch the service's Things, and return them as N-Triples. Raises CepError if they cannot be fetched."""
        from cep.knowledge.things import things_to_rdf

        return things_to_rdf(self.name, things(self.address))

    def quads(self) -> frozenset[str]:
        """Fetch the service's Things, and return them as lines of N-Quads in the service's graph.

        Raises CepError if they cannot be fetched.
        """
        from cep.knowledge.things import in_graph

        return in_graph(self.triples(), self.name)

    def file(self, folder: Path) -> Path:
        """Return the path of the file that stores the Things fetched at the start."""
        return folder / f"things-{blake2b(self.name.encode(), digest_size=8).hexdigest()}.nq"


def services(names: Sequence[str]) -> list[ThingsService]:
    """Return the services among the sources of knowledge `names`.

    Raises CepError if an address is wrong, or if a service is named twice.
    """
    listed = [ThingsService.of(name) for name in names if is_service(name)]
    for service in listed:
        if sum(other.name == service.name for other in listed) > 1:
            raise service.address.refused("this service is named twice as --knowledge")
    return listed


@contextmanager
def as_files(names: Sequence[str], folder: Path | None = None) -> Iterator[list[str]]:
    """Fetch each service into a file. Yield the names of all sources of knowledge, with files in place of services.

    `folder`: the folder for the files. If it already contains the file of a service, the service is not fetched again.
    Raises CepError if a service cannot be fetched.
    """
    by_name = {text: ThingsService.of(text) for text in names if is_service(text)}
    services(names)
    with TemporaryDirectory(prefix="semcep-") as temporary:
        files = {}
        for text, service in by_name.items():
            file = files[text] = service.file(folder or Path(temporary))
            if not file.is_file():
                _write(file, service.quads())
        yield [str(files[name]) if name in files else name for name in names]


def _write(file: Path, lines: frozenset[str]) -> None:
    try:
        private_folder(file.parent)
        write_whole(file, "".join(f"{line}\n" for line in sorted(lines)).encode())
        sync_names(file.parent)
    except OSError as error:
        raise CepError(f"{file}: {reason_of(error)}", code="knowledge") from None


def check_refreshed(names: Sequence[str], live: bool) -> None:
    """Raise CepError if the input is files, but a service must be fetched again during the run."""
    for service in services(names):
        if service.every is not None and not live:
            hint = "leave out `every`, or use live input"
            reason = "`every` fetches Things again while records arrive"
            raise service.address.refused(f"{reason}, but the input is files", hint)


class ThingsFollower:
    """A follower of services. It fetches them repeatedly in threads, and adds changed triples to a run's batches.

    A change takes effect before the records of the batch that contains it. So the journal contains the change, and a
    run that continues from the journal repeats it.
    """

    def __init__(
        self, names: Sequence[str], known: Knowledge | None, changes: KnowledgeChanges | None, kept: bool, log: Log
    ) -> None:
        """Record each service's triples in the knowledge, with which later fetches are compared.

        - `known`: the loaded knowledge.
        - `changes`: the changes of the knowledge so far.
        - `kept`: True if the loaded Things are from an earlier run. Then each service is fetched again at once.
        """
        self._services = [service for service in services(names) if kept or service.every is not None]
        self._kept, self._log = kept, log
        self._fetched: dict[str, frozenset[str]] = {}
        self._over = threading.Event()
        self._known: dict[str, frozenset[str]] = {}
        if self._services and known is not None:
            from cep.knowledge.things import known_in_graph

            past = [] if changes is None else [*changes.applied, *(pending.change for pending in changes.pending)]
            self._known = {service.name: known_in_graph(known, past, service.name) for service in self._services}

    def repeated(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches that are replayed from the journal, and record their changes of the services' triples."""
        from cep.knowledge.change import Change

        for batch in batches:
            if batch.knowledge:
                change = Change.read(batch.knowledge)
                for name, lines in self._known.items():
                    come = (line for line in change.added if line.endswith(f" <{name}> ."))
                    self._known[name] = (lines - change.removed) | frozenset(come)
            yield batch

    def followed(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches. Add to each the changes of the services' triples since the previous batch."""
        for service in self._services:
            threading.Thread(target=self._run, args=(service,), name="things", daemon=True).start()
        try:
            for batch in batches:
                change = self._change()
                yield replace(batch, knowledge=change) if change else batch
        finally:
            self._over.set()

    def _change(self) -> bytes:
        """Return the difference between the fetched and the recorded triples as a change of the knowledge. Returns
        empty bytes if the triples are the same."""
        from cep.knowledge.change import Change

        gone, come = set[str](), set[str]()
        for name in sorted(self._fetched):
            now, before = self._fetched.pop(name), self._known[name]
            gone |= before - now
            come |= now - before
            self._known[name] = now
        if not gone and not come:
            return b""
        text = f"the Things have changed: {len(come):,} triples added, {len(gone):,} removed"
        self._log("knowledge", text, added=len(come), removed=len(gone))
        return Change(frozenset(gone), frozenset(come)).written()

    def _run(self, service: ThingsService) -> None:
        """Fetch a service repeatedly until the run is over. Wait longer after each failure."""
        every, shown = service.every, service.address.text
        wait, failing = 0.0 if self._kept else every or 0.0, FIRST
        lost = False
        while not self._over.wait(wait):
            try:
                self._fetched[service.name] = service.quads()
            except CepError as error:
                if not lost:
                    reason = error.message.partition(": ")[2] or error.message
                    text = (
                        f"{shown}: the Things cannot be fetched: {reason}; semcep keeps the known ones and tries again"
                    )
                    self._log("source", text, "warning", source=shown, lost=True)
                lost, wait, failing = True, failing, min(2 * failing, LONGEST)
                continue
            if lost:
                self._log("source", f"{shown}: the Things can be fetched again", source=shown, lost=False)
            if every is None:
                return
            lost, wait, failing = False, every, FIRST
