"""The names in a program's text: their kinds and their positions.

The names are found from the tokens alone, statement by statement. So if a statement is incomplete, only the names in
this statement are lost.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cep.core.metric_operators import TEMPORAL
from cep.language.syntax.tokens import Token, line_starts, tokenise
from cep.rules.expressions.aggregates import AGGREGATES
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.graph_text import pieces
from cep.rules.keywords import RESERVED

BUILT_IN = {
    "start": "`start()`: when the pattern before the WHERE began",
    "end": "`end()`: when it ended",
    "duration": "`duration()`: how long it lasted",
    "near": "`near(Lat, Long, Radius, Feature, Metres)`: each thing of the knowledge within that many metres",
    "triple": "`triple(S, P, O)`: a triple of the knowledge",
    "is_a": "`is_a(Thing, Class)`: the thing belongs to the class",
    "held": "`held(fluent(X), T)`: that a fluent held at a time",
}
"""The predicates and functions that conditions may use in addition to FUNCTIONS."""
_BEGINNINGS = frozenset(("EVENT", "FLUENT", "FACT", "PARAM", "ALERT", "PREFIX", "INITIATE", "TERMINATE", "INITIALLY"))
_DECLARING = {"EVENT": "event", "FLUENT": "fluent", "FACT": "predicate"}
_ACTING = ("INITIATE", "TERMINATE", "INITIALLY")
_NO_STATEMENT = ("(", "<-", ":-", ".", ":")
"""The tokens that cannot follow a keyword. If one follows the first word of a statement, this word is a name."""
_VALUE = frozenset(("=", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "//", "**"))
_IN_TEXT = re.compile(r"\{([A-Z_]\w*)\}")
_PREFIXED = re.compile(r"(?<![\w:<?$])((?:[^\W\d_][\w-]*)?):([\w][\w.-]*\w|\w)")
_COMMENT = re.compile(r"^\s*[#%]+ ?(.*)$")


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An occurrence of a name in a text.

    - `kind`: event, fluent, predicate, name (if undefined), attribute, parameter, variable, prefix, iri, function,
      keyword, type or label.
    - `scope`: for an attribute, its event; for a variable, the number of its statement; for an IRI, its prefix.
    - `defines`: True if the statement declares or derives the name at this position.
    """

    kind: str
    name: str
    start: int
    end: int
    scope: str = ""
    defines: bool = False


@dataclass(slots=True)
class Statement:
    """A statement, as its tokens.

    - `kind`: event, fluent, fact, prefix, parameter, policy, alert, rule, static or while.
    - `name`: the token of the statement's name. For a rule, this is the name in its head.
    """

    number: int
    tokens: Sequence[Token]
    kind: str = "rule"
    name: Token | None = None
    declares: str | None = None

    @property
    def start(self) -> int:
        return self.tokens[0].start

    @property
    def end(self) -> int:
        return self.tokens[-1].end


