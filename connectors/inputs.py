"""The inputs of a run. On the command line, an input is a file such as `weather.csv` or `reading=weather.csv`, a
folder, a file name pattern, a table, `-` for standard input, or an address."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from cep.connectors.addresses import Address, address, bare, live
from cep.connectors.formats.known import BY_SUFFIX, COMPRESSED, FORMATS, KNOWN, NAMES, Format
from cep.connectors.records.records import closest
from cep.connectors.tables.names import input_table, is_table
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.storage import files as stored
from cep.core.storage.failures import StorageError
from cep.core.storage.urls import is_pattern, is_url, local_path, url
from cep.core.suggest import astray, missing, nearest

_BOUND = re.compile(r"([a-z]\w*)=(.+)", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Input:
    """An input: a file, standard input (`path` is `-`), or a live input (`address` is not None).

    `type`: the event type of all records, or None if each record names its event type. `bound`: True if the user chose
    the event type `type`.
    """

    path: str
    format: str
    type: str | None
    bound: bool
    address: Address | None = None

    @property
    def known(self) -> Format:
        """The properties of the input's format."""
        return FORMATS[self.format]

    def events(self, schemas: Mapping[str, Schema]) -> list[Schema]:
        """Return the event types that a table may contain. This is only `type` if it is not None, and otherwise every
        event type that has a WHEN condition."""
        if self.type is not None:
            return [schemas[self.type]]
        return [schema for schema in schemas.values() if schema.when is not None]

    @property
    def size(self) -> int | None:
        """The size of the file in bytes, or None if the input is not a regular file."""
        if self.path == "-" or self.address is not None:
            return None
        if is_url(self.path):
            return stored.size(self.path)
        status = os.stat(self.path)
        return status.st_size if stat.S_ISREG(status.st_mode) else None


def inputs(
    specs: Sequence[str],
    schemas: Mapping[str, Schema],
    format: str | None = None,
    known: Set[str] = frozenset(),
    unsure: bool = False,
) -> list[Input]:
    """Return the files and live inputs that `specs` name, in the same order. The files of a folder or pattern are
    sorted by name.

    - `format`: one of `NAMES`, or None. It takes precedence over the file name's suffix and the declaration.
    - `known`: the absolute paths of files to skip. A caller that watches a folder passes the files that it has read
      already.
    - `unsure`: True to return a file even if its format, or an event type that its format requires, is unknown (see
      `sure`).

    Raises CepError if a file or an event type does not exist. Unless `unsure` is True, also raises CepError if the
    format of a file, or an event type that its format requires, is unknown.
    """
    if format is not None and format not in NAMES:
        raise CepError(f"`{format}` is not a format of the input", hint=f"formats are {KNOWN}", code="input")
    if not schemas:
        raise CepError("the program reads no events", hint="use an input event in a pattern of a rule", code="input")
    files = []
    for spec in specs:
        name, path = _split(spec, schemas)
        if live(path):
            files.append(_live(path, name, schemas, format))
            continue
        for file in _files(path, spec, known):
            try:
                files.append(_input(file, name, schemas, format))
            except CepError:
                if not unsure:
                    raise
                files.append(Input(file, format or known_format(file) or "", name, name is not None))
    if sum(file.path == "-" for file in files) > 1:
        raise CepError("standard input is named twice", hint="use `-` only once", code="input")
    return files


def sure(source: Input, schemas: Mapping[str, Schema]) -> Input:
    """Return an input with its format and event type filled in. Raises CepError if one of them is unknown."""
    return _input(source.path, source.type if source.bound else None, schemas, source.format or None)


def known_format(path: str) -> str | None:
    """Return the format that a file name's suffix selects, or None. `.gz` or `.zst` may follow, except for Parquet."""
    name = os.path.basename(path).lower()
    stem = name
    for suffix in COMPRESSED:
        stem = stem.removesuffix(suffix)
    format = BY_SUFFIX.get(os.path.splitext(stem)[1])
    return None if format == "parquet" and stem != name else format


def is_endless(spec: str) -> bool:
    """Return True if `spec` names an address, standard input or a pipe, without a check of its event type."""
    match = _BOUND.fullmatch(spec)
    path = spec if match is None or os.path.exists(spec) else match[2]
    return live(path) or path == "-" or (os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path))


def is_live(spec: str, schemas: Mapping[str, Schema]) -> bool:
    """Return True if `spec` names an address. Raises CepError if it names an unknown event type."""
    return live(_split(spec, schemas)[1])


