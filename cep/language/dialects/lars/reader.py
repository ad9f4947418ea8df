"""Reader of LARS in the syntax of Ticker's files: `high at T :- alpha(V) at T in [10 sec], 18 <= V.`

    program     = { declaration | rule }
    declaration = one of `event`, `fact` and `PREFIX`, as in our own language (cep/language/syntax/parser.py)
    rule        = [ atom [ "at" expression ] ] ":-" element { "," element } "." | atom [ "at" expression ] "."
    element     = [ "not" ] ( atom [ asked ] | "{" SPARQL "}" ) | expression comparison expression
    asked       = [ "not" ] "at" expression [ [ "not" ] [ "in" ] window ] | [ "always" ] [ "not" ] [ "in" ] window
    atom        = name [ "(" expression { "," expression } ")" ]

A literal has at most one `not`, before or after its atom. Source of the grammar: Ticker (Beck, Eiter and Folie, 2017),
LarsLexer.scala. Our additions are windows with a step, partitions, symbols and calculations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

from cep.core.errors import CepError, CepErrors, Mistakes, Source
from cep.core.literals import SECOND
from cep.core.prefixes import prefixes_of
from cep.core.suggest import SURE, lower_case, nearest
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    BodyLiteral,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    Window,
)
from cep.language.dialects.lars.foreign_syntax import behind_element, compared, head_hint, statement_hint
from cep.language.dialects.lars.printer import print_expression
from cep.language.dialects.lars.safety import refuse_unsafe
from cep.language.dialects.lars.terms import COMPARISONS, FOREIGN_COMPARISONS, arguments, expression
from cep.language.dialects.lars.tokens import LarsCursor, LarsToken
from cep.language.dialects.lars.windows import WINDOW, window
from cep.language.syntax import ast
from cep.language.syntax.conditions import test
from cep.language.syntax.cursor import Cursor
from cep.language.syntax.declarations import declaration, prefix
from cep.language.syntax.facts import fact_declaration
from cep.rules.graph_text import DEEPEST, depth, of_the_rule
from cep.rules.parameters import Parameters
from cep.rules.terms import Call, Comparison, Constant, Expression, Graph, Variable, expression_variables

RULE = "a rule is written `high at T :- alpha(V) at T in [10 sec], 18 <= V.`"
ATOM = "an atom is a name, with or without arguments: `alpha(V)`, `done`"
PLACES = "`a [10]`, `a always in [10]` or `a at T in [10]`"


def read(source: Source, tick: int = SECOND, *, counted: bool = False) -> LarsProgram:
    """Read a program and check that its variables have values. Raises CepError with all mistakes.

    `tick`: the length of a tick in microseconds. `counted`: True if a window `[n]` has n ticks, False if it has n + 1.
    """
    program = parsed(source, tick, counted)
    refuse_unsafe(program, source)
    return program


def parsed(source: Source, tick: int, counted: bool = False, parameters: Parameters | None = None) -> LarsProgram:
    """Read a program without checking that its variables have values. Raises CepError if it has mistakes."""
    return statements(LarsCursor(source, tick, counted, parameters), rule, _skip_rule)


def _skip_rule(cursor: LarsCursor, begins: int) -> None:
    if cursor.previous.text != "." or cursor.at == begins:
        cursor.skip_statement()


def statements(
    cursor: LarsCursor, rule: Callable[[LarsCursor], LarsRule], skip: Callable[[LarsCursor, int], None]
) -> LarsProgram:
    """Read the declarations and rules of a program, in Ticker's or Laser's notation. Raises CepError with all mistakes.

    `rule`: a function that reads one rule. `skip`: a function that moves the cursor past a rule that has a mistake. Its
    second argument is the index of the rule's first token.
    """
    errors = Mistakes()
    rules: list[LarsRule] = []
    declared: list[ast.Statement] = []
    while cursor.token.kind != "end":
        cursor.depth, cursor.heights = 0, {}
        begins = cursor.at
        try:
            if cursor.token.kind == "declaration":
                declared.append(declared_by(cursor))
            else:
                rules.append(rule(cursor))
        except CepError as error:
            errors.add(error)
            skip(cursor, begins)
            if cursor.at == begins:
                cursor.advance()
    if errors:
        raise CepErrors(errors)
    return whole(cursor, rules, declared)


def whole(cursor: LarsCursor, rules: list[LarsRule], declared: list[ast.Statement]) -> LarsProgram:
    """Return the program that consists of `rules` and `declared`. In the result, every graph pattern can use all
    prefixes that the program declares."""

    def seeing(element: BodyLiteral) -> BodyLiteral:
        if not isinstance(element, Graph):
            return element
        return replace(element, prefixes=prefixes_of(element.text, cursor.prefixes))

    rules = [replace(rule, body=tuple(map(seeing, rule.body))) for rule in rules]
    return LarsProgram(tuple(map(flat, rules)), tuple(declared), cursor.tick)


def flat(rule: LarsRule) -> LarsRule:
    """Replace calculations in atoms of the body by variables: `p(X + 1)` becomes `V1 = X + 1, p(V1)`."""
    body: list[BodyLiteral] = []
    used: set[str] | None = None
    for element in rule.body:
        if isinstance(element, LarsLiteral) and any(isinstance(value, Call) for value in element.atom.arguments):
            used = used or _names(rule)
            arguments: list[Expression] = []
            for value in element.atom.arguments:
                if isinstance(value, Call):
                    name = next(own for own in (f"V{number}" for number in count(1)) if own not in used)
                    used.add(name)
                    body.append(Comparison("=", Variable(name, value.span), value, value.span))
                    value = Variable(name, value.span)
                arguments.append(value)
            element = replace(element, atom=replace(element.atom, arguments=tuple(arguments)))
        body.append(element)
    return rule if used is None else replace(rule, body=tuple(body))


def _names(rule: LarsRule) -> set[str]:
    """Return the names of the variables in a rule's body."""
    names: set[str] = set()
    for element in rule.body:
        match element:
            case Comparison(_, left, right):
                names.update(expression_variables(left), expression_variables(right))
            case Graph(_, variables):
                names.update(variables)
            case LarsLiteral():
                for value in (*element.atom.arguments, *([] if element.tick is None else [element.tick])):
                    names.update(expression_variables(value))
    return names


