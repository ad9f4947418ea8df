"""RDF files as columns of term ids: Turtle, N-Triples, N-Quads, TriG, RDF/XML and JSON-LD, also with gzip."""

from __future__ import annotations

import glob
import gzip
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
import pyoxigraph as ox

from cep.core.errors import CepError, CepErrors
from cep.core.signals import stops
from cep.core.storage import files as stored
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import is_pattern, is_url, local_path, url
from cep.core.suggest import astray, beside
from cep.core.unpacking import Unpacked
from cep.core.values import Ints
from cep.knowledge import places
from cep.knowledge.rdf.guarded_file import guarded
from cep.knowledge.rdf.parse_errors import unreadable
from cep.knowledge.rdf.terms import NONE, Terms

FORMATS = {
    ".ttl": ox.RdfFormat.TURTLE,
    ".nt": ox.RdfFormat.N_TRIPLES,
    ".nq": ox.RdfFormat.N_QUADS,
    ".trig": ox.RdfFormat.TRIG,
    ".rdf": ox.RdfFormat.RDF_XML,
    ".owl": ox.RdfFormat.RDF_XML,
    ".xml": ox.RdfFormat.RDF_XML,
    ".jsonld": ox.RdfFormat.JSON_LD,
}
"""The RDF format for each file suffix. The suffix `.gz` may follow; it means that the file is compressed."""

_SERVICE = "sensorthings+"
_CHUNK = 200_000  # triples per batch
GENERATED = re.compile("[0-9a-f]{20,32}")  # labels that the parser generates


@dataclass(frozen=True, slots=True)
class Quads:
    """Quads as four columns of ids: subjects, predicates, objects and graphs. The id NONE stands for the default graph.
    A quad may occur several times."""

    s: Ints
    p: Ints
    o: Ints
    g: Ints

    def rows(self, rows: slice) -> Quads:
        return Quads(self.s[rows], self.p[rows], self.o[rows], self.g[rows])

    @classmethod
    def joined(cls, parts: Sequence[Quads]) -> Quads:
        nothing: Ints = np.empty(0, dtype=np.int64)
        s, p, o, g = (
            (
                np.concatenate([nothing, *columns])
                for columns in zip(*((q.s, q.p, q.o, q.g) for q in parts), strict=True)
            )
            if parts
            else (nothing,) * 4
        )
        return cls(s, p, o, g)


class BlankNodeLabels:
    """Labels for the blank nodes of several files. The same label in two files means two different nodes.

    A node keeps its label unless an earlier file has used the same label. Nodes without a label are named `b1`, `b2`,
    ... in order of appearance.
    """

    def __init__(self, prefix: str = "b") -> None:
        self._prefix = prefix
        self._taken: set[str] = set()
        self._labels_made = 0
        self._file: dict[str, str] = {}

    def next_file(self) -> None:
        self._file = {}

    def renamed(self, labels: Iterable[str]) -> dict[str, str]:
        """Assign labels to blank nodes of the current file. Return the new label of each label used so far."""
        for label in labels:
            if label not in self._file:
                self._file[label] = self._new() if label in self._taken or GENERATED.fullmatch(label) else label
                self._taken.add(self._file[label])
        return self._file

    def _new(self) -> str:
        while (label := f"{self._prefix}{self._labels_made + 1}") in self._taken:
            self._labels_made += 1
        self._labels_made += 1
        return label


def is_service(name: str | Path) -> bool:
    """Return True if the name is the address of a SensorThings service rather than a file."""
    return isinstance(name, str) and name.startswith(_SERVICE)


def files(names: str | Path | Iterable[str | Path]) -> list[Path | str]:
    """Return the sources for the given names, in the given order.

    A name is a file, a built-in register of places (a name in `places.PACKAGES`) or a dump of GeoNames, a folder, or a
    pattern. The files in a folder, and the files that match a pattern, are sorted by name. Raises CepError if a file
    does not exist or has an unknown type.
    """
    paths: list[Path | str] = []
    for name in [names] if isinstance(names, str | Path) else names:
        if is_service(name):
            hint = "save the things of the service to a file: `cep knowledge fetch ADDRESS > things.nt`"
            shown = str(name).partition("?")[0]
            raise CepError(f"{shown}: this is a service, but knowledge is read from files", hint=hint, code="knowledge")
        if isinstance(name, str) and is_url(name):
            paths += _stored(str(url(name)))
            continue
        name = local_path(name) if isinstance(name, str) else name
        path = Path(name)
        if places.is_register(name) and not path.is_dir():
            paths.append(name)
        elif path.is_dir():
            inside = [file for file in sorted(path.iterdir()) if rdf_format(file) or places.is_register(file)]
            if not inside:
                raise CepError(f"the folder {path} has no files of knowledge", hint=_known(), code="knowledge")
            paths += inside
        elif path.exists():
            paths.append(path)
        else:
            matching = sorted(glob.glob(str(name), recursive=True)) if glob.has_magic(str(name)) else []
            if not matching and (lost := astray(path)) is not None:
                raise CepError(f"{name}: {lost}", code="knowledge")
            if not matching:
                raise CepError(f"{name}: no such file", hint=_alike(path) or _unknown(path), code="knowledge")
            paths += files(matching)
    return paths