@dataclass(eq=False)
class Index:
    """The statements of a text, and its names sorted by position. `others`: the other files of the program."""

    text: str
    others: Sequence[Index] = ()
    statements: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.statements = [_described(statement) for statement in _statements(self.tokens)]

    @cached_property
    def line_starts(self) -> list[int]:
        return line_starts(self.text)

    @cached_property
    def tokens(self) -> list[Token]:
        """Return all tokens of the text. If a brace is not closed, the text after it is also split into tokens."""
        tokens: list[Token] = []
        begin = 0
        while True:
            more = tokenise(self.text, self.line_starts, begin)[:-1]
            tokens += more
            if not more or more[-1].kind != "brace":
                return tokens
            begin = more[-1].end

    @cached_property
    def own_names(self) -> dict[str, str]:
        """Return the names that this text declares or derives, each with its kind."""
        names: dict[str, str] = {}
        for statement in self.statements:
            if statement.name is None or statement.declares not in ("event", "fluent", "predicate"):
                continue
            if statement.kind in ("event", "fluent", "fact") or statement.name.text not in names:
                names[statement.name.text] = statement.declares
        return names

    @cached_property
    def own_parameters(self) -> frozenset[str]:
        return frozenset(
            statement.name.text for statement in self.statements if statement.kind == "parameter" and statement.name
        )

    @property
    def names(self) -> dict[str, str]:
        """Return the names that any file of the program declares or derives, each with its kind."""
        return {name: kind for other in (*self.others, self) for name, kind in other.own_names.items()}

    @property
    def parameters(self) -> frozenset[str]:
        return self.own_parameters.union(*(other.own_parameters for other in self.others))

    @cached_property
    def prefixes(self) -> dict[str, str]:
        """Return the prefixes that the text declares, each with its IRI."""
        prefixes = {}
        for statement in self.statements:
            if statement.kind == "prefix":
                iri = next((token for token in statement.tokens if token.kind == "iri"), None)
                colon = next((token for token in statement.tokens[1:] if token.text.startswith(":")), None)
                if iri is not None and colon is not None:
                    prefixes[self.text[statement.tokens[0].end : colon.start].strip()] = iri.text[1:-1]
        return prefixes

    @cached_property
    def occurrences(self) -> list[Occurrence]:
        names, parameters = self.names, self.parameters
        occurrences = [
            occurrence
            for statement in self.statements
            for occurrence in _Reader(self.text, statement, names, parameters).read()
        ]
        return sorted(occurrences, key=lambda occurrence: (occurrence.start, occurrence.end))

    @cached_property
    def _starts(self) -> list[int]:
        return [occurrence.start for occurrence in self.occurrences]

    def at(self, offset: int) -> Occurrence | None:
        """Return the name that is at an offset or ends there. Returns None if there is no such name."""
        place = bisect_right(self._starts, offset)
        near = self.occurrences[max(0, place - 3) : place]
        return next((occurrence for occurrence in reversed(near) if occurrence.start <= offset <= occurrence.end), None)

    def statement_at(self, offset: int) -> Statement | None:
        """Return the last statement that starts at or before an offset. Returns None if no statement does."""
        place = bisect_right([statement.start for statement in self.statements], offset)
        return self.statements[place - 1] if place else None

    def same(self, occurrence: Occurrence) -> list[Occurrence]:
        """Return all occurrences of the same name in this text."""
        kinds = ("event", "fluent", "predicate", "name")
        return [
            candidate
            for candidate in self.occurrences
            if candidate.name == occurrence.name
            and candidate.scope == occurrence.scope
            and (candidate.kind == occurrence.kind or (candidate.kind in kinds and occurrence.kind in kinds))
        ]

    def comment_of(self, statement: Statement) -> str:
        """Return the comment lines directly above a statement."""
        lines = self.text.splitlines()
        row = statement.tokens[0].line - 2
        comments: list[str] = []
        while 0 <= row < len(lines) and (match := _COMMENT.match(lines[row])):
            comments.insert(0, match[1])
            row -= 1
        return "\n".join(comments)

    def comment_behind(self, offset: int) -> str:
        """Return the comment that follows an offset on the same line, or an empty string if there is none."""
        end = self.text.find("\n", offset)
        line = self.text[offset : len(self.text) if end < 0 else end]
        match = re.search(
            r"(?:^|\s)[#%]+ ?(.*)$", re.sub(r'"[^"]*"|<[A-Za-z][^<>\s]*>', lambda m: "_" * len(m[0]), line)
        )
        return line[match.start(1) :].strip() if match else ""


def _statements(tokens: Sequence[Token]) -> Iterator[Statement]:
    begin = 0
    number = 0
    for place, token in enumerate(tokens):
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        ends = token.key == "." and (after is None or after.start > token.end)
        prefix = tokens[begin].key == "PREFIX" and token.kind == "iri"
        begins = after is not None and after.column == 1 and after.key in _BEGINNINGS and after.line > token.line
        if ends or prefix or begins or after is None:
            yield Statement(number, tokens[begin : place + 1])
            begin, number = place + 1, number + 1


def _described(statement: Statement) -> Statement:
    """Determine the kind and the name of a statement, store them in it, and return it."""
    tokens = statement.tokens
    first, after = tokens[0], tokens[1] if len(tokens) > 1 else None
    if after is not None and after.key not in _NO_STATEMENT:
        named = after if after.kind in ("name", "variable") else None
        if first.key == "PREFIX":
            statement.kind = "prefix"
        elif first.key in _DECLARING:
            statement.kind, statement.name = first.key.lower(), named
            statement.declares = _DECLARING[first.key]
        elif first.key == "PARAM":
            statement.kind, statement.name, statement.declares = "parameter", named, "parameter"
        elif first.key == "ALERT":
            statement.kind, statement.name, statement.declares = "alert", named, "alert"
        elif first.key == "POLICY":
            statement.kind = "policy"
        elif first.key in _ACTING:
            statement.kind, statement.name = "rule", named
        if statement.kind != "rule" or first.key in _ACTING:
            return statement
    elif first.key == "PREFIX" and after is not None and after.key == ":":
        statement.kind = "prefix"
        return statement
    head = 2 if after is not None and after.key == ":" and len(tokens) > 2 else 0
    while head < len(tokens) and tokens[head].key in TEMPORAL:  # ALWAYS[0, 3 h] before the head
        head += 1
        while head < len(tokens) and (tokens[head - 1].key not in ("]", ")") or tokens[head].kind == "mark"):
            head += 1
    if head < len(tokens) and tokens[head].kind == "name":
        statement.name = tokens[head]
    keys = {token.key for token in tokens}
    if "<-" in keys:
        statement.kind, statement.declares = "rule", "event"
    elif "WHILE" in keys:
        statement.kind, statement.declares = "while", "fluent"
    elif not keys.isdisjoint(("ENDS", "BECOMES")):
        statement.kind = "while"
    else:
        statement.kind, statement.declares = "static", "predicate" if ":-" in keys or ends(statement) else None
    return statement


def ends(statement: Statement) -> bool:
    return statement.tokens[-1].key == "."


