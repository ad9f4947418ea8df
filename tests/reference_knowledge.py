"""The reference's knowledge: triples in a list, patterns matched by nested loops, values as defined by the language.

It parses a part of Turtle and of SPARQL: prefixes, triples with `;` and `,` and `a`, literals, and OPTIONAL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from cep.events import Iri
from tests import reference_tree as p
from tests.reference_expressions import instant, period

XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
INTEGERS = {
    f"{XSD}{name}"
    for name in (
        *("integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger"),
        *("negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
}
REALS = {f"{XSD}{name}" for name in ("decimal", "double", "float")}


@dataclass(frozen=True)
class Term:
    kind: str  # iri | blank | literal | variable
    text: str
    datatype: str = ""
    language: str = ""


Triple = tuple[Term, Term, Term]
Solution = dict[str, Term]

TOKEN = re.compile(
    r'''(?P<space>\s+|\#[^\n]*)
      | (?P<iri><[^<>\s]*>)
      | (?P<text>"""(?:[^\\]|\\.)*?"""|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<tag>@[A-Za-z-]+)
      | (?P<variable>[?$]\w+)
      | (?P<blank>_:\w+)
      | (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>\w*:[\w-]*|\w+)
      | (?P<mark>\^\^|[.;,{}])
    ''',
    re.VERBOSE,
)


class Reader:
    """Triples, of Turtle or between the braces of a pattern."""

    def __init__(self, text: str, prefixes: dict[str, str]) -> None:
        self.prefixes = dict(prefixes)
        self.tokens: list[tuple[str, str]] = []
        self.at = position = 0
        while position < len(text):
            match = TOKEN.match(text, position)
            assert match, f"the reference cannot read {text[position : position + 20]!r}"
            position = match.end()
            if match.lastgroup != "space":
                self.tokens.append((str(match.lastgroup), match.group()))
        self.tokens.append(("end", ""))

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def maybe(self, text: str) -> bool:
        found = self.peek().lower() == text
        self.at += found
        return found

    def document(self) -> list[Triple]:
        found: list[Triple] = []
        while self.tokens[self.at][0] != "end":
            if self.maybe("prefix") or self.maybe("@prefix"):
                name = self.take()
                self.prefixes[name.removesuffix(":")] = self.take()[1:-1]
                self.maybe(".")
            else:
                found += self.subject()
                assert self.maybe("."), "a statement ends with a dot"
        return list(dict.fromkeys(found))

    def group(self) -> list[Any]:
        """The triples of a group, and a list for each OPTIONAL in it."""
        assert self.maybe("{")
        found: list[Any] = []
        while not self.maybe("}"):
            if self.maybe("optional"):
                found.append(self.group())
            else:
                found += self.subject()
            self.maybe(".")
        return found

    def subject(self) -> list[Triple]:
        subject = self.term()
        found = []
        while True:
            verb = Term("iri", TYPE) if self.maybe("a") else self.term()
            found.append((subject, verb, self.term()))
            while self.maybe(","):
                found.append((subject, verb, self.term()))
            if not self.maybe(";"):
                return found
            if self.peek() in (".", "}"):
                return found

    def term(self) -> Term:
        kind, text = self.tokens[self.at]
        self.take()
        if kind == "iri":
            return Term("iri", text[1:-1])
        if kind == "variable":
            return Term("variable", text[1:])
        if kind == "blank":
            return Term("blank", text)
        if kind == "number":
            name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
            return Term("literal", text, XSD + name)
        if kind == "name" and ":" in text:
            prefix, _, rest = text.partition(":")
            return Term("iri", self.prefixes[prefix] + rest)
        if text in ("true", "false"):
            return Term("literal", text, f"{XSD}boolean")
        assert kind == "text", f"{text!r} is no term"
        inner = text[3:-3] if text.startswith('"""') else text[1:-1]
        inner = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), inner)
        if self.maybe("^^"):
            return Term("literal", inner, self.term().text)
        tagged = self.tokens[self.at][0] == "tag"
        return Term("literal", inner, "", self.take()[1:].lower() if tagged else "")