def at(source: Path | str) -> Path | str:
    """Convert a source to a Path, unless it is an address in a remote file system."""
    return source if isinstance(source, str) and is_url(source) else Path(source)


def _stored(name: str) -> list[Path | str]:
    """Return the RDF files at an address in a remote file system. Raises CepError if there are no RDF files."""
    try:
        entry = None if is_pattern(name) else stored.found(name)
        if entry is not None and not entry.folder:
            return [name]
        inside = stored.matching(name) if entry is None and is_pattern(name) else stored.listed(name)
    except StorageError as error:
        raise CepError(f"{name}: {error.strerror}", hint=error.hint, code="knowledge") from None
    addresses: list[Path | str] = [file.address for file in inside if not file.folder and rdf_format(Path(file.name))]
    if not addresses:
        what = "no such file" if entry is None else "the folder has no files of knowledge"
        raise CepError(f"{name}: {what}", hint=_known(), code="knowledge")
    return addresses


def load(names: str | Path | Iterable[str | Path], terms: Terms) -> Quads:
    """Load all sources. Raise one CepError with the first mistake of each source that cannot be read."""
    parts: list[Quads] = []
    errors: list[CepError] = []
    labels = BlankNodeLabels()
    for source in files(names):
        labels.next_file()
        try:
            if not isinstance(at(source), str) and places.is_register(source):
                s, p, o = places.read_places(source, terms)
                parts.append(Quads(s, p, o, np.full(len(s), NONE, dtype=np.int64)))
            else:
                parts += read_triples(at(source), terms, labels)
        except CepError as error:
            errors += error.errors if isinstance(error, CepErrors) else [error]
    if errors:
        raise errors[0] if len(errors) == 1 else CepErrors(errors)
    return Quads.joined(parts)


def read_triples(path: Path | str, terms: Terms, labels: BlankNodeLabels) -> Iterator[Quads]:
    """Yield the triples of an RDF file, in batches. Raises CepError, with line and column, if the file is invalid."""
    with _parsing(path) as (parser, format):
        yield from triple_columns(parser, terms, labels, format.supports_datasets)


def read_quads(path: Path) -> list[ox.Quad]:
    """Return the quads of an RDF file with their original blank node labels. Raises CepError if the file is invalid."""
    with _parsing(path) as (parser, _):
        return list(parser)


def subjects(path: Path | str, wanted: AbstractSet[str]) -> tuple[set[str], dict[str, str]]:
    """Return the terms of `wanted` that are the subject of a triple in an RDF file, and the prefixes of the file.

    Terms are written as in N-Triples. Blank nodes are never found, because the knowledge gives them other labels.
    Raises CepError if the file cannot be read.
    """
    with _parsing(path) as (parser, _):
        iris = {str(quad.subject) for quad in parser}
        return iris & wanted, dict(getattr(parser, "prefixes", {}))


@contextmanager
def _parsing(path: Path | str) -> Iterator[tuple[Iterator[ox.Quad], ox.RdfFormat]]:
    """Open a file, and yield its parser and its format. Convert errors of the file and of the parser to CepError."""
    format = rdf_format(path)
    if format is None:
        raise CepError(f"{path} does not have the suffix of a known format", hint=_known(), code="knowledge")
    try:
        with open_rdf(path) as file:
            yield ox.parse(guarded(file, str(path), format), format, base_iri=base_iri(path)), format
    except SyntaxError as error:
        raise unreadable(error, str(path), format, lambda: open_rdf(path)) from None
    except StorageError as error:
        raise CepError(f"{path} cannot be read: {error.strerror}", hint=error.hint, code="knowledge") from None
    except (OSError, EOFError) as error:  # an error of the file system, or of gzip
        raise CepError(f"{path} cannot be read: {str(error).lower()}", code="knowledge") from None
    except TripleTerm as error:
        raise CepError(f"{path} cannot be read: {error}", code="knowledge") from None


def quads_of(text: str, name: str) -> list[ox.Quad]:
    """Parse a text in TriG (which includes Turtle and N-Triples) or in N-Quads.

    Raises CepError, with line and column, if the text is invalid.
    """
    errors: list[tuple[tuple[int, int], CepError]] = []
    for format in (ox.RdfFormat.TRIG, ox.RdfFormat.N_QUADS):
        try:
            return list(ox.parse(guarded(io.BytesIO(text.encode()), name, format), format))
        except SyntaxError as error:
            mistake = unreadable(error, name, format, lambda: io.BytesIO(text.encode()))
            errors.append(((error.lineno or 0, error.offset or 0), mistake))
    raise max(errors, key=lambda attempt: attempt[0])[1]  # the error of the format that parsed more of the text