class _Reader:
    """A reader that collects the names in one statement."""

    def __init__(self, text: str, statement: Statement, names: dict[str, str], parameters: frozenset[str]) -> None:
        self.text = text
        self.statement = statement
        self.names = names
        self.parameters = parameters
        self.scope = str(statement.number)
        self.called: list[str | None] = []
        """A stack with one element per open parenthesis: the name that is called with these parentheses, or None if
        they are not those of a call."""

    def read(self) -> Iterator[Occurrence]:
        tokens = self.statement.tokens
        for place, token in enumerate(tokens):
            before = tokens[place - 1] if place else None
            after = tokens[place + 1] if place + 1 < len(tokens) else None
            yield from self._read(token, before, after)
            if token.key in ("(", "["):
                called = token.key == "(" and before is not None and before.kind == "name" and before.end == token.start
                self.called.append(before.text if called and before is not None else None)
            elif token.key in (")", "]") and self.called:
                self.called.pop()

    def _read(self, token: Token, before: Token | None, after: Token | None) -> Iterator[Occurrence]:
        match token.kind:
            case "graph" | "brace":
                yield from self._graph(token)
            case "string" if self.statement.kind == "alert":
                for match in _IN_TEXT.finditer(token.text):
                    yield self._variable(match[1], token.start + match.start(1))
            case "prefixed":
                yield from self._prefixed(token, before)
            case "variable" if self._is_variable(token):
                yield self._variable(token.text, token.start)
            case "name" | "variable":
                yield from self._name(token, before, after)
            case "mark" if token.key == ":" and self.statement.kind == "prefix" and before is not None:
                begin = self.statement.tokens[0].end
                name = self.text[begin : token.start].strip()
                start = self.text.find(name, begin) if name else token.start
                yield Occurrence("prefix", name, start, start + len(name), "", True)

    def _is_variable(self, token: Token) -> bool:
        return not token.key or (token.key not in RESERVED and token.text != token.text.upper()) or len(token.text) == 1

    def _variable(self, name: str, start: int) -> Occurrence:
        end = start + len(name)
        if name in self.parameters:
            defined = self.statement.kind == "parameter" and self.statement.name is not None
            return Occurrence(
                "parameter", name, start, end, "", defined and self.statement.name is not None
                and self.statement.name.start == start,
            )  # fmt: skip
        return Occurrence("variable", name, start, end, self.scope)

    def _prefixed(self, token: Token, before: Token | None) -> Iterator[Occurrence]:
        prefix, _, local = token.text.partition(":")
        declares = self.statement.kind in ("event", "fluent", "fact")
        if declares and before is not None and before.key in ("(", ","):
            yield Occurrence("attribute", prefix, token.start, token.start + len(prefix), self._declared(), True)
            return
        yield Occurrence("prefix", prefix, token.start, token.start + len(prefix))
        yield Occurrence("iri", local, token.start + len(prefix) + 1, token.end, prefix)

    def _declared(self) -> str:
        return self.statement.name.text if self.statement.name is not None else ""

    def _graph(self, token: Token) -> Iterator[Occurrence]:
        for piece in pieces(token.text):
            start = token.start + piece.start
            if piece.kind == "variable" and piece.text[1:2].isupper():
                yield self._variable(piece.text[1:], start + 1)
            elif piece.kind == "other":
                for match in _PREFIXED.finditer(piece.text):
                    first = start + match.start()
                    yield Occurrence("prefix", match[1], first, first + len(match[1]))
                    yield Occurrence("iri", match[2], start + match.start(2), start + match.end(2), match[1])

    def _name(self, token: Token, before: Token | None, after: Token | None) -> Iterator[Occurrence]:
        name, start, end = token.text, token.start, token.end
        statement = self.statement
        named = statement.name is not None and statement.name.start == start
        if named and statement.kind in ("event", "fluent", "fact", "rule", "static", "while"):
            defines = statement.declares is not None
            yield Occurrence(self.names.get(name, "name"), name, start, end, "", defines)
            return
        if named and statement.kind in ("alert", "parameter"):
            yield Occurrence(statement.kind, name, start, end, "", True)
            return
        if after is not None and after.key == ":" and statement.kind != "prefix":
            if not self.called:
                yield Occurrence("label", name, start, end, self.scope, True)
            elif statement.kind in ("event", "fluent", "fact") and len(self.called) == 1:
                yield Occurrence("attribute", name, start, end, self._declared(), self.called[0] is not None)
            elif self.called[-1] in self.names:
                yield Occurrence("attribute", name, start, end, self.called[-1] or "")
            return
        if before is not None and before.key == ":" and statement.kind in ("event", "fluent", "fact") and self.called:
            yield Occurrence("type", name, start, end)
            return
        calls = after is not None and after.key == "(" and after.start == end
        if calls and name in self.names:
            yield Occurrence(self.names[name], name, start, end)
        elif calls and (name in FUNCTIONS or name in BUILT_IN or name in AGGREGATES):
            yield Occurrence("function", name, start, end)
        elif token.key and not calls:
            yield Occurrence("keyword", token.key, start, end)
        elif calls:
            yield Occurrence("name", name, start, end)
        elif name in self.names and not any(self.called) and (before is None or before.key not in _VALUE):
            yield Occurrence(self.names[name], name, start, end)
