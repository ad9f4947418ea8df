"""YAML values and their places in a file, so that an error in a test file can quote its line and column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

from cep.core.errors import CepError, Mistakes, Source, Span
from cep.core.suggest import did_you_mean

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

Read = TypeVar("Read")
Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a YAML file: a scalar, a mapping or a list.

    - `scalar`: the value of a scalar, converted according to YAML.
    - `text`: the text of a scalar, as it is written in the file.
    - `line_inside`: for a block text, the number of the line before the text's first line.
    """

    source: Source
    span: Span
    scalar: Scalar = None
    text: str | None = None
    mapping: Mapping[str, tuple[Value, Value]] | None = None
    items: tuple[Value, ...] | None = None
    line_inside: int | None = None

    @property
    def kind(self) -> str:
        """The kind of the value in words, for messages."""
        if self.mapping is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        return "nothing" if self.scalar is None else f"`{self.text}`"

    @property
    def line(self) -> int:
        return self.span.line

    @property
    def filled(self) -> bool:
        """Return True unless the value is an empty list, an empty mapping or null."""
        return bool(self.mapping or self.items) or self.scalar is not None

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raise a CepError that quotes the place of this value in its file."""
        raise self.error(message, hint)

    def error(self, message: str, hint: str | None = None) -> CepError:
        return CepError(message, self.source, self.span, hint, "test")

    def entries(self, expected: str) -> Mapping[str, tuple[Value, Value]]:
        """Return the keys and values of a mapping. Raises CepError if the value is not a mapping."""
        if self.mapping is None:
            self.fail(f"expected {expected}, found {self.kind}")
        return self.mapping

    def known(self, names: Mapping[str, str], what: str, wrong: Mistakes) -> dict[str, Value]:
        """Return the values of a mapping by key. Raises CepError if this value is not a mapping.

        `names`: the allowed keys. For each other key, a mistake is added to `wrong`.
        """
        entries = {}
        for name, (key, value) in self.entries(f"{what}, which has keys such as `{next(iter(names))}`").items():
            if name not in names:
                listed = ", ".join(f"`{name}`" for name in names)
                hint = did_you_mean(name, list(names)) or f"the keys are {listed}"
                wrong.append(key.error(f"{what} has no key `{name}`", hint))
            else:
                entries[name] = value
        return entries

    def list(self, expected: str) -> tuple[Value, ...]:
        """Return the items of a list. Raises CepError if the value is not a list."""
        if self.items is None:
            self.fail(f"expected {expected}, found {self.kind}")
        return self.items

    def one_or_list(self) -> tuple[Value, ...]:
        """Return the items of a list. If this value is not a list, return a tuple that contains only this value."""
        return (self,) if self.items is None else self.items

    def word(self, expected: str) -> str:
        """Return the text of a scalar. Raises CepError if the value is not a scalar."""
        if self.text is None or self.scalar is None:
            self.fail(f"expected {expected}, found {self.kind}")
        return self.text

    def only_entry(self, expected: str) -> tuple[Value, Value]:
        """Return the key and the value of a mapping's only entry. Raises CepError if this value is not a mapping with
        exactly one entry."""
        entries = self.entries(expected)
        if len(entries) != 1:
            self.fail(f"expected {expected}, found {len(entries)} keys", "begin each with `- `")
        return next(iter(entries.values()))

    def read(self, reader: Callable[[str], Read], expected: str) -> Read:
        """Parse the text of a scalar with `reader`. Raises CepError if this value is not a scalar, or if `reader`
        refuses the text."""
        try:
            return reader(self.word(expected))
        except CepError as error:
            if error.source is not None:
                raise
            self.fail(error.message, error.hint)
        except ValueError as error:
            self.fail(str(error) or f"expected {expected}, found {self.kind}")


def read_yaml(text: str, name: str, wrong: Mistakes) -> Value:
    """Parse the text of a YAML file that has one document. Raises CepError if the text is not valid YAML.

    A key that occurs twice in a mapping is a mistake, which is added to `wrong`.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    source = Source(text, name)
    try:
        node = YAML().compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
        message = f"this is not YAML: {error.problem or error.context}"
        hint = "indent with blanks, not with tabs" if "\\t" in message else None
        raise CepError(message, source, Span(line, column, line, column + 1), hint, "test") from None
    except YAMLError as error:
        raise CepError(f"{name}: this is not YAML: {str(error).splitlines()[0]}", code="test") from None
    if node is None:
        raise CepError(f"{name}: the file is empty", hint="begin it with `program: rules.cep`", code="test")
    return _value(node, source, wrong)


def _value(node: Node, source: Source, wrong: Mistakes) -> Value:
    from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

    span = _span(node)
    if isinstance(node, MappingNode):
        entries: dict[str, tuple[Value, Value]] = {}
        for key, value in _pairs(node):
            name, content = _value(key, source, wrong), _value(value, source, wrong)
            text = name.word("a key")
            if text in entries:
                hint = f"the first is in line {entries[text][0].line}"
                wrong.append(name.error(f"the key `{text}` is written twice", hint))
            else:
                entries[text] = (name, content)
        return Value(source, span, mapping=entries)
    if isinstance(node, SequenceNode):
        return Value(source, span, items=tuple(_value(child, source, wrong) for child in node.value))
    assert isinstance(node, ScalarNode), "there are three kinds of nodes"
    block = node.start_mark.line + 1 if node.style in ("|", ">") else None
    return Value(source, span, _scalar(node.value, str(node.tag)), node.value, line_inside=block)


def _pairs(node: Node) -> Iterator[tuple[Node, Node]]:
    yield from node.value


def _span(node: Node) -> Span:
    first, last = node.start_mark, node.end_mark
    if last.line == first.line:
        return Span(first.line + 1, first.column + 1, last.line + 1, max(last.column, first.column + 1) + 1)
    return Span(first.line + 1, first.column + 1, first.line + 1, first.column + 2)


def _scalar(text: str, tag: str) -> Scalar:
    """Convert a scalar by the rules of YAML 1.2, under which `NO` and `2024-05-01` are texts."""
    match tag.rpartition(":")[2]:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _int(text)
        case "float":
            return float(text.replace(".inf", "inf").replace(".nan", "nan").replace(".Inf", "inf"))
        case _:
            return text


def _int(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    base = {"0x": 16, "0o": 8}.get(digits[:2].lower())
    return sign * (int(digits, base) if base in (16,) else int(digits[2:], 8) if base else int(digits))