def declared_by(cursor: LarsCursor) -> ast.Statement:
    """Read the next declaration as a statement of our own language."""
    token = cursor.advance()
    own = Cursor(cursor.source, test, token.start, token.end)
    own.prefixes = cursor.prefixes
    word = token.text[:6].upper()
    statement: ast.Statement
    if word == "PREFIX":
        statement = prefix(own)
    else:
        statement = declaration(own) if word.startswith("EVENT") else fact_declaration(own)
    if own.token.kind != "end":
        own.fail("the end of the statement", "put a blank after its `.`")
    return statement


def rule(cursor: LarsCursor) -> LarsRule:
    first = cursor.token
    head, instant = None, None
    if not cursor.sees(":-"):
        head, instant = _head(cursor)
    body: list[BodyLiteral] = []
    if cursor.accept(":-"):
        body.append(element(cursor))
        while cursor.accept(","):
            body.append(element(cursor))
        if not cursor.sees("."):
            cursor.fail("`,` or `.`", behind_element(cursor) or RULE)
    elif not cursor.sees("."):
        cursor.fail("`:-` or `.`", head_hint(cursor) or RULE)
    cursor.advance()
    return LarsRule(head, instant, tuple(body), cursor.span(first))


_BEHIND_ATOMS = ("at", "in", "always")


def _head(cursor: LarsCursor) -> tuple[LarsAtom, Expression | None]:
    if cursor.sees("not"):
        cursor.stop("a head cannot be negated", f"a constraint is a rule without a head: `:- a, b.`; {RULE}")
    first, after = cursor.token, cursor.peek()
    two_words = first.kind in ("name", "variable") and after.kind == "name" and after.text not in _BEHIND_ATOMS
    if two_words and (word := nearest(first.text, ("event", "fact", "prefix"), SURE)):
        cursor.stop(f"no statement begins with `{first.text}`", f"did you mean `{word}`?")
    head = atom(cursor, statement_hint(cursor) or RULE)
    instant = tick_of(cursor) if cursor.accept("at") else None
    if cursor.sees("in", "always", "["):
        cursor.stop("a head cannot have a window", "`high at T :- alpha(V) at T in [10 sec].`: put windows in the body")
    return head, instant


