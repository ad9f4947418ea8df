"""Diagnostics for a pattern or query that is not valid SPARQL: the first mistake, its position, a correction."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cep.knowledge.query.sparql import SparqlToken, tokens

_TERMS = ("variable", "iri", "name", "blank", "string", "number")
_COMPARISONS = ("=", "<", ">", "<=", ">=", "!=")
_RULES = (
    ("group", "with GROUP BY, SELECT only variables of GROUP BY, or aggregates: `SELECT ?s (COUNT(?o) AS ?n)`"),
    (
        "select",
        "name an aggregate, and group by the variables beside it: `SELECT ?s (COUNT(?o) AS ?n) ... GROUP BY ?s`",
    ),
    ("bind", "`BIND(... AS ?x)` gives a value to a variable that no triple before it has"),
    ("filter", "write one expression in a FILTER, and close all brackets: `FILTER(?x > 3 && ?y < 5)`"),
)
_QUERY = "a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE: `SELECT ?s { ?s a ex:Storm }`"
_BRACES = "put the pattern in braces: `SELECT ?s { ?s a ex:Storm }`"
_BEFORE = ("prefix", "base")
_AGGREGATES = ("count", "sum", "avg", "min", "max", "sample", "group_concat")
_END = SparqlToken("end", "", -1, -1)


class Diagnostic(Exception):
    """A mistake in the text of a pattern: its position, a message, and a hint that suggests a correction."""

    def __init__(self, start: int, end: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.start = start
        self.end = end
        self.message = message
        self.hint = hint


def first_error(text: str, prefixes: Collection[str], offset: int) -> Diagnostic:
    """Return the first mistake in a pattern. Oxigraph's parser has refused the pattern at the position `offset`."""
    words = tokens(text)
    diagnostic = _first(words, prefixes)
    return diagnostic or _unexpected(words, offset)


def first_query_error(text: str, prefixes: Collection[str], offset: int) -> Diagnostic:
    """Return the first mistake in a query. Oxigraph's parser has refused the query at the position `offset`.

    `prefixes`: the prefixes that the query need not declare.
    """
    words = tokens(text)
    declared = [
        name.text[:-1] for word, name in zip(words, words[1:]) if word.text.lower() == "prefix" and name.kind == "name"
    ]
    known, depth = {*prefixes, *declared}, 0
    for i, token in enumerate(words):
        if token.text == "{" and not depth and token.start <= offset:
            diagnostic = _first(words, known, i)
            if diagnostic is not None:
                return diagnostic
        depth += (token.text == "{") - (token.text == "}")
    if not words:
        return Diagnostic(0, 0, "the query is empty", _QUERY)
    first = next((token for token in words if token.kind == "word" and token.text.lower() not in _BEFORE), words[0])
    if first.text.lower() not in ("select", "ask", "construct", "describe"):
        return Diagnostic(first.start, first.end, f"`{first.text}` cannot begin a query", _QUERY)
    last = words[-1]
    if depth > 0 and offset >= last.end:
        return Diagnostic(last.start, last.end, "a `}` is missing after this", _BRACES)
    diagnostic = _unexpected(words, offset)
    if not any(token.text == "{" for token in words):
        diagnostic.hint = _BRACES
    elif not any(token.text.lower() in _AGGREGATES for token in words):
        diagnostic.hint = None
    return diagnostic


def _first(words: list[SparqlToken], prefixes: Collection[str], position: int = 0) -> Diagnostic | None:
    try:
        _GrammarCheck(words, prefixes, position).group()
    except Diagnostic as found_one:
        return found_one
    except RecursionError:  # `!!!...`
        return None
    return None


def _unexpected(token_list: Sequence[SparqlToken], offset: int) -> Diagnostic:
    token = next((token for token in token_list if token.end > offset), token_list[-1])
    words = {token.text.lower() for token in token_list if token.kind == "word"}
    hint = next((hint for word, hint in _RULES if word in words), None)
    return Diagnostic(token.start, token.end, f"this is not SPARQL: `{token.text}` cannot stand here", hint)


