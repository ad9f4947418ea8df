"""A partial parser of SPARQL: the tokens of a text, and the triples of a basic graph pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cep.knowledge.rdf.namespaces import RDF_TYPE, XSD

_STRINGS = {
    quotes: re.compile(body + f"(?P<end>{quotes})?", re.DOTALL)
    for quotes, body in {
        '"""': r'"""(?:[^"\\]|\\.|"(?!""))*+',
        "'''": r"'''(?:[^'\\]|\\.|'(?!''))*+",
        '"': r'"(?:[^"\\\n\r]|\\[^\n\r])*+',
        "'": r"'(?:[^'\\\n\r]|\\[^\n\r])*+",
    }.items()
}
_NAME = re.compile(
    r"""(?:[^\W\d_](?:[\w\u00b7-]|\.+(?=[\w\u00b7-]))*+)?
      (?P<colon>:(?:(?:[\w:%]|\\.)(?:[\w\u00b7:%-]|\\.|\.+(?=[\w\u00b7:%\\-]))*+)?)?""",
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    r"""
    (?P<iri><(?![?$0-9])[^<>"{}|^`\\\x00-\x20]*+>)
  | (?P<space>\s++|\#[^\n\r]*+)
  | (?P<variable>[?$][\w\u00b7\u0300-\u036f\u203f-\u2040]++)
  | (?P<blank>_:\w(?:[\w\u00b7-]|\.+(?=[\w\u00b7-]))*+)
  | (?P<number>\d+\.\d*[eE][+-]?\d+|\.\d+[eE][+-]?\d+|\d+[eE][+-]?\d+|\d*\.\d+|\d+)
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<word>[^\W\d]\w*+)
  | (?P<mark>\^\^|&&|\|\||!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class SparqlToken(NamedTuple):
    """A token of SPARQL. `kind`: string, iri, variable, blank, name (with a prefix), number, language, word or mark."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[SparqlToken]:
    """Split a SPARQL text into tokens with their offsets, without spaces and comments.

    This takes linear time, even if a long text begins like a string or name but is not valid. The end of such a text is
    searched for only once, and not again from each of its characters.
    """
    read_tokens: list[SparqlToken] = []
    offset, tried = 0, dict.fromkeys((*_STRINGS, ":"), 0)
    while offset < len(text):
        kind, end = _one(text, offset, tried)
        if kind != "space":
            read_tokens.append(SparqlToken(kind, text[offset:end], offset, end))
        offset = end
    return read_tokens


def _one(text: str, offset: int, tried: dict[str, int]) -> tuple[str, int]:
    """Return the kind and the end of the token that begins at `offset`.

    `tried`: for each kind of quotes, and for names (`:`), an offset before which no token of this kind begins. It
    avoids repeated searches.
    """
    letter = text[offset]
    if letter in "\"'":
        long = text.startswith(letter * 3, offset)
        quotes = letter * 3 if long else letter
        if offset >= tried[quotes]:
            string = _STRINGS[quotes].match(text, offset)
            assert string is not None, "it begins with its quotes"
            if string["end"]:
                return "string", string.end()
            tried[quotes] = string.end()
        if long:
            return "string", offset + 2  # an empty string
    elif offset >= tried[":"] and (letter == ":" or letter.isalnum()):
        name = _NAME.match(text, offset)
        assert name is not None, "all of it may be missing"
        if name["colon"]:
            return "name", name.end()
        tried[":"] = name.end()
    token = _TOKEN.match(text, offset)
    assert token is not None, "any letter is a mark"
    return token.lastgroup or "", token.end()


@dataclass(frozen=True, slots=True)
class ConstantTerm:
    """A constant in a pattern: an IRI, or a literal with its datatype or language."""

    text: str
    datatype: str = ""
    language: str = ""


VarOrTerm = str | ConstantTerm
"""A term of a triple pattern: the name of a variable (`x`, or `_:x` for a blank node), or a constant."""


class TriplePattern(NamedTuple):
    """A triple pattern, and its position in the text."""

    slots: tuple[VarOrTerm, VarOrTerm, VarOrTerm]
    start: int
    end: int

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot for slot in self.slots if isinstance(slot, str)))


def basic(text: str, prefixes: Mapping[str, str]) -> tuple[TriplePattern, ...] | None:
    """Return the triple patterns of a pattern that certainly consists of triples only. Return None for others.

    Blank nodes become variables. Their names cannot be written in SPARQL.
    """
    try:
        return tuple(_QueryReader(tokens(text), prefixes).group())
    except _NotBasic:
        return None


class _NotBasic(Exception):
    pass


class _QueryReader:
    def __init__(self, words: Sequence[SparqlToken], prefixes: Mapping[str, str]) -> None:
        self.found = [*words, SparqlToken("mark", "", -1, -1)]
        self.prefixes = prefixes
        self.at = 0
        self.made = 0
        self.patterns: list[TriplePattern] = []

    def group(self) -> list[TriplePattern]:
        self.need("{")
        while not self.maybe("}"):
            self.triples()
            if not self.maybe("."):
                self.need("}")
                break
        if self.at != len(self.found) - 1:
            raise _NotBasic
        return self.patterns

    def triples(self) -> None:
        start, bracket = self.found[self.at].start, self.found[self.at].text == "["
        subject = self.node()
        if isinstance(subject, ConstantTerm) and (subject.datatype or subject.language):
            raise _NotBasic
        if bracket and self.found[self.at].text in (".", "}"):
            return
        self.properties(subject, start)

    def properties(self, subject: VarOrTerm, start: int) -> None:
        while True:
            verb = self.verb()
            while True:
                pattern = len(self.patterns)
                self.patterns.append(TriplePattern((subject, verb, ""), start, start))
                object = self.node()
                self.patterns[pattern] = TriplePattern((subject, verb, object), start, self.found[self.at - 1].end)
                if not self.maybe(","):
                    break
            if not self.maybe(";"):
                return
            while self.maybe(";"):
                pass
            start = self.found[self.at].start
            if self.found[self.at].text in (".", "}", "]"):
                return

    def verb(self) -> VarOrTerm:
        token = self.found[self.at]
        if token.kind == "word" and token.text == "a":
            self.at += 1
            return ConstantTerm(RDF_TYPE)
        if token.kind not in ("variable", "iri", "name"):
            raise _NotBasic
        return self.node()

    def node(self) -> VarOrTerm:
        kind, text, _, _ = self.found[self.at]
        self.at += 1
        if kind == "variable":
            return text[1:]
        if kind == "blank":
            return text
        if kind == "iri":
            return self.absolute(text[1:-1])
        if kind == "name":
            return self.named(text)
        if kind == "string":
            return self.literal(text)
        if kind == "number":
            return _number(text)
        if kind == "word" and text in ("true", "false"):
            return ConstantTerm(text, XSD + "boolean")
        if text in ("+", "-") and self.found[self.at].kind == "number":
            self.at += 1
            number = self.found[self.at - 1]
            return _number(text + number.text)
        if text == "[":
            self.made += 1
            node = f"[{self.made}]"
            if not self.maybe("]"):
                self.properties(node, self.found[self.at - 1].start)
                self.need("]")
            return node
        raise _NotBasic

    def literal(self, text: str) -> ConstantTerm:
        quotes = 3 if text[:3] in ('"""', "'''") and len(text) > 5 else 1
        lexical = _ESCAPE.sub(_unescaped, text[quotes:-quotes])
        following = self.found[self.at]
        if following.kind == "language":
            self.at += 1
            return ConstantTerm(lexical, "", following.text[1:].lower())
        if not self.maybe("^^"):
            return ConstantTerm(lexical, XSD + "string")
        kind, datatype, _, _ = self.found[self.at]
        self.at += 1
        if kind not in ("iri", "name"):
            raise _NotBasic
        return ConstantTerm(lexical, (self.absolute(datatype[1:-1]) if kind == "iri" else self.named(datatype)).text)

    def absolute(self, iri: str) -> ConstantTerm:
        if not _ABSOLUTE.match(iri):
            raise _NotBasic
        return ConstantTerm(iri)

    def named(self, text: str) -> ConstantTerm:
        prefix, _, local = text.partition(":")
        if prefix not in self.prefixes:
            raise _NotBasic
        return self.absolute(self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local))

    def maybe(self, mark: str) -> bool:
        matched = self.found[self.at].kind == "mark" and self.found[self.at].text == mark
        self.at += matched
        return matched

    def need(self, mark: str) -> None:
        if not self.maybe(mark):
            raise _NotBasic


def _number(text: str) -> ConstantTerm:
    name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
    return ConstantTerm(text, XSD + name)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
