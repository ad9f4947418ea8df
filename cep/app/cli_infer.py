"""`cep infer`: print a first draft of an event declaration for a file of records."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cep.app import completions
from cep.app.command_line import takes
from cep.app.terminal import say

if TYPE_CHECKING:
    from cep.connectors.infer.declaration import Inferred
    from cep.connectors.infer.sample import RecordSample

WIDTH = 80
"""The greatest width of a line that contains both an attribute and a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InferOptions:
    file: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="Records: JSON, CSV, TSV, Zeek, Parquet, SenML, SensorThings, line protocol or Prometheus; `-` reads "
            "standard input.",
            autocompletion=completions.record_files,
        ),
    ]
    event: Annotated[str | None, Option(metavar="NAME", help="Name of the event. Default: the name of the file.")] = (
        None
    )
    format: Annotated[
        str | None,
        Option(
            metavar="FORMAT",
            autocompletion=completions.record_formats,
            help="jsonl, csv, tsv, parquet, senml, sensorthings, influx or prometheus. Default: by the suffix.",
        ),
    ] = None
    records: Annotated[int, Option(metavar="N", min=1, help="Number of records to read.")] = 50_000


@takes(InferOptions)
def infer(options: InferOptions) -> None:
    """Print an event declaration that reads a file of records.

    \b
      cep infer data.jsonl
      cep infer weather.csv --event reading > rules.cep
      curl http://localhost/metrics | cep infer - --format prometheus

    The declaration has the types, the time and its format, the paths of nested values, and the marks of missing values.
    Comments name values that occurred. It is a proposal, based on the first records: read it, and correct it.
    """
    file = options.file
    if str(file) == "-":
        _from_input(options)
        return
    if not file.is_file():
        from cep.core.errors import CepError
        from cep.core.suggest import missing

        what = "is a folder" if file.is_dir() else "no such file"
        hint = "name a file in it" if file.is_dir() else missing(file)
        raise CepError(f"{file}: {what}", hint=hint)
    _print(file, options)


def _from_input(options: InferOptions) -> None:
    """Infer a declaration from standard input. The input is first copied to a file, so that it can be read twice."""
    from cep.core.errors import CepError

    with TemporaryDirectory() as folder:
        file = Path(folder) / "data"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        with file.open("rb") as stream:
            like_json = stream.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
        try:
            _print(file.rename(file.with_suffix(".jsonl")) if like_json else file, options)
        except CepError as error:
            message = error.message.replace(f"{file.with_suffix('.jsonl')}", "-").replace(f"{file}", "-")
            message = message.replace("the format is not known from the name of the file", "the format is not known")
            raise CepError(message, hint=error.hint, code=error.code) from None


def _print(file: Path, options: InferOptions) -> None:
    from cep.connectors.infer.declaration import inferred
    from cep.connectors.infer.files import samples

    stem = file.name.removesuffix(file.suffix) if file.suffix in (".gz", ".zst") else file.name
    for number, sample in enumerate(samples(file, options.records, options.format)):
        if number:
            say("")
        say(_written(inferred(sample, options.event or Path(stem).stem), sample))


def _seen(inferred: Inferred, sample: RecordSample) -> str:
    from cep.connectors.records.paths import EACH, path, source_of

    count = sample.count if sample.records is None else sample.records
    text = "from 1 record" if count == 1 else f"from {count:,} records"
    times = (inferred.schema.time, inferred.schema.start, inferred.schema.end)
    sources = [*map(source_of, inferred.schema.attributes), *(time for time in times if time is not None)]
    if sample.series is not None and any(EACH in path(source) for source in sources):
        events = "1 event" if sample.count == 1 else f"{sample.count:,} events"
        text += f", {events}: the elements of `{sample.series}`"
    return text


def _written(inferred: Inferred, sample: RecordSample) -> str:
    """Return the inferred declaration. Each line contains one attribute, and a note about its values."""
    from cep.rules.printing import attribute, declaration

    schema = inferred.schema
    behind = declaration(
        schema.name,
        (),
        None,
        schema.time,
        schema.start,
        schema.end,
        schema.further,
        schema.format,
        None,
        schema.records,
        None,
        schema.when,
    )
    tail = behind.removeprefix(f"{schema.name}()").strip()
    lines = [f"% {_seen(inferred, sample)}"]
    for remark in inferred.remarks:
        lines += wrap(remark, WIDTH, initial_indent="% ", subsequent_indent="%   ", break_on_hyphens=False)
    if inferred.facts is not None:
        lines += [f"% to read this table with `--facts {schema.name}=FILE`, declare", f"% {inferred.facts}", "%"]
    lines.append(f"event {schema.name}(")
    texts = [attribute(member) + ("," if member is not schema.attributes[-1] else "") for member in schema.attributes]
    notes = [inferred.notes.get(attribute.name, "") for attribute in schema.attributes]
    wide = _wide(list(zip(map(len, texts), map(len, notes), strict=True)))
    for text, note in zip(texts, notes, strict=True):
        line = f"    {text:{wide}}  % {note}" if note else f"    {text}"
        if note and len(line) > WIDTH:
            lines += wrap(note, WIDTH, initial_indent="    % ", subsequent_indent="    % ")
            line = f"    {text}"
        lines.append(line)
    lines.append(f") {tail}." if tail else ").")
    return "\n".join(lines)


def _wide(lengths: Sequence[tuple[int, int]]) -> int:
    for wide in sorted({text for text, _ in lengths}, reverse=True):
        if all(8 + wide + note <= WIDTH for text, note in lengths if note and text <= wide):
            return wide
    return 0