def _split(spec: str, schemas: Mapping[str, Schema]) -> tuple[str | None, str]:
    match = _BOUND.fullmatch(spec)
    if match is None or (match[1] not in schemas and os.path.exists(spec)):
        return None, local_path(spec)
    if match[1] not in schemas:
        near = closest(match[1], list(schemas))
        raise CepError(
            f"{bare(spec)}: no pattern of the program uses an input event `{match[1]}`{near}",
            hint="input events are " + ", ".join(sorted(schemas)),
            code="input",
        )
    return match[1], local_path(match[2])


def _files(path: str, spec: str, known: Set[str]) -> list[str]:
    if path == "-":
        return [path]
    if is_table(path) and not os.path.exists(path):
        from cep.connectors.tables.reading import table_files

        return table_files(input_table(path))
    if is_url(path):
        return _stored(str(url(path)), known)
    if os.path.isdir(path):
        return _listed(path, spec, known)
    if os.path.exists(path):
        return [] if known and os.path.abspath(path) in known else [path]
    if glob.has_magic(path):
        matched = glob.glob(path, recursive=True)
        new = [file for file in matched if os.path.abspath(file) not in known] if known else matched
        files = sorted(file for file in new if not os.path.isdir(file))
        if files or len(new) < len(matched):
            return files
        raise CepError(f"{bare(spec)}: no file matches", hint=_instead(path), code="no-files")
    if (lost := astray(Path(path))) is not None:
        raise CepError(f"{bare(spec)}: {lost}", code="no-file")
    raise CepError(f"{bare(spec)}: no such file", hint=missing(Path(path)), code="no-file")


def _stored(path: str, known: Set[str]) -> list[str]:
    """Return the addresses of stored objects, sorted by name. `path`: the address of an object or folder, or a pattern.

    `known`: addresses to leave out. Raises CepError if no stored object matches.
    """
    try:
        if is_pattern(path):
            every = stored.matching(path)
            if not every:
                raise CepError(f"{path}: no file matches", code="no-files")
        else:
            entry = stored.found(path)
            if entry is None:
                raise CepError(f"{path}: no such file", hint=_beside(path), code="no-file")
            every = [entry]
            if entry.folder:
                every = [entry for entry in stored.listed(path) if not entry.folder and _is_read(entry.name)]
                if not every:
                    raise CepError(f"{path}: no file in this folder ends in {', '.join(BY_SUFFIX)}", code="no-files")
    except StorageError as error:
        raise CepError(f"{path}: {error.strerror}", hint=error.hint, code="input") from None
    return [entry.address for entry in every if entry.address not in known]


def _beside(path: str) -> str | None:
    folder, _, name = path.rstrip("/").rpartition("/")
    near = nearest(name, [entry.name for entry in stored.listed(folder)])
    return None if near is None else f"did you mean `{folder}/{near}`?"


def _instead(pattern: str) -> str:
    """Return a hint for an error about a pattern that matches no file. The hint names files in the folder in which the
    pattern's first wildcard is searched."""
    parts = Path(pattern).parts
    folder = Path(*parts[: next(number for number, part in enumerate(parts) if glob.has_magic(part))])
    if not folder.is_dir():
        return missing(folder / "*") or ""
    with os.scandir(folder) as listed:
        names = sorted(entry.name for entry in listed if _is_read(entry.name))
    if not names:
        return (
            f"the folder `{folder}` has no files of records; to read its subfolders, use `{folder / '**' / parts[-1]}`"
        )
    shown = ", ".join(f"`{name}`" for name in names[:3])
    return f"the folder `{folder}` holds {shown}" + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _listed(path: str, spec: str, known: Set[str]) -> list[str]:
    above = os.path.join(os.path.abspath(path), "")
    with os.scandir(path) as listed:
        entries = list(listed)
    new = [entry for entry in entries if above + entry.name not in known]
    files = sorted(entry.name for entry in new if _is_read(entry.name) and _is_file(entry))
    if not files and len(new) == len(entries):
        suffixes = ", ".join(BY_SUFFIX)
        raise CepError(f"{spec}: no file in this directory ends in {suffixes}", code="no-files")
    return [str(Path(path, name)) for name in files]


