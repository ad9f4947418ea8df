"""Formatter of programs. It rewrites a program in the usual layout without changing its meaning.

- The author's line breaks and single blank lines are kept.
- Spaces, indentation and the case of reserved words are changed.
- Text that the author aligned in columns stays aligned.
- Each statement begins on a new line, and lines that are too long are broken.
- Graph patterns stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cep.core.errors import Source
from cep.language.syntax import ast
from cep.language.syntax.parser import placed
from cep.language.syntax.tokens import Token, line_starts, tokenise
from cep.rules.keywords import ALERTING, BINARY_OPERATORS, POSTFIXES, RESERVED
from cep.rules.parameters import Parameters
from cep.rules.static.typed_facts import FactDeclaration
from cep.rules.terms import StaticRule

WIDTH = 120
"""The maximum length of a line."""
INDENT = 4
"""The indentation of a continuation line that is not aligned with a token of an earlier line."""
_PASSES = 12
"""The maximum number of passes. A pass that breaks a line can move tokens that were aligned with it, so several passes
are needed."""
_DECLARED = (ast.EventDeclaration, ast.FluentDeclaration, FactDeclaration)
_ARROWED = (ast.EventRule, ast.FluentRule)
_ARROWS = ("<-", ":-")
_FIRST = {
    **dict.fromkeys(("EVENT", "FLUENT", "FACT", "POLICY", "INITIATE", "TERMINATE", "INITIALLY"), str.lower),
    **dict.fromkeys(("PREFIX", "PARAM", "ALERT"), str.upper),
}
"""For the first word of each kind of statement, a function that writes it in lower case or in capitals."""
_EITHER = frozenset(("AND", "OR", "NOT"))
"""Reserved words that have two spellings: `a AND b` joins events, `X > 1 and Y > 1` joins conditions."""
_CAPITALS = RESERVED - _EITHER
_CLAUSES = frozenset((*POSTFIXES, *BINARY_OPERATORS, "UNLESS", "OVER", "WHILE"))
"""Words before which a long line may be broken."""
_SIGNED = frozenset(("IN", "IS", "MOD", "BETWEEN", *RESERVED))
"""Words after which a minus is a sign."""
_COMMENT = re.compile(r"[#%][^\n]*")


@dataclass(slots=True, eq=False)
class _Item:
    """A token or a comment.

    - `line`, `column`: its original position.
    - `breaks`: the number of line breaks directly before it.
    - `spaces`: the original number of spaces before it on its line.
    - `gap`: the usual number of spaces before it.
    - `align`: the number of additional spaces that align it with a column.
    - `output_column`: its column in the output.
    """

    kind: str
    text: str
    key: str
    line: int
    column: int
    breaks: int
    spaces: int
    first: bool
    alert: bool
    gap: int = 1
    depth: int = 0
    before: _Item | None = None
    align: int = 0
    output_column: int = 1

    @property
    def end(self) -> int:
        """The output column just after the item."""
        *before, last = self.text.split("\n")
        return len(last) + (1 if before else self.output_column)


@dataclass(slots=True, eq=False)
class _Line:
    """The tokens and comments of one line.

    - `blank`: True if a blank line precedes this line.
    - `statement`: the number of the statement that contains the items. It is None for a comment between statements.
    - `fresh`: True if the formatter created this line by breaking a line that was too long.
    """

    items: list[_Item]
    blank: bool
    statement: int | None
    fresh: bool = False
    anchors: list[_Item] = field(default_factory=list)


def formatted(source: Source, parameters: Parameters | None = None) -> str:
    """Return a program in the usual layout. Raises CepError if the program has mistakes.

    `parameters`: the parameters that the program uses. By default, these are the parameters that its text declares.
    """
    crlf = "\r\n" in source.text
    text = source.text.replace("\r\n", "\n").replace("\r", "\n")
    statements = list(placed(Source(text, source.name), parameters))
    tree, remarks = [statement for statement, _, _ in statements], _comments(text)
    for _ in range(_PASSES):
        laid_out = _formatted(text, statements)
        if laid_out == text:
            break
        text = laid_out
        statements = list(placed(Source(text, source.name), parameters))
        assert [statement for statement, _, _ in statements] == tree, "a layout changes no meaning"
        assert _comments(text) == remarks, "a layout keeps all comments"
    return text.replace("\n", "\r\n") if crlf else text


def _formatted(text: str, statements: Sequence[tuple[ast.Statement | None, int, int]]) -> str:
    lines = list(_lines(_items(text, statements)))
    aligned = _levels(lines, list(_columns(lines)))
    _lay_out(lines, aligned)
    while _broken(lines):
        _lay_out(lines, aligned)
    return "".join("\n" * line.blank + _text(line) + "\n" for line in lines)


def _text(line: _Line) -> str:
    text, column = "", 1
    for item in line.items:
        text += " " * (item.output_column - column) + item.text
        column = item.end
    return text


# -- items


def _gaps(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    begin = 0
    for token in tokens[:-1]:
        yield begin, token.start
        begin = token.end
    yield begin, len(text)


def _comments(text: str) -> list[str]:
    tokens = tokenise(text, line_starts(text))
    return [
        comment.group().rstrip()
        for begin, end in _gaps(text, tokens)
        for comment in _COMMENT.finditer(text, begin, end)
    ]


def _items(
    text: str, statements: Sequence[tuple[ast.Statement | None, int, int]]
) -> Iterator[tuple[int | None, _Item]]:
    """Yield all tokens and comments in order, each with the number of its statement. The number is None for a comment
    between statements."""
    tokens = tokenise(text, line_starts(text))
    lines = _Places(text)
    index = 0
    before = 0  # the offset after the last item
    last: _Item | None = None
    previous: Token | None = None
    depth = arrows = 0
    for token, (begin, end) in zip(tokens, _gaps(text, tokens), strict=True):
        while index < len(statements) and token.start >= statements[index][2]:
            index += 1
        inside = index < len(statements) and token.kind != "end" and token.start > statements[index][1]
        for comment in _COMMENT.finditer(text, begin, end):
            breaks, spaces = lines.between(before, comment.start())
            line, column = lines.of(comment.start())
            last = _Item("comment", comment.group().rstrip(), "", line, column, breaks, spaces, False, False, 2)
            before = comment.end()
            yield index if inside else None, last
        if token.kind == "end":
            return
        statement, start, _ = statements[index]
        first = token.start == start
        if first:
            depth = arrows = 0
            previous = None
        breaks, spaces = lines.between(before, token.start)
        line, column = lines.of(token.start)
        arrows += token.key == "<-"
        split = token.key == "<-" and (arrows > 1 or not isinstance(statement, _ARROWED))
        depth -= token.key in (")", "]")
        item = _Item(
            token.kind,
            "< -" if split else _written(token, previous, statement, first, text[token.end : token.end + 1]),
            token.key,
            line,
            column,
            breaks,
            spaces,
            first,
            isinstance(statement, ast.AlertStatement),
            _gap(previous, token, statement, last),
            depth,
            last if last is not None and last.kind != "comment" and not first else None,
        )
        depth += token.key in ("(", "[")
        if split:  # `A <-1` in a condition compares with -1
            item.key = "sign"
        elif token.key == "-" and _is_sign(previous, token, text):
            item.key = "sign"
        before, previous, last = token.end, token, item
        yield index, item


class _Places:
    """Converter of offsets in a text to lines and columns. Only a line feed ends a line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._start = 1, 0

    def of(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset. The offset must not be less than in the previous call."""
        while (newline := self._text.find("\n", self._start, offset)) >= 0:
            self._line, self._start = self._line + 1, newline + 1
        return self._line, offset - self._start + 1

    def between(self, begin: int, end: int) -> tuple[int, int]:
        """Return the number of line breaks between two offsets, and the number of characters after the last one."""
        stretch = self._text[begin:end]
        return stretch.count("\n"), len(stretch) - stretch.rfind("\n") - 1


def _written(token: Token, previous: Token | None, statement: ast.Statement | None, first: bool, after: str) -> str:
    """Return the text of a token in its usual case. Add a space after the colon of a label or an attribute."""
    text = token.text
    declared = isinstance(statement, _DECLARED)
    if first and statement is not None and isinstance(statement, ast.EventRule | StaticRule | ast.DeadlineStatement):
        labelled = isinstance(statement, ast.EventRule) and statement.label is not None
        return text.replace(":", ": ", 1) if labelled and token.kind == "prefixed" else text
    if first:
        return _FIRST.get(token.key, str)(text) if not isinstance(statement, ast.WhileRule) else text
    if declared and token.kind == "prefixed" and previous is not None:
        if text[0] == ":" and previous.kind == "name":
            return f": {text[1:]}"
        if previous.key in ("(", ",", "="):
            return text.replace(":", ": ", 1)
    if not declared and token.key in _CAPITALS and token.kind in ("name", "variable") and after != ":":
        return text.upper()
    return text


# -- spaces


def _is_sign(previous: Token | None, token: Token, text: str) -> bool:
    if previous is None:
        return True
    if previous.kind == "mark":
        return previous.key not in (")", "]", "?")
    if previous.kind not in ("name", "variable") or not previous.key:
        return False
    apart = previous.end < token.start and text[token.end : token.end + 1].strip() != ""
    return previous.key in _SIGNED or apart


def _gap(previous: Token | None, token: Token, statement: ast.Statement | None, last: _Item | None) -> int:
    """Return the usual number of spaces between two tokens of a line."""
    if previous is None:
        return 1
    beside = 0 if previous.end == token.start else 1
    declared = isinstance(statement, _DECLARED)
    if last is not None and last.key == "sign":
        return 0
    if token.key in (",", ")", "]", "?", ".", ";"):
        return 0
    if isinstance(statement, ast.Prefix):
        return 1 if previous.key == "PREFIX" or token.kind == "iri" else 0
    if token.key == ":":
        return 0
    if previous.key in ("(", "["):
        return 0
    if previous.key == ".":
        return beside
    if declared and "/" in (token.key, previous.key):
        return beside  # a property path
    word = previous.kind in ("name", "variable")
    match token.key:
        case "..":
            return 1 if previous.key == "IN" else 0
        case "(" if word:
            return beside if previous.key else 0
        case "[" if previous.key == "IN":
            return 1
        case "[" if word or previous.key == "]":
            return beside
    if previous.key == "..":
        return 1 if token.key and token.kind in ("name", "variable") else 0
    if token.kind == "prefixed" and token.text[0] == ":":
        return 0 if declared and previous.kind == "name" else beside
    return 1


# -- lines


def _lines(items: Iterator[tuple[int | None, _Item]]) -> Iterator[_Line]:
    line: _Line | None = None
    for statement, item in items:
        if line is None or item.breaks or item.first:
            if line is not None:
                yield line
            line = _Line([], line is not None and item.breaks > 1, statement)
        line.items.append(item)
    if line is not None:
        yield line


def _columns(lines: Sequence[_Line]) -> Iterator[list[_Item]]:
    """Yield groups of items that the author aligned in a column. At least one item of each group has more than the
    usual space before it."""
    runs: dict[tuple[str, str, int], list[_Item]] = {}
    arrow: _Item | None = None  # the last arrow since a blank line
    for line in lines:
        arrow = None if line.blank else arrow
        for item in line.items[1:]:
            if not item.spaces or not item.gap:
                continue
            place = item.kind, item.key if item.kind == "mark" else "", item.column
            run = runs.get(place)
            if item.key in _ARROWS:
                goes_on, arrow = run is not None and arrow is run[-1], item
            else:
                goes_on = run is not None and 0 < item.line - run[-1].line <= (3 if item.kind == "comment" else 1)
            if run is not None and goes_on:
                run.append(item)
                continue
            if run is not None:
                yield from _aligned(run)
            runs[place] = [item]
    for run in runs.values():
        yield from _aligned(run)


def _aligned(run: list[_Item]) -> Iterator[list[_Item]]:
    if len(run) > 1 and any(item.spaces > item.gap for item in run):
        yield run


def _levels(lines: Sequence[_Line], runs: list[list[_Item]]) -> list[list[list[_Item]]]:
    """Divide aligned groups into levels. The level of a group is the number of aligned groups before it on the same
    lines.

    The groups of one level can be laid out in one step.
    """
    line_of = {id(item): number for number, line in enumerate(lines) for item in line.items}
    before = [0] * len(lines)
    levels: list[list[list[_Item]]] = []
    for run in sorted(runs, key=lambda run: run[0].column):
        own = [line_of[id(item)] for item in run]
        level = max(before[slot] for slot in own)
        for slot in own:
            before[slot] = level + 1
        if level == len(levels):
            levels.append([])
        levels[level].append(run)
    return levels


def _lay_out(lines: Sequence[_Line], levels: Sequence[Sequence[list[_Item]]]) -> None:
    """Set the output column of every item. `levels`: the groups of items to align, as `_levels` returns them."""
    for runs in levels:
        for run in runs:
            for item in run:
                item.align = 0
    _place(lines)
    for runs in levels:
        for run in runs:
            column = max(item.output_column for item in run)
            for item in run:
                item.align = column - item.output_column
        _place(lines)


def _place(lines: Sequence[_Line]) -> None:
    anchors: list[_Item] = []
    for line in lines:
        head = line.items[0]
        if head.first or line.statement is None:
            anchors = []
            head.output_column = 1
        else:
            head.output_column = _indentation(line, anchors)
        for left, item in zip(line.items, line.items[1:]):
            item.output_column = left.end + item.gap + item.align
        for place, item in enumerate(line.items):
            if item.kind != "comment" and ((place == 0 and not item.first) or (place and _opens(item.before))):
                anchors.append(item)


def _opens(item: _Item | None) -> bool:
    if item is None:
        return False
    return item.key in ("<-", ":-", "(", "[") or (item.key != "" and item.kind in ("name", "variable"))


def _indentation(line: _Line, anchors: Sequence[_Item]) -> int:
    head = line.items[0]
    if head.key in (")", "]"):
        return 1
    if not line.fresh:
        for anchor in reversed(anchors):
            if anchor.column == head.column:
                return anchor.output_column
    return INDENT + 1


def _broken(lines: list[_Line]) -> bool:
    """Break each line that is too long at one place. Return True if a line was broken."""
    pieces: list[_Line] = []
    for line in lines:
        pieces.append(line)
        code = [item for item in line.items if item.kind != "comment"]
        if not code or code[-1].end - 1 <= WIDTH or any("\n" in item.text for item in code):
            continue
        if (cut := _cut(line, code)) is not None:
            pieces.append(_Line(line.items[cut:], False, line.statement, True))
            line.items = line.items[:cut]
    several = len(pieces) > len(lines)
    lines[:] = pieces
    return several


def _cut(line: _Line, code: Sequence[_Item]) -> int | None:
    """Return the index of the item before which a line should be broken, or None if it cannot be broken."""
    best: tuple[bool, int, int, int] | None = None
    for place, item in enumerate(code):
        left = code[place - 1]
        if place < 2 or item.output_column - code[0].output_column <= INDENT or left.key == "(":
            continue
        clause = item.kind in ("name", "variable") and (item.key in _CLAUSES or (item.alert and item.key in ALERTING))
        if not clause and left.key != ",":
            continue
        fits = left.end - 1 <= WIDTH
        rank = (not fits, item.depth, 0 if clause else 1, -place if fits else place)
        best = rank if best is None or rank < best else best
    return None if best is None else abs(best[3])