def read(turtle: str) -> list[Triple]:
    """The triples of a document, each once."""
    return Reader(turtle, {}).document()


# Matching.
def solutions(group: list[Any], triples: list[Triple], known: Solution) -> Iterator[Solution]:
    """Every way to find the triples of a group; an OPTIONAL that is not found binds nothing."""
    if not group:
        yield known
        return
    first, rest = group[0], group[1:]
    if isinstance(first, list):
        for found in list(solutions(first, triples, known)) or [known]:
            yield from solutions(rest, triples, found)
        return
    for triple in triples:
        found = matched(first, triple, known)
        if found is not None:
            yield from solutions(rest, triples, found)


def matched(pattern: Triple, triple: Triple, known: Solution) -> Solution | None:
    found = dict(known)
    for wanted, term in zip(pattern, triple):
        if wanted.kind not in ("variable", "blank"):
            if wanted != term:
                return None
        elif found.setdefault(wanted.text, term) != term:
            return None
    return found


def answers(text: str, prefixes: dict[str, str], names: Iterable[str], triples: list[Triple]) -> list[tuple[Any, ...]]:
    """The values of these variables in all solutions of a pattern, each row once; None where one is not bound."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for found in solutions(Reader(text, prefixes).group(), triples, {}):
        row = tuple(value(found[name]) if name in found else None for name in names)
        rows.setdefault(tuple((type(each).__name__, str(each)) for each in row), row)
    return list(rows.values())


# Values.
def value(term: Term) -> Any:
    """The value of a term; None where 64 bits or the finite floats have none."""
    if term.kind in ("iri", "blank"):
        return Iri(term.text)
    try:
        return literal(term.text, term.datatype)
    except ValueError:
        return term.text  # ill-formed


def literal(text: str, datatype: str) -> Any:
    if datatype in INTEGERS:
        number = int(text)
        return number if -(2**63) < number < 2**63 else None
    if datatype in REALS:
        real = float(text.replace("INF", "inf"))
        return real if math.isfinite(real) else None
    if datatype == f"{XSD}boolean":
        return {"true": True, "1": True, "false": False, "0": False}.get(text, text)
    if datatype in (f"{XSD}dateTime", f"{XSD}dateTimeStamp", f"{XSD}date"):
        return p.Ticks("time", instant(text))
    if datatype in (f"{XSD}dayTimeDuration", f"{XSD}duration"):
        return p.Ticks("duration", period(text)) if "Y" not in text and "M" not in text.split("T")[0] else text
    return text


# Rules.
def localised(rule: Any) -> Any:
    """A rule in which `not { ... }` does not speak of variables that nothing else in the rule has."""
    times: dict[str, int] = {}
    for name in written(rule):
        times[name] = times.get(name, 0) + 1

    def walk(thing: Any) -> Any:
        if isinstance(thing, p.Predicate) and thing.graph is not None and thing.negated:
            own = (p.Var(f"_#{v.name}") if times[v.name] == 1 else v for v in thing.arguments)
            return replace(thing, arguments=tuple(own))
        if isinstance(thing, p.Or):
            inside = [list(written(alternative)) for alternative in thing.alternatives]
            every = [name for names in inside for name in names]
            local = {n for n in every if times[n] <= every.count(n) and not all(n in names for names in inside)}
            return replace(thing, alternatives=walk(thing.alternatives), local=tuple(sorted(local)))
        if isinstance(thing, tuple | list):
            return type(thing)(walk(part) for part in thing)
        if is_dataclass(thing):
            return replace(thing, **{f.name: walk(getattr(thing, f.name)) for f in fields(thing)})
        return thing

    return walk(rule)


def written(thing: Any) -> Iterator[str]:
    """The variables of a rule, as often as they are written."""
    if isinstance(thing, p.Var):
        yield thing.name
    elif isinstance(thing, p.Choice):
        yield from (thing.by,) if thing.by else ()
    elif isinstance(thing, tuple | list):
        for part in thing:
            yield from written(part)
    elif is_dataclass(thing):
        for f in fields(thing):
            if not (isinstance(thing, p.EventRule) and f.name == "policy"):
                yield from written(getattr(thing, f.name))
