"""A check of RDF files for input that would break Oxigraph's parser. Such input raises an error before it is parsed.

The parser does not limit how far entities of RDF/XML expand. So an entity may only be an abbreviation of a namespace,
as in older ontologies. The parser recognises the declaration of an entity anywhere in the text, but only in UTF-8. So a
search for the bytes `<!ENTITY` finds all declarations.
"""

from __future__ import annotations

import io
import re
from typing import Any

import pyoxigraph as ox

from cep.core.errors import CepError, Source, Span
from cep.knowledge.rdf.nesting import TOO_DEEP, Depth, JsonDepth, LineDepth, TurtleDepth, XmlDepth

LONGEST_ENTITY = 200
"""The maximum length of an entity's value in bytes."""

_DECLARATION = b"<!ENTITY"
_ENTITY = re.compile(_DECLARATION + rb'\s{1,20}[^\s%%"]{1,100}\s{1,20}"(?:[^"&]|&#\w{1,8};){0,%d}"' % LONGEST_ENTITY)
_LOOKED_AT = 4000  # bytes, more than the longest accepted declaration
_BLOCK = 1 << 18
_DEPTHS: dict[ox.RdfFormat, type[Depth]] = {
    ox.RdfFormat.JSON_LD: JsonDepth,
    ox.RdfFormat.RDF_XML: XmlDepth,
    **dict.fromkeys((ox.RdfFormat.TURTLE, ox.RdfFormat.TRIG, ox.RdfFormat.N3), TurtleDepth),
}


def guarded(file: Any, name: str, format: ox.RdfFormat) -> io.BufferedReader:
    """Return a reader for an RDF file. It raises CepError instead of returning bytes that would break the parser."""
    return io.BufferedReader(_GuardedFile(file, name, format), _BLOCK)


class _GuardedFile(io.RawIOBase):
    def __init__(self, file: Any, name: str, format: ox.RdfFormat) -> None:
        self._file, self._name, self._format = file, name, format
        self._rest, self._lines = b"", 0  # bytes to search again with the next ones, and the lines before them
        self._depth = _DEPTHS.get(format, LineDepth)()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        if self._format == ox.RdfFormat.RDF_XML:
            self._entities(data)
        if self._depth.too_deep(data):
            raise CepError(f"{self._name} cannot be read: {TOO_DEEP}", code="knowledge")
        buffer[: len(data)] = data
        return len(data)

    def _entities(self, data: bytes) -> None:
        text, offset = self._rest + data, 0
        while (offset := text.find(_DECLARATION, offset)) >= 0 and _ENTITY.match(text, offset):
            offset += len(_DECLARATION)
        if offset >= 0 and (not data or len(text) - offset > _LOOKED_AT):
            raise self._refused(text, offset)
        end = offset if offset >= 0 else max(0, len(text) - len(_DECLARATION) + 1)
        done = max(text.rfind(b"\n", 0, end) + 1, end - _LOOKED_AT)  # an error shows the line from here
        self._lines += text.count(b"\n", 0, done)
        self._rest = text[done:]

    def _refused(self, text: bytes, offset: int) -> CepError:
        number, begin = self._lines + text.count(b"\n", 0, offset) + 1, text.rfind(b"\n", 0, offset) + 1
        line = text[begin : begin + _LOOKED_AT].split(b"\n", 1)[0].decode(errors="replace")
        column = len(text[begin:offset].decode(errors="replace")) + 1
        return CepError(
            f"an entity may have up to {LONGEST_ENTITY} characters, and may not refer to other entities or files",
            Source("\n" * (number - 1) + line, self._name),
            Span(number, column, number, column + len(_DECLARATION)),
            'name a namespace, `<!ENTITY xsd "http://www.w3.org/2001/XMLSchema#">`, and write others out in full',
            "knowledge",
        )