class _GrammarCheck:
    def __init__(self, words: list[SparqlToken], prefixes: Collection[str], position: int) -> None:
        self.found = words
        self.prefixes = prefixes
        self.at = position

    @property
    def next(self) -> SparqlToken:
        return self.found[self.at] if self.at < len(self.found) else _END

    @property
    def word(self) -> str:
        return self.next.text.lower() if self.next.kind == "word" else ""

    def group(self) -> None:
        self.at += 1
        while self.next is not _END:
            if self.next.text == "}":
                self.at += 1
                return
            self.part()

    def part(self) -> None:
        if self.next.text == ".":
            self.at += 1
        elif self.next.text == "{":
            self.group()
        elif self.word in ("optional", "minus", "union", "graph"):
            self.at += 1
            if self.found[self.at - 1].text.lower() == "graph":
                self.term()
            if self.next.text != "{":
                raise self.diagnostic("the pattern is expected here, in braces", "`OPTIONAL { ?s ex:p ?o }`")
            self.group()
        elif self.word in ("filter", "bind", "values"):
            self.skip()
        elif self.word == "select":
            while self.next is not _END and self.next.text != "{":
                self.check()
                self.at += 1
            self.group()
            while self.next is not _END and self.next.text != "}":
                self.check()
                self.at += 1
        elif self.next.text == ",":
            raise self.diagnostic(
                "`,` cannot separate triples in braces",
                "triples are separated by ` .`; `,` stands between objects, and between conditions after `}`",
            )
        else:
            self.triples()

    def skip(self) -> None:
        # Skip a FILTER, BIND or VALUES, with the groups after EXISTS.
        word, depth = self.word, 0
        self.at += 1
        while self.next is not _END:
            if self.word == "exists":
                self.at += 1
                if self.next.text == "{":
                    self.group()
                    if not depth:
                        return
                continue
            if not depth and (self.next.text == "}" or (word != "values" and self.next.kind == "variable")):
                raise self.diagnostic(f"`{word.upper()}` takes its expression in `(...)`", "`FILTER(?x > 3)`")
            self.check()
            depth += self.next.text in ("(", "{")
            depth -= self.next.text in (")", "}")
            closes = self.next.text in (")", "}")
            self.at += 1
            if closes and not depth and not (word == "values" and self.next.text == "{"):
                return

    def triples(self) -> None:
        self.term()
        if self.next.text in (".", "}") and self.found[self.at - 1].text == "]":
            return
        while True:
            self.path()
            self.term()
            comma = None
            while self.next.text == ",":
                comma = self.next
                self.at += 1
                self.term()
                if self.next.text in _COMPARISONS:
                    self.path()
            if self.next.kind in _TERMS or self.next.text == "[" or self.word == "a":
                self.missing_dot(comma)
            if self.next.text != ";":
                return
            while self.next.text == ";":
                self.at += 1
            if self.next.text in (".", "}", "]"):
                return

    def missing_dot(self, comma: SparqlToken | None) -> None:
        if comma is not None:
            raise Diagnostic(
                comma.start,
                comma.end,
                "`,` goes on with the same subject and predicate",
                "separate triples by ` .`: `?s ex:p ?o . ?t ex:q ?u`; `,` separates conditions after `}`",
            )
        raise self.diagnostic(
            f"a `.` or `;` is missing before `{self.next.text}`",
            "triples are separated by ` .`; `;` goes on with the same subject: `?s ex:p ?o ; ex:q ?u`",
        )

    def path(self) -> None:
        if self.next.text in _COMPARISONS:
            end = self.found[self.at + 1].end if self.at + 1 < len(self.found) else self.next.end
            raise Diagnostic(
                self.found[self.at - 1].start,
                end,
                "a comparison between braces is a FILTER",
                "`FILTER(?X > 3)`, or after the braces, where `?X` is `X`: `{ ... }, X > 3`",
            )
        if self.word == "a":
            self.at += 1
        elif self.next.text in ("^", "!"):
            self.at += 1
            self.path()
            return
        elif self.next.text == "(":
            self.at += 1
            self.path()
            self.at += self.next.text == ")"
        elif self.next.kind in ("string", "number") or self.next.text in ("}", "."):
            raise self.diagnostic(
                "a predicate is expected here", "a triple is subject, predicate, object: `?s ex:p ?o`"
            )
        else:
            self.term()
        while self.next.text in ("*", "+", "?"):
            self.at += 1
        if self.next.text in ("/", "|"):
            self.at += 1
            self.path()

    def term(self) -> None:
        token = self.next
        self.check()
        if token.text in ("[", "("):
            self.at += 1
            while self.next is not _END and self.next.text not in ("]", ")"):
                if token.text == "[":
                    self.path()
                self.term()
                while self.next.text in (",", ";"):
                    self.at += 1
                    if self.found[self.at - 1].text == ",":
                        self.term()
            self.at += 1
            return
        if token.kind == "word" and token.text not in ("true", "false"):
            hint = (
                f"a variable is written `?{token.text}`"
                if token.text[0].isupper()
                else f'a name has a prefix, `ex:{token.text}`; write a text in quotes, `"{token.text}"`'
            )
            raise self.diagnostic(f"`{token.text}` is not a term of SPARQL", hint)
        if token.text in ("+", "-"):
            self.at += 1
        elif token.kind == "mark":
            raise self.diagnostic(f"a term is expected here, not `{token.text}`", "a triple is `?s ex:p ?o`")
        self.at += 1
        if token.kind == "string":
            if self.next.kind == "language":
                self.at += 1
            elif self.next.text == "^^":
                self.at += 1
                self.term()

    def check(self) -> None:
        token = self.next
        if token.kind == "name" and token.text.partition(":")[0] not in self.prefixes:
            prefix = token.text.partition(":")[0]
            raise self.diagnostic(
                f"the prefix `{prefix}:` is not declared",
                f"declare it: `PREFIX {prefix}: <http://...>`, without a final dot",
            )
        if token.kind == "iri" and ":" not in token.text:
            raise self.diagnostic(
                f"`{token.text}` is not a full IRI", "an IRI is written in full, `<http://...>`, or as `ex:name`"
            )

    def diagnostic(self, message: str, hint: str | None = None) -> Diagnostic:
        token = self.next
        if token is _END:
            token = self.found[-1]
        return Diagnostic(token.start, token.end, message, hint)
