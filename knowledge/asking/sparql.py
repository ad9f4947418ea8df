"""SPARQL between braces, as far as it has to be understood here: tokens, and the triples of a basic pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.namespaces import RDF_TYPE, XSD

_TOKEN = re.compile(
    r'''
    (?P<string>"""(?:[^"\\]|\\.|"(?!""))*+"""|\'\'\'(?:[^'\\]|\\.|'(?!\'\'))*+\'\'\'
      |"(?!"")(?:[^"\\\n\r]|\\[^\n\r])*+"|'(?!\'\')(?:[^'\\\n\r]|\\[^\n\r])*+'|""|'')
  | (?P<iri><(?![?$0-9])[^<>"{}|^`\\\x00-\x20]*+>)
  | (?P<space>\s++|\#[^\n\r]*+)
  | (?P<variable>[?$][\w\u00b7\u0300-\u036f\u203f-\u2040]++)
  | (?P<blank>_:\w(?:[\w\u00b7-]|\.+(?=[\w\u00b7-]))*+)
  | (?P<name>(?:[^\W\d_](?:[\w\u00b7-]|\.+(?=[\w\u00b7-]))*+)?:
      (?:(?:[\w:%]|\\.)(?:[\w\u00b7:%-]|\\.|\.+(?=[\w\u00b7:%\\-]))*+)?)
  | (?P<number>\d+\.\d*[eE][+-]?\d+|\.\d+[eE][+-]?\d+|\d+[eE][+-]?\d+|\d*\.\d+|\d+)
  | (?P<language>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)
  | (?P<word>[^\W\d]\w*+)
  | (?P<mark>\^\^|&&|\|\||!=|<=|>=|.)
    ''',
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Token(NamedTuple):
    """`kind`: string, iri, variable, blank, name (with a prefix), number, language, word, mark."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """All but space and comments, with offsets."""
    found = ((match.lastgroup or "", match) for match in _TOKEN.finditer(text))
    return [Token(kind, m.group(), m.start(), m.end()) for kind, m in found if kind != "space"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A term that a pattern names: an IRI, or a literal with its datatype or language."""

    text: str
    datatype: str = ""
    language: str = ""


Slot = str | Constant
"""What stands at a position of a triple pattern: a variable's name (`x`; of a blank node `_:x`) or a constant."""


class Pattern(NamedTuple):
    """A triple pattern, and the offsets of its text."""

    slots: tuple[Slot, Slot, Slot]
    start: int
    end: int

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(slot for slot in self.slots if isinstance(slot, str)))


def basic(text: str, prefixes: Mapping[str, str]) -> tuple[Pattern, ...] | None:
    """The triples of a pattern that consists of triples only; None if it has anything else, or may have.

    Blank nodes are variables that nothing else can name.
    """
    try:
        return tuple(_Reader(tokens(text), prefixes).group())
    except _NotBasic:
        return None


class _NotBasic(Exception):
    pass


class _Reader:
    def __init__(self, found: Sequence[Token], prefixes: Mapping[str, str]) -> None:
        self.found = [*found, Token("mark", "", -1, -1)]
        self.prefixes = prefixes
        self.at = 0
        self.made = 0
        self.patterns: list[Pattern] = []

    def group(self) -> list[Pattern]:
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
        if isinstance(subject, Constant) and (subject.datatype or subject.language):
            raise _NotBasic
        if bracket and self.found[self.at].text in (".", "}"):
            return
        self.properties(subject, start)

    def properties(self, subject: Slot, start: int) -> None:
        while True:
            verb = self.verb()
            while True:
                pattern = len(self.patterns)
                self.patterns.append(Pattern((subject, verb, ""), start, start))
                object = self.node()
                self.patterns[pattern] = Pattern((subject, verb, object), start, self.found[self.at - 1].end)
                if not self.maybe(","):
                    break
            if not self.maybe(";"):
                return
            while self.maybe(";"):
                pass
            start = self.found[self.at].start
            if self.found[self.at].text in (".", "}", "]"):
                return

    def verb(self) -> Slot:
        token = self.found[self.at]
        if token.kind == "word" and token.text == "a":
            self.at += 1
            return Constant(RDF_TYPE)
        if token.kind not in ("variable", "iri", "name"):
            raise _NotBasic
        return self.node()

    def node(self) -> Slot:
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
            return Constant(text, XSD + "boolean")
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

    def literal(self, text: str) -> Constant:
        quotes = 3 if text[:3] in ('"""', "'''") and len(text) > 5 else 1
        lexical = _ESCAPE.sub(_unescaped, text[quotes:-quotes])
        following = self.found[self.at]
        if following.kind == "language":
            self.at += 1
            return Constant(lexical, "", following.text[1:].lower())
        if not self.maybe("^^"):
            return Constant(lexical, XSD + "string")
        kind, datatype, _, _ = self.found[self.at]
        self.at += 1
        if kind not in ("iri", "name"):
            raise _NotBasic
        return Constant(lexical, (self.absolute(datatype[1:-1]) if kind == "iri" else self.named(datatype)).text)

    def absolute(self, iri: str) -> Constant:
        if not _ABSOLUTE.match(iri):
            raise _NotBasic
        return Constant(iri)

    def named(self, text: str) -> Constant:
        prefix, _, local = text.partition(":")
        if prefix not in self.prefixes:
            raise _NotBasic
        return self.absolute(self.prefixes[prefix] + re.sub(r"\\(.)", r"\1", local))

    def maybe(self, mark: str) -> bool:
        found = self.found[self.at].kind == "mark" and self.found[self.at].text == mark
        self.at += found
        return found

    def need(self, mark: str) -> None:
        if not self.maybe(mark):
            raise _NotBasic


def _number(text: str) -> Constant:
    name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
    return Constant(text, XSD + name)


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)
