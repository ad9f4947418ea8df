"""Reader of DatalogMTL. It turns rules such as `Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Signal(Z)` into the syntax tree
of defined fluents.

    program  = { rule }, one per line; a rule continues after a comma, or on a line that begins with a blank
    rule     = { box within } atom ":-" literal { "," literal } [ "." ]
    literal  = [ "not" ] prefixed [ ( "Since" | "Until" ) within prefixed ]
    prefixed = operator within prefixed | atom | "Top" | "Bottom" | "(" literal { "," literal } ")"
    atom     = name [ "(" term { "," term } ")" ]
    within   = ( "[" | "(" ) number [ "," number ] ( "]" | ")" )

Every predicate becomes a fluent with string arguments. The intervals of a predicate may also arrive as records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

from cep.core.errors import CepError, CepErrors, Mistakes, Source, Span
from cep.core.literals import SECOND, read_string
from cep.core.schema import RecordFormat
from cep.language.dialects.datalogmtl.foreign_syntax import instead
from cep.language.dialects.datalogmtl.tokens import DatalogMtlCursor, DatalogMtlToken, bound, tokens, with_values
from cep.language.fluents import RESERVED
from cep.language.recorded_fluents import incoming
from cep.language.syntax import ast
from cep.operators.conjunction import And
from cep.operators.disjunction import Or
from cep.operators.supports import FormulaAtom
from cep.operators.temporal import MetricFormula, MetricInterval, wherever
from cep.plan.formula import Formula, formula_variables
from cep.rules.parameters import Parameters
from cep.rules.terms import Constant, Expression, Variable

OPERATORS = {
    "Diamondminus": "ONCE",
    "Diamondplus": "EVENTUALLY",
    "Boxminus": "HISTORICALLY",
    "Boxplus": "ALWAYS",
}
SIGNED = {"SOMETIME": ("ONCE", "EVENTUALLY"), "ALWAYS": ("HISTORICALLY", "ALWAYS")}
"""For each operator of MeTeoR, our operator for the past and our operator for the future. The signs of the interval's
ends decide which of the two is used."""
NEGATIONS = ("not", "~", "\\+")
BINARY = {"Since": "SINCE", "Until": "UNTIL"}
WORDS = (*OPERATORS, *SIGNED, *BINARY, "Top", "Bottom")
TOP, BOTTOM = "Top", "Bottom"
DEEPEST = 100
RULE = "e.g. `Flag(X,Z) :- Monit(X,Z), Boxminus[0,4]Diamondminus[0,2]Signal(Z)`"
WITHIN = "how far an operator reaches: `Diamondminus[0,2]`, `Boxminus(1,inf)`"
ATOM = "an atom is `Signal(Z)`, `Monit(n,Z)` or `Open`"


@dataclass(frozen=True, slots=True)
class Truth:
    """`Top`, which always holds, or `Bottom`, which never holds."""

    holds: bool
    span: Span


Part = Formula | Truth


def read(source: Source, tick: int = SECOND, parameters: Parameters | None = None) -> ast.SyntaxTree:
    """Read the rules of a program, and declare the fluents that they use.

    `tick`: the length of one time unit of the program, in microseconds. Raises CepError with all mistakes.
    """
    return _ProgramReader(source, tick, parameters or Parameters()).tree()


class _ProgramReader:
    def __init__(self, source: Source, tick: int, parameters: Parameters) -> None:
        self.source = source
        self.parameters = parameters
        self.tick = tick
        self.errors = Mistakes()
        self.arities: dict[str, tuple[int, Span]] = {}
        self.names: dict[str, list[str | None]] = {}
        self.rules: list[ast.WhileRule] = []
        self.impossible: dict[str, Span] = {}
        self.asks_top = False

    def tree(self) -> ast.SyntaxTree:
        for words in _statements(self.source):
            try:
                self.rule(DatalogMtlCursor(self.source, with_values(words, self.parameters, self.tick)))
            except CepError as error:
                self.errors.append(error)
        if self.errors:
            raise CepErrors(self.errors)
        declared = [self.declaration(name) for name in self.arities]
        top: list[ast.Statement] = []
        if self.asks_top:
            top = [ast.FluentDeclaration(TOP, ()), ast.FluentRule("initially", TOP, (), None, None)]
        statements = (*declared, *top, *self.rules)
        impossible, helpers = tuple(self.impossible.items()), frozenset({TOP})
        return ast.SyntaxTree(statements, self.source, impossible, helpers)

    def declaration(self, name: str) -> ast.FluentDeclaration:
        arity, span = self.arities[name]
        columns: dict[str, None] = {}
        wanted = self.names.get(name, [None] * arity)
        for index in range(arity):
            own = wanted[index]
            if own is None or own in columns or own in RESERVED:
                own = next(
                    candidate
                    for candidate in (f"arg{k}" for k in count(index + 1))
                    if candidate not in (*columns, *wanted)
                )
            columns[own] = None
        attributes = tuple(ast.AttributeTree(column, "string") for column in columns)
        if name in self.impossible:
            return ast.FluentDeclaration(name, attributes, None, span=span)
        return incoming(name, attributes, None, RecordFormat("facts", (("tick", str(self.tick)),)), span)

    # --- rules ---

    def rule(self, cursor: DatalogMtlCursor) -> None:
        first = cursor.token
        boxes: list[ast.Box] = []
        while (word := cursor.token).text in (*OPERATORS, *SIGNED) and word.kind == "name":
            boxes += self.box(cursor)
        if cursor.token.text in BINARY or cursor.token.text == TOP:
            cursor.stop(f"a head cannot contain `{cursor.token.text}`", cursor.token.span, RULE)
        begin = cursor.token
        never = begin.text == BOTTOM
        head = None if never else self.atom(cursor)
        if never:
            cursor.advance()
        head_span = cursor.span(begin)
        if cursor.token.text == "@":
            cursor.stop("expected a rule, found a fact", cursor.token.span,
                        "put facts in a file of their own: `cep run p.dmtl --input in.facts`")  # fmt: skip
        if not cursor.accept(":-", "<-"):
            if cursor.token.text in BINARY:
                cursor.stop(f"a head cannot contain `{cursor.token.text}`", cursor.token.span, RULE)
            cursor.fail("`:-`", RULE)
        body = self.conjunction(cursor, cursor.token)
        cursor.accept(".")
        if cursor.token.kind != "end":
            hint = (
                instead(cursor.token, cursor.previous)
                or "write one rule per line; a line that begins with a blank continues the rule above"
            )
            cursor.fail("`,` or the end of the rule", hint)
        span = cursor.span(first)
        if isinstance(body, Truth):
            if not body.holds:
                return  # such a rule never derives anything
            self.asks_top = True
            body = FormulaAtom(TOP, (), span=body.span)
        bound_names = dict.fromkeys(_bound(body))
        if head is None:
            name = BOTTOM if BOTTOM not in self.impossible else f"{BOTTOM}{len(self.impossible) + 1}"
            arguments: tuple[Expression, ...] = tuple(
                Variable(bound_name) for bound_name in bound_names if bound_name != "_"
            )
            self.meets(name, arguments, head_span, True)
            self.impossible[name] = span
            head = FormulaAtom(name, arguments, span=head_span)
            boxes = []
        for argument in head.arguments:
            if isinstance(argument, Variable) and argument.name not in bound_names:
                hint = "each variable of the head must be in an atom of the body that is not negated"
                cursor.stop(f"`{argument.name}` has no value: the body does not bind it", argument.span, hint)
        self.name(head)
        self.rules.append(ast.WhileRule(head.name, head.arguments, None, tuple(boxes), body, span, head_span))

    def box(self, cursor: DatalogMtlCursor) -> list[ast.Box]:
        word = cursor.advance()
        if word.text.startswith("Diamond") or word.text == "SOMETIME":
            cursor.stop(f"a head cannot contain `{word.text}`", word.span, "use `Boxplus[0,3]` for all times "
                        "up to 3 later, or `Boxminus[0,3]` for all times up to 3 earlier")  # fmt: skip
        operators = self.operators(cursor, word)
        return [ast.Box(operator, within) for operator, within in operators]

    def meets(self, name: str, arguments: tuple[Expression, ...], span: Span, own: bool = False) -> None:
        """Record the number of arguments of a predicate. Raises CepError if the predicate occurs elsewhere with another
        number of arguments, or if its name is a reserved word.

        `own`: True if the reader created the name, which may then be a reserved word.
        """
        if not own and (name in WORDS or (name.startswith(BOTTOM) and name[len(BOTTOM) :].isdigit())):
            raise CepError(
                f"`{name}` is a reserved word, not the name of a predicate", self.source, span, ATOM, "syntax"
            )
        known = self.arities.setdefault(name, (len(arguments), span))
        if known[0] != len(arguments):
            message = (
                f"`{name}` has {known[0]} arguments at {known[1].line}:{known[1].column}, but {len(arguments)} here"
            )
            raise CepError(
                message, self.source, span, "a predicate has the same number of arguments everywhere", "arity"
            )

    def name(self, head: FormulaAtom) -> None:
        """Name the attributes of a predicate after the variables of `head`, unless an earlier head has named them."""
        wanted = [
            argument.name.lower() if isinstance(argument, Variable) and argument.name.strip("_") else None
            for argument in head.arguments
        ]
        self.names.setdefault(head.name, wanted)

    # --- formulas ---

    def conjunction(self, cursor: DatalogMtlCursor, first: DatalogMtlToken) -> Part:
        parts: list[Part] = []
        negated: list[bool] = []
        while True:
            no = cursor.accept(*NEGATIONS)
            part = self.literal(cursor)
            if isinstance(part, Truth) and no:
                part, no = Truth(not part.holds, part.span), False
            parts.append(part)
            negated.append(no)
            if not cursor.accept(","):
                break
        span = cursor.span(first)
        if any(isinstance(part, Truth) and not part.holds for part in parts):
            return Truth(False, span)
        kept = [(part, no) for part, no in zip(parts, negated, strict=True) if not isinstance(part, Truth)]
        if not kept:
            return Truth(True, span)
        kept.sort(key=lambda pair: pair[1])  # positive parts first
        if kept[0][1]:
            self.asks_top = True
            kept.insert(0, (FormulaAtom(TOP, (), span=span), False))
        if len(kept) == 1:
            return kept[0][0]
        return And(tuple(part for part, _ in kept), tuple(no for _, no in kept), span)

    def literal(self, cursor: DatalogMtlCursor) -> Part:
        first = cursor.token
        left = self.prefixed(cursor)
        while (word := cursor.token).text in BINARY and word.kind == "name":
            cursor.advance()
            within = self.within(cursor, word, False)
            right = self.prefixed(cursor)
            if isinstance(right, Truth) and right.holds and within.bounds[0] == "(":
                cursor.stop(f"`{word.text}` with Top and an open interval is not supported", cursor.span(first),
                            f"use a closed one: `A {word.text}[1,2] Top`, so that A holds for a time of 1")  # fmt: skip
            left = _binary(BINARY[word.text], left, right, within, cursor.span(first))
            if cursor.token.text in BINARY:
                hint = f"use parentheses: `(A {word.text}[0,1]B) {cursor.token.text}[0,1]C`"
                message = f"`{cursor.token.text}` beside `{word.text}` does not say which of the two applies first"
                cursor.stop(message, cursor.token.span, hint)
        return left

    def prefixed(self, cursor: DatalogMtlCursor) -> Part:
        first = cursor.token
        cursor.depth += 1
        if cursor.depth > DEEPEST:
            cursor.stop(f"more than {DEEPEST} levels of nesting", first.span, "give an inner part a rule of its own")
        formula = self.inner(cursor, first)
        cursor.depth -= 1
        return formula

    def inner(self, cursor: DatalogMtlCursor, first: DatalogMtlToken) -> Part:
        if first.kind == "name" and first.text in (*OPERATORS, *SIGNED):
            cursor.advance()
            operators = self.operators(cursor, first)
            part = self.prefixed(cursor)
            span = cursor.span(first)
            if isinstance(part, Truth):  # no operator changes a formula that is always or never true
                return replace(part, span=span)
            timed: list[Formula] = [MetricFormula(operator, (part,), within, span) for operator, within in operators]
            if len(timed) == 1:
                return timed[0]
            if first.text == "SOMETIME":
                return Or(tuple(timed), span)
            return And(tuple(timed), (False,) * len(timed), span)
        if first.kind == "name" and first.text in (TOP, BOTTOM):
            cursor.advance()
            return Truth(first.text == TOP, first.span)
        if cursor.accept("("):
            inside = self.conjunction(cursor, cursor.token)
            cursor.expect(")", f"the `(` at {first.line}:{first.column} is not closed")
            return inside
        return self.atom(cursor)

    def atom(self, cursor: DatalogMtlCursor) -> FormulaAtom:
        first = cursor.token
        if first.kind != "name" or first.text in (*BINARY, "not"):
            cursor.fail("an atom", instead(first, first) or ATOM)
        cursor.advance()
        arguments: list[Expression] = []
        if cursor.accept("("):
            arguments.append(self.term(cursor))
            while cursor.accept(","):
                arguments.append(self.term(cursor))
            cursor.expect(")", ATOM)
        span = cursor.span(first)
        self.meets(first.text, tuple(arguments), span)
        return FormulaAtom(first.text, tuple(arguments), span=span)

    def term(self, cursor: DatalogMtlCursor) -> Expression:
        token = cursor.token
        if token.kind == "name" and (token.text[0].isupper() or token.text[0] == "_"):
            cursor.advance()
            return Variable("_" if token.text == "_" else token.text, token.span)
        if cursor.accept("-") and cursor.token.kind == "number":
            number = cursor.advance()
            return Constant(f"-{number.text}", "string", cursor.span(token))
        if token.kind not in ("name", "number", "string"):
            cursor.fail("a variable or a constant", "variables begin with a capital letter, constants do not")
        cursor.advance()
        text = read_string(token.text) if token.kind == "string" else token.text
        if cursor.token.text == "(":
            cursor.stop(
                f"`{token.text}(..)` is a term with arguments, which DatalogMTL does not have", token.span, ATOM
            )
        return Constant(text, "string", token.span)

    # --- how far an operator reaches ---

    def operators(self, cursor: DatalogMtlCursor, word: DatalogMtlToken) -> list[tuple[str, MetricInterval]]:
        """Translate an operator of MeTeoR into ours. If its interval reaches into the past and into the future, return
        one operator for each."""
        if word.text in OPERATORS:
            return [(OPERATORS[word.text], self.within(cursor, word, False))]
        low, high, bounds = self.interval(cursor, True)
        past, future = SIGNED[word.text]
        if low is not None and low >= 0 and not (low == 0 and high == 0):
            return [(future, MetricInterval(low, high, bounds if high is not None else bounds[0] + ")"))]
        if high is not None and high <= 0:
            back = ("[" if bounds[1] == "]" else "(") + ("]" if bounds[0] == "[" and low is not None else ")")
            return [(past, MetricInterval(-high, None if low is None else -low, back))]
        back = "[" + ("]" if low is not None and bounds[0] == "[" else ")")
        ahead = "[" + ("]" if high is not None and bounds[1] == "]" else ")")
        return [
            (past, MetricInterval(0, None if low is None else -low, back)),
            (future, MetricInterval(0, high, ahead)),
        ]

    def within(self, cursor: DatalogMtlCursor, word: DatalogMtlToken, signed: bool) -> MetricInterval:
        low, high, bounds = self.interval(cursor, signed, word)
        assert low is not None, "what has no sign begins somewhere"
        return MetricInterval(low, high, bounds if high is not None else bounds[0] + ")")

    def interval(
        self, cursor: DatalogMtlCursor, signed: bool, word: DatalogMtlToken | None = None
    ) -> tuple[int | None, int | None, str]:
        """Read an interval `[a, b]`. The short form `[a]` means `[a, a]`. Return its two ends and its brackets. An end
        is None if it is infinite."""
        opening = cursor.token
        if opening.text not in ("[", "(") or opening.kind == "string":
            cursor.fail("`[`", WITHIN)
        cursor.advance()
        first = cursor.token
        low = bound(cursor, self.tick)
        if not signed and (low is None or low < 0 or first.text == "-"):
            name = "" if word is None else word.text
            cursor.stop(f"`{name}` cannot have this distance", cursor.span(first),
                        "use a number from 0 on; only SOMETIME and ALWAYS have signs: `SOMETIME[-2,-1]`")  # fmt: skip
        negative = first.text == "-"
        high, last = low, first
        single = cursor.token.text in ("]", ")")
        if not single:
            cursor.expect(",", WITHIN)
            last = cursor.token
            high = bound(cursor, self.tick)
        closing = cursor.token
        if closing.text not in ("]", ")"):
            cursor.fail("`]` or `)`", WITHIN)
        cursor.advance()
        span = cursor.span(opening)
        bounds = opening.text + closing.text
        if (low is None and not negative) or (high is None and last.text == "-"):
            cursor.stop("this interval is empty", span, WITHIN)
        if low is not None and high is not None:
            if low > high:
                cursor.stop("the interval ends before it begins", span, f"put the smaller number first; {WITHIN}")
            if low == high and bounds != "[]":
                cursor.stop("this interval is empty", span, "a single distance is written `[2,2]`")
        return low, high, bounds


def _binary(operator: str, left: Part, right: Part, within: MetricInterval, span: Span) -> Part:
    if isinstance(right, Truth):
        if not right.holds:
            return Truth(False, span)
        if isinstance(left, Truth):
            return Truth(left.holds or (within.low == 0 and within.bounds[0] == "["), span)
        if within.low == 0 and within.bounds[0] == "[":
            return Truth(True, span)
        return wherever(operator, MetricInterval(0, within.low, "()"), left, throughout=True, span=span)
    if isinstance(left, Truth):
        if left.holds:
            return wherever(operator, within, right, throughout=False, span=span)
        return right if within.low == 0 and within.bounds[0] == "[" else Truth(False, span)
    return MetricFormula(operator, (left, right), within, span)


def _bound(formula: Formula) -> list[str]:
    """Return the variables that get a value from a formula, in order of appearance."""
    match formula:
        case And(parts, negated):
            return [n for part, no in zip(parts, negated, strict=True) if not no for n in _bound(part)]
        case MetricFormula(_, (_, right)):
            return _bound(right)
        case MetricFormula(_, (only,)):
            return _bound(only)
        case Or(parts):
            return _bound(parts[0])
        case _:
            return [variable for variable in formula_variables(formula) if variable != "_"]


def _statements(source: Source) -> list[list[DatalogMtlToken]]:
    """Return the tokens of each rule of a program. A rule is normally one line.

    A rule continues on the next line after a comma. It also continues on a line that begins with a blank and has no
    `:-`.
    """
    statements: list[list[DatalogMtlToken]] = []
    open_ended = False
    for number, line in enumerate(source.lines, 1):
        words = tokens(line, number)
        if len(words) == 1:
            continue
        begins = any(word.text in (":-", "<-") and word.kind == "mark" for word in words)
        goes_on = bool(statements) and not begins and (open_ended or line[:1].isspace())
        if goes_on:
            statements[-1][-1:] = words
        else:
            statements.append(words)
        open_ended = words[-2].text in (",", ":-", "<-", "(")
    return statements
