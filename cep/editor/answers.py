"""Answers to an editor about a position in a program: hover texts, completions, definitions, references, renaming."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cep.core.prefixes import PREFIXES, namespace
from cep.core.schema import Schema
from cep.editor.checking import Understood
from cep.editor.prefixed import Prefixed
from cep.editor.symbols import BUILT_IN, Index, Occurrence, Statement
from cep.editor.words import STATEMENTS, TYPES, all_keywords, function_help, keyword_help
from cep.language.syntax.tokens import Token
from cep.rules.expressions.aggregates import AGGREGATES
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.keywords import KEYWORDS, OPERATORS, POSTFIXES
from cep.rules.printing import attribute as print_attribute
from cep.rules.printing import declaration

NAMED = ("event", "fluent", "predicate", "name")
RENAMED = (*NAMED[:3], "attribute", "parameter", "variable", "prefix", "label", "alert")
_NAME = {"parameter": r"[^\W\d_]\w*", "variable": r"[^\W\d]\w*", "prefix": r"[^\W\d_][\w-]*"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A word that completes the text at a position. `rank`: proposals with a lower rank come first."""

    word: str
    kind: str
    detail: str = ""
    says: str = ""
    rank: int = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A range of text in a file."""

    path: Path
    start: int
    end: int


@dataclass(slots=True)
class Program:
    """The current files of a program, and the results of the last check that succeeded."""

    indexes: Mapping[Path, Index]
    understood: Understood = field(default_factory=Understood)
    prefixed: Prefixed = field(default_factory=Prefixed)

    # -- places

    def places(self, path: Path, offset: int) -> list[Place]:
        """Return all occurrences of the name at an offset, in all files. A variable is limited to its statement."""
        one = self.indexes[path].at(offset)
        if one is None or one.kind in ("keyword", "type", "function"):
            return []
        files = [path] if one.kind in ("variable", "label", "prefix") else list(self.indexes)
        return [Place(each, found.start, found.end) for each in files for found in self.indexes[each].same(one)]

    def definitions(self, path: Path, offset: int) -> list[Place]:
        """Return the declaration of the name at an offset.

        If the name has no declaration, or the offset is in it, return the rules that derive the name.
        """
        index = self.indexes[path]
        one = index.at(offset)
        if one is None:
            return []
        if one.kind == "variable":
            return self.places(path, offset)[:1]
        if one.kind == "iri":
            return [
                Place(path, each.start, each.end) for each in index.occurrences if _declares_prefix(each, one.scope)
            ]
        declared: list[Place] = []
        derived: list[Place] = []
        for each, other in self.indexes.items():
            for found in other.same(one):
                if found.defines:
                    statement = other.statement_at(found.start)
                    rule = statement is not None and statement.kind in ("rule", "static", "while")
                    (derived if rule else declared).append(Place(each, found.start, found.end))
        here = Place(path, one.start, one.end)
        return derived if not declared or (declared == [here] and derived) else declared

    def rename(self, path: Path, offset: int, name: str) -> list[Place]:
        """Return the ranges to change for a new name. Raises ValueError if the name is not allowed."""
        one = self.indexes[path].at(offset)
        if one is None or one.kind not in RENAMED:
            raise ValueError(
                "only events, fluents, predicates, attributes, parameters, variables and prefixes are renamed"
            )
        lower = "names start with a lower-case letter"
        if re.fullmatch(_NAME.get(one.kind, r"[^\W\d_]\w*"), name) is None:
            raise ValueError(f"`{name}` is not a name: letters, digits and `_`")
        if one.kind in ("parameter", "variable"):
            if not (name[0].isupper() or (name[0] == "_" and one.kind == "variable")) or name == "_":
                raise ValueError(f"`{name}`: variables and parameters start with an upper-case letter")
        elif one.kind != "prefix" and not name[0].islower():
            raise ValueError(f"`{name}`: {lower}")
        if name.upper() in KEYWORDS and one.kind in NAMED:
            raise ValueError(f"`{name}` is a keyword")
        taken = self._taken(path, one, name)
        if taken:
            raise ValueError(f"`{name}` is {taken} already")
        return self.places(path, offset)

    def _taken(self, path: Path, one: Occurrence, name: str) -> str:
        index = self.indexes[path]
        if name == one.name:
            return ""
        if one.kind in ("variable", "parameter"):
            if name in index.parameters:
                return "a parameter"
            scopes = {each.scope for i in self.indexes.values() for each in i.same(one)}
            variables = [each for each in index.occurrences if each.kind == "variable" and each.name == name]
            if any(one.kind == "parameter" or each.scope in scopes for each in variables):
                return "a variable here"
        elif one.kind in NAMED and name in index.names:
            return f"the name of {_article(index.names[name])}"
        elif one.kind == "attribute" and name in self._attributes(one.scope):
            return f"an attribute of `{one.scope}`"
        elif one.kind == "prefix" and name in index.prefixes:
            return "a prefix"
        return ""

    def _attributes(self, event: str) -> dict[str, str]:
        """Return the attributes of an event with their declarations, from the text or from the last successful
        check."""
        schema = self.understood.schemas.get(event)
        found = {} if schema is None else {each.name: print_attribute(each) for each in schema.shown}
        for index in self.indexes.values():
            for each in index.occurrences:
                if each.kind == "attribute" and each.scope == event and each.defines:
                    found.setdefault(each.name, each.name)
        return found

    # -- what stands there

    def hover(self, path: Path, offset: int) -> tuple[str, Occurrence] | None:
        """Return the hover text for the name at an offset, in Markdown, and the name."""
        index = self.indexes[path]
        one = index.at(offset)
        if one is None:
            return None
        said = self._said(index, one)
        return (said, one) if said else None

    def _said(self, index: Index, one: Occurrence) -> str:
        match one.kind:
            case "keyword":
                return keyword_help(one.name) and f"**{one.name}** {keyword_help(one.name)}"
            case "type":
                return f"**{one.name}** {TYPES[one.name]}" if one.name in TYPES else ""
            case "function":
                called, says = function_help(one.name)
                return f"{_code(called)}\n{says}"
            case "event" | "fluent" | "predicate" | "name" | "alert":
                return self._named(one)
            case "attribute":
                return self._attribute(one)
            case "parameter":
                return self._parameter(one)
            case "variable":
                return self._variable(index, one)
            case "prefix":
                iri = namespace(one.name, index.prefixes)
                return _code(f"PREFIX {one.name}: <{iri}>") if iri else ""
            case "iri":
                space = namespace(one.scope, index.prefixes)
                return self._iri(f"{space}{one.name}") if space else ""
        return ""

    def _statements(self, name: str) -> Iterator[tuple[Index, Statement]]:
        for index in self.indexes.values():
            for each in index.statements:
                if each.name is not None and each.name.text == name and each.declares is not None:
                    yield index, each

    def _named(self, one: Occurrence) -> str:
        """Describe an event, fluent, predicate or alert: its declaration, or inferred types, and its comments."""
        made = sorted(self._statements(one.name), key=lambda each: each[1].kind in ("rule", "static", "while"))
        shown = ""
        if made and made[0][1].kind in ("event", "fluent", "fact", "alert"):
            index, statement = made[0]
            shown = index.text[statement.start : statement.end]
        elif (schema := self.understood.schemas.get(one.name)) is not None:
            shown = f"event {declaration(schema.name, schema.shown)}"
        elif made:
            shown = made[0][0].text[made[0][1].start : made[0][1].end]
        if not shown:
            return ""
        comments = list(dict.fromkeys(filter(None, (index.comment_of(each) for index, each in made))))
        rules = sum(each.kind in ("rule", "static", "while") for _, each in made)
        derived = f"\n\nderived by {rules} rule{'s' if rules > 1 else ''}" if rules else ""
        return _code(shown) + "".join(f"\n{each}\n" for each in comments[:3]) + derived

    def _attribute(self, one: Occurrence) -> str:
        schema = self.understood.schemas.get(one.scope)
        found = None if schema is None else next((each for each in schema.attributes if each.name == one.name), None)
        shown = self._attributes(one.scope).get(one.name, "")
        if not shown:
            return ""
        said = f"{_code(shown)}\nof `{one.scope}`"
        for index in self.indexes.values():
            for each in index.occurrences:
                if each.kind == "attribute" and each.defines and (each.name, each.scope) == (one.name, one.scope):
                    comment = index.comment_behind(each.end)
                    said += f"\n\n{comment}" if comment else ""
        if found is not None and found.iri is not None:
            said += f"\n\n{self._iri(found.iri)}"
        return said

    def _parameter(self, one: Occurrence) -> str:
        found = next((each for each in self.understood.parameters if each.name == one.name), None)
        index, statement = next(self._statements(one.name), (None, None))
        if index is None or statement is None:
            return ""
        said = _code(index.text[statement.start : statement.end])
        comment = index.comment_of(statement) or index.comment_behind(statement.end)
        said += f"\n{comment}\n" if comment else ""
        return said if found is None else f"{said}\na {found.type}"

    def _variable(self, index: Index, one: Occurrence) -> str:
        type_, event, attribute = self._variable_type(index, one)
        if event:
            return f"{_code(f'{one.name}: {type_}')}\n`{attribute}` of `{event}`"
        statement = index.statements[int(one.scope)]
        bound = next(_bindings(index, statement, one.name), None)
        return "" if bound is None else f"{_code(bound)}"

    def _variable_type(self, index: Index, one: Occurrence) -> tuple[str, str, str]:
        """Return the type of a variable, with the event and attribute that it comes from.

        The first event that has the variable as an argument counts.
        """
        statement = index.statements[int(one.scope)]
        for event, place, token in _arguments(statement.tokens):
            schema = self.understood.schemas.get(event)
            if schema is None or token.text != one.name:
                continue
            if event == getattr(statement.name, "text", None) and statement.kind in ("rule", "static", "while"):
                continue
            found = (
                schema.attributes[place]
                if isinstance(place, int) and place < len(schema.attributes)
                else next((each for each in schema.attributes if each.name == place), None)
            )
            if found is not None:
                return found.type, event, found.name
        return "", "", ""

    def _iri(self, iri: str) -> str:
        said = self.prefixed.said(self.understood.known, iri)
        parts = [f"<{iri}>".replace("<", "`<", 1) + "`"]
        parts += [f"**{said.label}**"] if said.label else []
        parts += [said.comment] if said.comment else []
        parts += [f"unit: `{said.unit}`"] if said.unit else []
        parts += [f"a `{said.type}`"] if said.type else []
        return "\n\n".join(parts)

    # -- what may stand there

    def complete(self, path: Path, offset: int) -> list[Proposal]:
        """Return the words that may follow at an offset."""
        index = self.indexes[path]
        line = index.text[index.text.rfind("\n", 0, offset) + 1 : offset]
        if _in_comment(line):
            return []
        if match := re.search(r"(?<![\w:])([^\W\d_][\w-]*|):([\w-]*)$", line):
            names = self.prefixed.names(self.understood.known, match[1], index.prefixes)
            if names:
                return [Proposal(name, "iri", f"{match[1]}:{name}", rank=0) for name in names]
        typed = re.search(r"\w*$", line)
        begin = offset - len(typed[0] if typed else "")
        statement = index.statement_at(max(0, begin - 1))
        before = [] if statement is None else [each for each in statement.tokens if each.end <= begin]
        if statement is None or not before or _is_over(statement, before):
            return _beginnings()
        if statement.kind in ("event", "fluent", "fact"):
            return self._in_declaration(before)
        return self._in_rule(index, statement, before)

    def _in_declaration(self, before: Sequence[Token]) -> list[Proposal]:
        if before[-1].key == ":":
            return [Proposal(name, "type", says=says, rank=0) for name, says in TYPES.items()]
        words = ("FROM", "AS", "TIME", "START", "END", "KEY", "FORMAT", "ZONE", "MISSING", "WHEN", "DISTINCT", "in")
        return [Proposal(word, "keyword", says=keyword_help(word)) for word in words]

    def _in_rule(self, index: Index, statement: Statement, before: Sequence[Token]) -> list[Proposal]:
        found: list[Proposal] = []
        last = before[-1]
        names = index.names
        if last.key in ("POLICY",):
            return [Proposal(word, "keyword", rank=0) for word in ("unrestricted", "recent", "chronological")]
        called = _open_call(before)
        if called in names and last.key in ("(", ","):
            attributes = self._attributes(called)
            found += [Proposal(f"{name}: ", "attribute", shown, rank=1) for name, shown in attributes.items()]
        conditions = _in_conditions(before)
        for name, kind in names.items():
            schema = self.understood.schemas.get(name)
            detail = _signature(schema) if schema is not None else kind
            rank = 2 if (kind == "predicate") == conditions else 4
            found.append(Proposal(name, kind, detail, rank=rank))
        scope = str(statement.number)
        variables = {each.name for each in index.occurrences if each.kind == "variable" and each.scope == scope}
        for name in sorted(variables - {"_"}):
            one = Occurrence("variable", name, 0, 0, scope)
            found.append(Proposal(name, "variable", self._variable_type(index, one)[0], rank=1 if conditions else 3))
        for parameter in sorted(index.parameters):
            detail = next((each.type for each in self.understood.parameters if each.name == parameter), "")
            found.append(Proposal(parameter, "parameter", detail, rank=2))
        functions = (*AGGREGATES, *FUNCTIONS, *BUILT_IN) if _in_aggregate(before) else (*FUNCTIONS, *BUILT_IN)
        for name in dict.fromkeys(functions):
            shown, says = function_help(name)
            found.append(Proposal(name, "function", shown, says, 3 if conditions or called else 6))
        for word in all_keywords():
            if word.upper() not in STATEMENTS:
                near = word in OPERATORS or word in POSTFIXES
                found.append(Proposal(word, "keyword", says=keyword_help(word), rank=3 if near else 7))
        known = {*index.prefixes, *PREFIXES}
        found += [
            Proposal(f"{name}:", "prefix", namespace(name, index.prefixes) or "", rank=8) for name in sorted(known)
        ]
        return found


def _declares_prefix(each: Occurrence, prefix: str) -> bool:
    return each.kind == "prefix" and each.defines and each.name == prefix


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _code(text: str) -> str:
    return f"```cep\n{text}\n```"


def _signature(schema: Schema) -> str:
    return f"({', '.join(f'{each.name}: {each.type}' for each in schema.attributes)})"


def _beginnings() -> list[Proposal]:
    words = [word if word in ("PARAM", "ALERT", "PREFIX") else word.lower() for word in STATEMENTS]
    return [Proposal(word, "keyword", says=keyword_help(word), rank=1) for word in words]


def _is_over(statement: Statement, before: Sequence[Token]) -> bool:
    return before[-1] is statement.tokens[-1] and (before[-1].key == "." or statement.kind == "prefix")


def _in_comment(line: str) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|<[A-Za-z][^<>\s]*>', "", line)
    return "#" in bare or "%" in bare


def _open_call(tokens: Sequence[Token]) -> str:
    """Return the name that the innermost open parenthesis calls."""
    depth = 0
    for at in range(len(tokens) - 1, -1, -1):
        depth += (tokens[at].key in (")", "]")) - (tokens[at].key in ("(", "["))
        if depth < 0:
            return tokens[at - 1].text if at and tokens[at].key == "(" and tokens[at - 1].kind == "name" else ""
    return ""


def _in_conditions(tokens: Sequence[Token]) -> bool:
    for token in reversed(tokens):
        if token.key in ("WHERE", ":-"):
            return True
        if token.key in OPERATORS and token.text.isupper():
            return False
        if token.key in ("<-", "AGGREGATE", "WITHIN"):
            return False
    return False


def _in_aggregate(tokens: Sequence[Token]) -> bool:
    for token in reversed(tokens):
        if token.key in ("AGGREGATE", "OVER", "WHERE", "<-"):
            return token.key == "AGGREGATE"
    return False


def _arguments(tokens: Sequence[Token]) -> Iterator[tuple[str, int | str, Token]]:
    """Yield the variables that are arguments of a call, as (name of the call, position or attribute, token)."""
    called: list[str] = []
    places: list[int] = []
    for at, token in enumerate(tokens[:-1]):
        before, after = tokens[max(0, at - 1)], tokens[at + 1]
        if token.key in ("(", "["):
            called.append(before.text if before.kind == "name" else "")
            places.append(0)
        elif not called:
            continue
        elif token.key in (")", "]"):
            called.pop()
            places.pop()
        elif token.key == ",":
            places[-1] += 1
        elif token.kind == "variable" and before.key in ("(", ",", ":") and after.key in (",", ")"):
            yield called[-1], tokens[at - 2].text if before.key == ":" else places[-1], token


def _bindings(index: Index, statement: Statement, name: str) -> Iterator[str]:
    """Yield the text of each assignment `X = ...` to this variable."""
    tokens = statement.tokens
    for at, token in enumerate(tokens[:-1]):
        if token.text == name and tokens[at + 1].key in ("=", "IS"):
            depth, end = 0, at + 2
            while end < len(tokens):
                depth += (tokens[end].key in ("(", "[")) - (tokens[end].key in (")", "]"))
                if depth < 0 or (depth == 0 and tokens[end].key in (",", ".", "OVER", "WHERE", "WITHIN", "POLICY")):
                    break
                end += 1
            yield index.text[token.start : tokens[end - 1].end]