class TripleTerm(ValueError):
    """An error for a triple that is used as a term in another triple."""

    def __init__(self) -> None:
        super().__init__("a triple is a term of another triple, which RDF 1.1 does not allow")


def triple_columns(
    quads: Iterable[ox.Quad] | Iterable[ox.Triple], terms: Terms, labels: BlankNodeLabels | None, graphs: bool = True
) -> Iterator[Quads]:
    """Yield triples or quads as columns of ids, in batches. Raises TripleTerm if a triple is a term of another triple.

    Oxigraph first writes the quads as canonical N-Quads, because this text can be split into columns quickly.

    - `labels`: new labels for blank nodes. None keeps the old labels.
    - `graphs`: False if the input has no named graphs, so that all triples belong to the default graph.
    """
    iterator: Iterator[Any] = iter(quads)
    while True:
        written = ox.serialize(islice(iterator, _CHUNK), format=ox.RdfFormat.N_QUADS)
        assert written is not None, "without an output the text is given back"
        if not written:
            return
        yield _split(written.decode(), terms, labels, graphs)


_TERM = r'<[^>]*>|_:\S+|"(?:[^"\\]|\\.)*"(?:\^\^<[^>]*>|@[A-Za-z0-9-]+)?'


def _split(text: str, terms: Terms, labels: BlankNodeLabels | None, graphs: bool) -> Quads:
    lines = pl.Series([text.removesuffix("\n")]).str.split("\n").explode()
    s, p, rest = lines.str.splitn(" ", 3).struct.unnest()
    if rest.str.starts_with("<<(").any():
        raise TripleTerm
    o, g = rest.str.head(-2), pl.Series([None], dtype=pl.String).new_from_index(0, len(rest))
    if graphs:
        o, g = rest.str.extract_groups(rf"^(?<o>{_TERM})(?: (?<g>{_TERM}))? \.$").struct.unnest()
    if labels is not None:
        s, o, g = _relabelled((s, o, g), labels)
    named = g.is_not_null()
    names: Ints = np.full(len(g), NONE, dtype=np.int64)
    if named.any():
        names[named.to_numpy()] = terms.tokens(g.filter(named))
    return Quads(terms.tokens(s), terms.tokens(p), terms.tokens(o), names)


def _relabelled(columns: tuple[pl.Series, ...], labels: BlankNodeLabels) -> tuple[pl.Series, ...]:
    blank = [column.str.starts_with("_:").fill_null(False) for column in columns]
    if not any(mask.any() for mask in blank):
        return columns
    rows = [mask.arg_true().cast(pl.Int64) * len(columns) + i for i, mask in enumerate(blank)]
    tokens = pl.DataFrame({"at": pl.concat(rows), "token": pl.concat([c.filter(m) for c, m in zip(columns, blank)])})
    order = tokens.sort("at")["token"].unique(maintain_order=True)
    names = labels.renamed(order.str.slice(2).to_list())
    table = pl.DataFrame({"token": order, "new": ["_:" + names[token[2:]] for token in order.to_list()]})
    return tuple(
        column.to_frame("token")
        .join(table, on="token", how="left", maintain_order="left")
        .select(pl.coalesce("new", "token"))
        .to_series()
        for column in columns
    )


def rdf_format(path: Path | str) -> ox.RdfFormat | None:
    path = Path(path)
    suffix = path.suffix.lower()
    return FORMATS.get(Path(path.stem).suffix.lower() if suffix == ".gz" else suffix)


def _alike(path: Path) -> str | None:
    near = beside(path)
    return None if near is None else f"did you mean {near}?"


def _unknown(path: Path) -> str | None:
    return None if rdf_format(path) is not None else _known()


def _known() -> str:
    registers = ", ".join(places.PACKAGES)
    return f"use a file that ends in {' '.join(FORMATS)} (or .gz), a GeoNames dump, or a register: {registers}"


def base_iri(path: Path | str) -> str:
    """Return the base IRI for relative IRIs in a file."""
    return path if isinstance(path, str) else path.resolve().as_uri()


def open_rdf(path: Path | str) -> IO[bytes]:
    stops.interrupt_reads()
    file: Any = stored.StoredFile(path) if isinstance(path, str) else path
    if Path(path).suffix.lower() == ".gz":
        unpacking: Any = gzip.open(file)  # noqa: SIM115
        return io.BufferedReader(Unpacked(unpacking, unpacking.fileobj.tell), 1 << 20)
    return io.BufferedReader(file, 1 << 20) if isinstance(path, str) else path.open("rb")
