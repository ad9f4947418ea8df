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
    """A word that can complete the text at a position. `rank`: the sort key of proposals, the lowest first."""

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
    """The current files of a program, and the results of the last successful check."""

    indexes: Mapping[Path, Index]
    understood: Understood = field(default_factory=Understood)
    prefixed: Prefixed = field(default_factory=Prefixed)

    # -- places

    def places(self, path: Path, offset: int) -> list[Place]:
        """Return all places of the name that is at an offset, in all files. If the name is a variable, only the places
        in the same statement are returned."""
        occurrence = self.indexes[path].at(offset)
        if occurrence is None or occurrence.kind in ("keyword", "type", "function"):
            return []
        files = [path] if occurrence.kind in ("variable", "label", "prefix") else list(self.indexes)
        return [Place(file, same.start, same.end) for file in files for same in self.indexes[file].same(occurrence)]

    def definitions(self, path: Path, offset: int) -> list[Place]:
        """Return the declaration of the name that is at an offset.

        If the name has no declaration, or if the offset is in the declaration, return the rules that derive the name.
        """
        index = self.indexes[path]
        occurrence = index.at(offset)
        if occurrence is None:
            return []
        if occurrence.kind == "variable":
            return self.places(path, offset)[:1]
        if occurrence.kind == "iri":
            return [
                Place(path, candidate.start, candidate.end)
                for candidate in index.occurrences
                if _declares_prefix(candidate, occurrence.scope)
            ]
        declared: list[Place] = []
        derived: list[Place] = []
        for file, other in self.indexes.items():
            for same in other.same(occurrence):
                if same.defines:
                    statement = other.statement_at(same.start)
                    rule = statement is not None and statement.kind in ("rule", "static", "while")
                    (derived if rule else declared).append(Place(file, same.start, same.end))
        here = Place(path, occurrence.start, occurrence.end)
        return derived if not declared or (declared == [here] and derived) else declared

    def rename(self, path: Path, offset: int, name: str) -> list[Place]:
        """Return the places to change when the name at an offset is replaced by `name`. Raises ValueError if the name
        cannot be replaced."""
        occurrence = self.indexes[path].at(offset)
        if occurrence is None or occurrence.kind not in RENAMED:
            raise ValueError(
                "only events, fluents, predicates, attributes, parameters, variables and prefixes can be renamed"
            )
        lower = "names start with a lower-case letter"
        if re.fullmatch(_NAME.get(occurrence.kind, r"[^\W\d_]\w*"), name) is None:
            raise ValueError(f"`{name}` is not a valid name: use letters, digits and `_`")
        if occurrence.kind in ("parameter", "variable"):
            if not (name[0].isupper() or (name[0] == "_" and occurrence.kind == "variable")) or name == "_":
                raise ValueError(f"`{name}`: variables and parameters start with an upper-case letter")
        elif occurrence.kind != "prefix" and not name[0].islower():
            raise ValueError(f"`{name}`: {lower}")
        if name.upper() in KEYWORDS and occurrence.kind in NAMED:
            raise ValueError(f"`{name}` is a keyword")
        taken = self._taken(path, occurrence, name)
        if taken:
            raise ValueError(f"`{name}` is {taken} already")
        return self.places(path, offset)

    def _taken(self, path: Path, occurrence: Occurrence, name: str) -> str:
        index = self.indexes[path]
        if name == occurrence.name:
            return ""
        if occurrence.kind in ("variable", "parameter"):
            if name in index.parameters:
                return "a parameter"
            scopes = {same.scope for i in self.indexes.values() for same in i.same(occurrence)}
            variables = [
                occurrence
                for occurrence in index.occurrences
                if occurrence.kind == "variable" and occurrence.name == name
            ]
            if any(occurrence.kind == "parameter" or variable.scope in scopes for variable in variables):
                return "a variable here"
        elif occurrence.kind in NAMED and name in index.names:
            return f"the name of {_article(index.names[name])}"
        elif occurrence.kind == "attribute" and name in self._attributes(occurrence.scope):
            return f"an attribute of `{occurrence.scope}`"
        elif occurrence.kind == "prefix" and name in index.prefixes:
            return "a prefix"
        return ""

    def _attributes(self, event: str) -> dict[str, str]:
        schema = self.understood.schemas.get(event)
        attributes = (
            {} if schema is None else {attribute.name: print_attribute(attribute) for attribute in schema.shown}
        )
        for index in self.indexes.values():
            for occurrence in index.occurrences:
                if occurrence.kind == "attribute" and occurrence.scope == event and occurrence.defines:
                    attributes.setdefault(occurrence.name, occurrence.name)
        return attributes

    # -- what stands there

    def hover(self, path: Path, offset: int) -> tuple[str, Occurrence] | None:
        """Return the hover text in Markdown for the name that is at an offset, and the name's occurrence. Returns None
        if there is no hover text."""
        index = self.indexes[path]
        occurrence = index.at(offset)
        if occurrence is None:
            return None
        said = self._said(index, occurrence)
        return (said, occurrence) if said else None

    def _said(self, index: Index, occurrence: Occurrence) -> str:
        match occurrence.kind:
            case "keyword":
                return keyword_help(occurrence.name) and f"**{occurrence.name}** {keyword_help(occurrence.name)}"
            case "type":
                return f"**{occurrence.name}** {TYPES[occurrence.name]}" if occurrence.name in TYPES else ""
            case "function":
                called, says = function_help(occurrence.name)
                return f"{_code(called)}\n{says}"
            case "event" | "fluent" | "predicate" | "name" | "alert":
                return self._named(occurrence)
            case "attribute":
                return self._attribute(occurrence)
            case "parameter":
                return self._parameter(occurrence)
            case "variable":
                return self._variable(index, occurrence)
            case "prefix":
                iri = namespace(occurrence.name, index.prefixes)
                return _code(f"PREFIX {occurrence.name}: <{iri}>") if iri else ""
            case "iri":
                space = namespace(occurrence.scope, index.prefixes)
                return self._iri(f"{space}{occurrence.name}") if space else ""
        return ""

    def _statements(self, name: str) -> Iterator[tuple[Index, Statement]]:
        for index in self.indexes.values():
            for statement in index.statements:
                if statement.name is not None and statement.name.text == name and statement.declares is not None:
                    yield index, statement

    def _named(self, occurrence: Occurrence) -> str:
        """Describe an event, fluent, predicate or alert. The text has its declaration or its inferred types, and the
        comments above the declaration."""
        defining = sorted(
            self._statements(occurrence.name), key=lambda pair: pair[1].kind in ("rule", "static", "while")
        )
        shown = ""
        if defining and defining[0][1].kind in ("event", "fluent", "fact", "alert"):
            index, statement = defining[0]
            shown = index.text[statement.start : statement.end]
        elif (schema := self.understood.schemas.get(occurrence.name)) is not None:
            shown = f"event {declaration(schema.name, schema.shown)}"
        elif defining:
            shown = defining[0][0].text[defining[0][1].start : defining[0][1].end]
        if not shown:
            return ""
        comments = list(dict.fromkeys(filter(None, (index.comment_of(statement) for index, statement in defining))))
        rules = sum(statement.kind in ("rule", "static", "while") for _, statement in defining)
        derived = f"\n\nderived by {rules} rule{'s' if rules > 1 else ''}" if rules else ""
        return _code(shown) + "".join(f"\n{comment}\n" for comment in comments[:3]) + derived

    def _attribute(self, occurrence: Occurrence) -> str:
        schema = self.understood.schemas.get(occurrence.scope)
        attribute = (
            None
            if schema is None
            else next((attribute for attribute in schema.attributes if attribute.name == occurrence.name), None)
        )
        shown = self._attributes(occurrence.scope).get(occurrence.name, "")
        if not shown:
            return ""
        said = f"{_code(shown)}\nof `{occurrence.scope}`"
        for index in self.indexes.values():
            for mention in index.occurrences:
                if (
                    mention.kind == "attribute"
                    and mention.defines
                    and (mention.name, mention.scope) == (occurrence.name, occurrence.scope)
                ):
                    comment = index.comment_behind(mention.end)
                    said += f"\n\n{comment}" if comment else ""
        if attribute is not None and attribute.iri is not None:
            said += f"\n\n{self._iri(attribute.iri)}"
        return said

    def _parameter(self, occurrence: Occurrence) -> str:
        parameter = next(
            (parameter for parameter in self.understood.parameters if parameter.name == occurrence.name), None
        )
        index, statement = next(self._statements(occurrence.name), (None, None))
        if index is None or statement is None:
            return ""
        said = _code(index.text[statement.start : statement.end])
        comment = index.comment_of(statement) or index.comment_behind(statement.end)
        said += f"\n{comment}\n" if comment else ""
        return said if parameter is None else f"{said}\na {parameter.type}"

    def _variable(self, index: Index, occurrence: Occurrence) -> str:
        type_, event, attribute = self._variable_type(index, occurrence)
        if event:
            return f"{_code(f'{occurrence.name}: {type_}')}\n`{attribute}` of `{event}`"
        statement = index.statements[int(occurrence.scope)]
        bound = next(_bindings(index, statement, occurrence.name), None)
        return "" if bound is None else f"{_code(bound)}"

    def _variable_type(self, index: Index, occurrence: Occurrence) -> tuple[str, str, str]:
        """Return the type of a variable, and the event and attribute from which the type comes. All three are empty if
        the variable is not an argument of an event in its statement."""
        statement = index.statements[int(occurrence.scope)]
        for event, place, token in _arguments(statement.tokens):
            schema = self.understood.schemas.get(event)
            if schema is None or token.text != occurrence.name:
                continue
            if event == getattr(statement.name, "text", None) and statement.kind in ("rule", "static", "while"):
                continue
            attribute = (
                schema.attributes[place]
                if isinstance(place, int) and place < len(schema.attributes)
                else next((attribute for attribute in schema.attributes if attribute.name == place), None)
            )
            if attribute is not None:
                return attribute.type, event, attribute.name
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
        """Return the words that can complete the text at an offset."""
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
        before = [] if statement is None else [token for token in statement.tokens if token.end <= begin]
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
        proposals: list[Proposal] = []
        last = before[-1]
        names = index.names
        if last.key in ("POLICY",):
            return [Proposal(word, "keyword", rank=0) for word in ("unrestricted", "recent", "chronological")]
        called = _open_call(before)
        if called in names and last.key in ("(", ","):
            attributes = self._attributes(called)
            proposals += [Proposal(f"{name}: ", "attribute", shown, rank=1) for name, shown in attributes.items()]
        conditions = _in_conditions(before)
        for name, kind in names.items():
            schema = self.understood.schemas.get(name)
            detail = _signature(schema) if schema is not None else kind
            rank = 2 if (kind == "predicate") == conditions else 4
            proposals.append(Proposal(name, kind, detail, rank=rank))
        scope = str(statement.number)
        variables = {
            occurrence.name
            for occurrence in index.occurrences
            if occurrence.kind == "variable" and occurrence.scope == scope
        }
        for name in sorted(variables - {"_"}):
            occurrence = Occurrence("variable", name, 0, 0, scope)
            proposals.append(
                Proposal(name, "variable", self._variable_type(index, occurrence)[0], rank=1 if conditions else 3)
            )
        for parameter in sorted(index.parameters):
            detail = next((param.type for param in self.understood.parameters if param.name == parameter), "")
            proposals.append(Proposal(parameter, "parameter", detail, rank=2))
        functions = (*AGGREGATES, *FUNCTIONS, *BUILT_IN) if _in_aggregate(before) else (*FUNCTIONS, *BUILT_IN)
        for name in dict.fromkeys(functions):
            shown, says = function_help(name)
            proposals.append(Proposal(name, "function", shown, says, 3 if conditions or called else 6))
        for word in all_keywords():
            if word.upper() not in STATEMENTS:
                near = word in OPERATORS or word in POSTFIXES
                proposals.append(Proposal(word, "keyword", says=keyword_help(word), rank=3 if near else 7))
        known = {*index.prefixes, *PREFIXES}
        proposals += [
            Proposal(f"{name}:", "prefix", namespace(name, index.prefixes) or "", rank=8) for name in sorted(known)
        ]
        return proposals