def passed_over(specs: Sequence[str], schemas: Mapping[str, Schema]) -> Iterator[str]:
    """Yield a remark for each entry of the specs' folders and patterns that has the name of a readable file, but is a
    folder, or a link to a file that does not exist."""
    for spec in specs:
        path = _split(spec, schemas)[1]
        if live(path) or is_url(path) or path == "-":
            continue
        folder = os.path.isdir(path)
        if folder:
            with os.scandir(path) as listed:
                named = sorted(str(Path(path, entry.name)) for entry in listed)
        else:
            named = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
        for entry in named:
            if not _is_read(os.path.basename(entry)):
                continue
            if os.path.isdir(entry):
                yield f"{entry} is a folder named like a file, and is not read; `--input {entry}` reads the files in it"
            elif folder and os.path.islink(entry) and not os.path.exists(entry):
                yield f"{entry} is a link to {os.readlink(entry)}, which does not exist"


def _is_read(name: str) -> bool:
    """Return True if a file in a folder should be read. This is the case if the suffix of its name selects a format,
    and the name does not begin with a point."""
    return not name.startswith(".") and known_format(name) is not None


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return True if the entry is a file, or a link to itself, so that reading raises the error about the link."""
    try:
        return entry.is_file()
    except OSError:
        return True


def _input(path: str, name: str | None, schemas: Mapping[str, Schema], format: str | None) -> Input:
    format = format or _named_format(path, name, schemas)
    if format is None:
        raise CepError(
            f"{path}: the format is not known from the name",
            hint=f"add `--format jsonl`; formats are {KNOWN}",
            code="input",
        )
    if format == "parquet" and path == "-":
        raise CepError(
            "a Parquet file cannot be read from standard input",
            hint="use the name of the file instead of `-`",
            code="input",
        )
    return Input(path, format, _type(path, name, schemas, format), name is not None)


def _named_format(path: str, name: str | None, schemas: Mapping[str, Schema]) -> str | None:
    """Return the format of a file or of standard input, or None if it is unknown.

    The suffix of the file name usually selects the format. If it selects none, the declared format is used. The
    declared format is also used if it is a special form of JSON and the suffix selects JSON. Standard input is JSON
    Lines unless the declared format is a special form of JSON, line protocol, the Prometheus format or a text table.
    """
    format = known_format(path) if path != "-" else "jsonl"
    declared = _declared_format(name, schemas)
    if format == "jsonl" and declared is not None:
        shape = FORMATS[declared].shape
        if shape == "documents" or (path == "-" and shape in ("points", "table")):
            return declared
    return format or declared


def _declared_format(name: str | None, schemas: Mapping[str, Schema]) -> str | None:
    """Return the format in the declaration of the event type `name`. If `name` is None, return the format that all
    declarations name.

    Return None if the declarations name no format, or different formats.
    """
    named = {
        None if schema.records is None else schema.records.name
        for schema in schemas.values()
        if name in (None, schema.name)
    }
    return named.pop() if len(named) == 1 else None


def _live(path: str, name: str | None, schemas: Mapping[str, Schema], format: str | None) -> Input:
    parsed = address(path)
    for schema in schemas.values():
        if schema.format is not None and schema.format.fold == "order" and name in (None, schema.name):
            hint = "write times with an offset (`%z`), or use `FOLD earlier`, which reads each time by itself"
            raise parsed.refused(f"messages have no order, which `FOLD order` of {schema.name} needs", hint)
    declared = _declared_format(name, schemas)
    format = parsed.options.get("format", format) or (
        declared if declared and FORMATS[declared].of_sensors else "jsonl"
    )
    if format not in FORMATS or FORMATS[format].reader is None:
        known = ", ".join(name for name in NAMES if FORMATS[name].reader is not None)
        raise parsed.refused(f"messages cannot have the format {format}", f"formats of messages are {known}")
    return Input(parsed.text, format, _type(parsed.text, name, schemas, format), name is not None, parsed)


def _type(path: str, name: str | None, schemas: Mapping[str, Schema], format: str) -> str | None:
    """Return the event type of all records in an input. Return None if each record names its event type.

    Raises CepError if the format requires a single event type, but it is unknown.
    """
    type = name or (next(iter(schemas)) if len(schemas) == 1 else None)
    known = FORMATS[format]
    tested = known.shape in ("table", "columns") and any(schema.when is not None for schema in schemas.values())
    if type is None and not known.names_events and not tested:
        raise CepError(
            f"{path}: a file of format {format} holds one event type, but it is not known which",
            hint=f"bind it: `{sorted(schemas)[0]}={path}`; input events are {', '.join(sorted(schemas))}",
            code="input",
        )
    return type