def tick_of(cursor: LarsCursor) -> Expression:
    """Read the tick after `at`: a number of ticks, or a time. A time stands for the tick that contains it."""
    term = expression(cursor)
    if isinstance(term, Constant) and term.type == "time":
        assert isinstance(term.value, int), "times are microseconds"
        return Constant(term.value // cursor.tick, "int", term.span)
    return term


def atom(cursor: LarsCursor, hint: str = ATOM) -> LarsAtom:
    first = cursor.token
    if first.kind == "variable":
        small = lower_case(first.text.lstrip("_")) or "a"
        cursor.fail("an atom", f"predicates begin with a lower-case letter: `{small}`")
    if first.kind != "name" or first.text == "not":
        cursor.fail("an atom", hint)
    cursor.advance()
    return LarsAtom(first.text, arguments(cursor), cursor.span(first))


def element(cursor: LarsCursor) -> BodyLiteral:
    """Read a literal, a graph pattern or a comparison."""
    first = cursor.token
    negated = cursor.accept("not")
    if cursor.sees("not"):
        cursor.stop("`not` is written twice", "leave out both: they cancel")
    if cursor.token.kind == "graph":
        return _graph(cursor, first, negated)
    if cursor.token.kind == "name" and not _compared(cursor):
        return _literal(cursor, first, negated)
    if negated:
        cursor.fail("an atom or a graph pattern", "`not` needs an atom; the opposite of `X < 3` is `X >= 3`")
    if cursor.token.kind in ("end", "brace", "open", "unclosed") or cursor.sees(".", ",", ")", "]"):
        cursor.fail("an atom or a comparison", behind_element(cursor, missing=True) or ATOM)
    return comparison(cursor, first)


def _compared(cursor: LarsCursor) -> bool:
    """Return True if a comparison operator follows the next token, as in `red = X`."""
    return cursor.peek().kind == "mark" and cursor.peek().text in (*COMPARISONS, *FOREIGN_COMPARISONS)


def comparison(cursor: LarsCursor, first: LarsToken) -> Comparison:
    left = expression(cursor)
    operator = cursor.token
    if operator.kind != "mark" or operator.text not in COMPARISONS:
        cursor.fail("a comparison", compared(operator.text, print_expression(left)))
    cursor.advance()
    right = expression(cursor)
    if cursor.token.kind == "mark" and cursor.token.text in COMPARISONS:
        left_text, other = print_expression(left), print_expression(right)
        hint = f"`{left_text} {operator.text} {other}, {other} {cursor.token.text} ...`"
        cursor.stop("a condition can have only one comparison", hint)
    return Comparison(COMPARISONS[operator.text], left, right, cursor.span(first))


def _literal(cursor: LarsCursor, first: LarsToken, negated: bool) -> LarsLiteral:
    predicate_atom = atom(cursor)
    modality, instant = NOW, None
    if cursor.sees("not") and cursor.peek().text in ("at", "in", "[", "always"):
        negated = _negated_behind(cursor, negated)
    if cursor.accept("at"):
        modality, instant = AT, tick_of(cursor)
    elif cursor.accept("always"):
        modality = EVERY
    if cursor.sees("not") and cursor.peek().text in ("in", "["):
        negated = _negated_behind(cursor, negated)
    asked: Window | None = None
    inside = cursor.accept("in")
    if cursor.sees("["):
        asked = window(cursor)
        modality = SOME if modality == NOW else modality
    elif inside or modality == EVERY:
        cursor.fail("a window", WINDOW)
    if modality != NOW and cursor.sees("at", "always", "in", "["):
        cursor.fail("`,` or `.`", f"an atom can have only one operator: {PLACES}")
    return LarsLiteral(predicate_atom, modality, instant, asked, negated, cursor.span(first))


def _negated_behind(cursor: LarsCursor, negated: bool) -> bool:
    if negated:
        cursor.stop(
            "`not` is written twice", "put it before the atom or after it, not both: `not a in [5]`, `a not in [5]`"
        )
    cursor.advance()
    return True


def _graph(cursor: LarsCursor, first: LarsToken, negated: bool) -> Graph:
    token = cursor.advance()
    if depth(token.text) > DEEPEST:
        span = cursor.place(token.start, token.end)
        cursor.stop(f"more than {DEEPEST} levels of nesting", "write several patterns, separated by `,`", span)
    names = tuple(of_the_rule(token.text))
    return Graph(token.text, names, (), negated, cursor.span(first))
