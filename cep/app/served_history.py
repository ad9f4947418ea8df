"""Inputs `server:URL`: records that a running server stores (`--readings`). They are downloaded to files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cep.app.durations import refuse
from cep.app.server_client import LARGEST, ask, served_address, token_of
from cep.connectors.rdf.vocabulary import RDF, SOSA, EventVocabulary
from cep.core.errors import CepError
from cep.core.schema import Schema

_MOST = 64 * LARGEST
_OPTION = "--input server:"
_RESULTS = "application/sparql-results+json"
_PATH = frozenset('.[]/"')  # characters of a source that is a path, not a column
_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = {"integer": int, "double": float, "float": float, "decimal": float}


@dataclass(frozen=True, slots=True)
class LocalInputs:
    """Inputs in which files replace servers. `servers`: for each file, its former input, such as
    `reading=server:URL`."""

    inputs: tuple[str, ...]
    servers: Mapping[str, str]


def named_place(told: str | None, names: Mapping[str, str]) -> str | None:
    """Replace the path of a file at the start of a message, `FILE:7: ...`, by the file's original name. `names`: the
    original names, by path."""
    path = next((name for name in names if told is not None and told.startswith(f"{name}:")), None)
    return told if told is None or path is None else names[path] + told[len(path) :]


def downloaded(
    inputs: Sequence[str], schemas: Mapping[str, Schema], token_file: Path | None, folder: Path
) -> LocalInputs:
    """Download the records of servers into `folder`. Return the inputs with these files in place of the servers.

    `schemas`: the schemas of the events that the program reads. Raises CepError if a server does not answer, or if an
    event's records cannot be downloaded.
    """
    specs: list[str] = []
    named: dict[str, str] = {}
    servers: dict[str, _Server] = {}
    for source in inputs:
        named_address = served_address(source)
        if named_address is None:
            specs.append(source)
            continue
        name, address = named_address
        if name is not None and name not in schemas:
            known = ", ".join(f"`{schema}`" for schema in sorted(schemas))
            raise refuse(f"--input {source}: the program does not read `{name}`", f"it reads {known}")
        server = servers.setdefault(address, _Server(address, token_of(token_file)))
        before = len(specs)
        for event in [name] if name is not None else sorted(schemas):
            path = folder / f"{len(specs)}-{event}.jsonl"
            if _save(path, schemas[event], server):
                specs.append(f"{event}={path}")
                named[str(path)] = f"{event}=server:{address}"
        if len(specs) == before:
            kept = "the program's events" if name is None else f"`{name}`"
            raise CepError(
                f"--input {source}: the server keeps no record of {kept}", hint="`cep serve --readings` keeps them"
            )
    return LocalInputs(tuple(specs), named)


@dataclass(frozen=True, slots=True)
class _Server:
    """A server, and the token that is sent with each request to it."""

    address: str
    token: str
    _words: list[EventVocabulary] = field(default_factory=list)

    @property
    def words(self) -> EventVocabulary:
        """Return the RDF vocabulary that the server uses for names without IRIs. It depends on the server's `--base`.

        Raises CepError if the server does not return it.
        """
        if not self._words:
            program = self._asked("api/program")
            base = program.get("base") if isinstance(program, dict) else None
            if not isinstance(base, str):
                raise CepError(f"{self.address}: this server does not describe its program; is it `cep serve`?")
            self._words.append(EventVocabulary(base))
        return self._words[0]

    def rows(self, query: str) -> list[Any]:
        """Return the results of a SPARQL query. Raises CepError if the server does not answer the query."""
        answered = self._asked("sparql", urlencode({"query": query}).encode())
        try:
            rows: list[Any] = answered["results"]["bindings"]
        except (KeyError, TypeError):
            raise CepError(f"{self.address}: the answer is not the result of a query; is this `cep serve`?") from None
        return rows

    def _asked(self, path: str, form: bytes | None = None) -> Any:
        accept, method = ("application/json", "GET") if form is None else (_RESULTS, "POST")
        answer = ask(
            self.address, path, self.token, option=_OPTION, method=method, accept=accept, form=form, largest=_MOST
        )
        try:
            return json.loads(answer)
        except ValueError:
            raise CepError(f"{self.address}: the answer is not JSON; is this `cep serve`?") from None


def _save(path: Path, schema: Schema, server: _Server) -> int:
    """Save the records of an event to a file, in the form that the program reads. Return the number of records."""
    time = schema.time or "time"
    columns = {f"a{number}": attribute.source or attribute.name for number, attribute in enumerate(schema.attributes)}
    if not schema.point or schema.format is not None or schema.further or schema.when or schema.fluent is not None:
        why = "only instants with plain times, of events without WHEN, are taken from a server"
        raise _unreadable(schema, why)
    if any(attribute.format is not None for attribute in schema.attributes):
        raise _unreadable(schema, "its attributes have times or durations with a FORMAT")
    if odd := [path for path in (time, *columns.values()) if _PATH & set(path)]:
        raise _unreadable(schema, f"`{odd[0]}` is a path in a record, not a column")
    rows = server.rows(_query(schema, server.words))
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            record = {time: row["time"]["value"], **dict(_values(row, columns))}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return len(rows)


def _unreadable(schema: Schema, why: str) -> CepError:
    hint = "save them with a query, as the page on backtests shows, and name the file"
    return refuse(f"--input server: the records of `{schema.name}` cannot be taken: {why}", hint)


def _query(schema: Schema, words: EventVocabulary) -> str:
    lines = []
    for number, attribute in enumerate(schema.attributes):
        pattern = f"?r <{words.property(schema, number)}> ?a{number} ."
        lines.append(f"OPTIONAL {{ {pattern} }}" if attribute.optional else pattern)
    names = " ".join(f"?a{number}" for number in range(len(schema.attributes)))
    head = f"?r <{RDF}type> <{words.type(schema)}> ; <{SOSA}resultTime> ?time ."
    return f"SELECT ?time {names} {{ {head} {' '.join(lines)} }} ORDER BY ?time ?r"


def _values(row: Mapping[str, Mapping[str, str]], columns: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    for variable, column in columns.items():
        term = row.get(variable)
        if term is None:
            continue
        kind, text = term.get("datatype", "").removeprefix(_XSD), term["value"]
        if kind == "boolean":
            yield column, text == "true"
        else:
            yield column, _NUMBERS[kind](text) if kind in _NUMBERS else text