def _declares_prefix(occurrence: Occurrence, prefix: str) -> bool:
    return occurrence.kind == "prefix" and occurrence.defines and occurrence.name == prefix


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def _code(text: str) -> str:
    return f"```cep\n{text}\n```"


def _signature(schema: Schema) -> str:
    return f"({', '.join(f'{attribute.name}: {attribute.type}' for attribute in schema.attributes)})"


def _beginnings() -> list[Proposal]:
    words = [word if word in ("PARAM", "ALERT", "PREFIX") else word.lower() for word in STATEMENTS]
    return [Proposal(word, "keyword", says=keyword_help(word), rank=1) for word in words]


def _is_over(statement: Statement, before: Sequence[Token]) -> bool:
    return before[-1] is statement.tokens[-1] and (before[-1].key == "." or statement.kind == "prefix")


def _in_comment(line: str) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|<[A-Za-z][^<>\s]*>', "", line)
    return "#" in bare or "%" in bare


def _open_call(tokens: Sequence[Token]) -> str:
    depth = 0
    for place in range(len(tokens) - 1, -1, -1):
        depth += (tokens[place].key in (")", "]")) - (tokens[place].key in ("(", "["))
        if depth < 0:
            return (
                tokens[place - 1].text
                if place and tokens[place].key == "(" and tokens[place - 1].kind == "name"
                else ""
            )
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
    """Yield the variables that are arguments of calls. A variable is described by the name of the call, its position or
    attribute, and its token."""
    called: list[str] = []
    places: list[int] = []
    for place, token in enumerate(tokens[:-1]):
        before, after = tokens[max(0, place - 1)], tokens[place + 1]
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
            yield called[-1], tokens[place - 2].text if before.key == ":" else places[-1], token


def _bindings(index: Index, statement: Statement, name: str) -> Iterator[str]:
    tokens = statement.tokens
    for place, token in enumerate(tokens[:-1]):
        if token.text == name and tokens[place + 1].key in ("=", "IS"):
            depth, end = 0, place + 2
            while end < len(tokens):
                depth += (tokens[end].key in ("(", "[")) - (tokens[end].key in (")", "]"))
                if depth < 0 or (depth == 0 and tokens[end].key in (",", ".", "OVER", "WHERE", "WITHIN", "POLICY")):
                    break
                end += 1
            yield index.text[token.start : tokens[end - 1].end]
