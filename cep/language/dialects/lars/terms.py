"""Reader of LARS terms: constants, variables, arithmetic, and the arguments of atoms.

expression = product { ( "+" | "-" ) product }
product    = signed { ( "*" | "/" | "%" ) signed }
signed     = "-" signed | operand [ "^" signed ]
operand    = VARIABLE | name | NUMBER | TIME | STRING | IRI | PREFIXED | "(" expression ")"
"""

from __future__ import annotations

from cep.core.literals import read_number, read_string, read_time
from cep.core.prefixes import namespace
from cep.core.suggest import lower_case
from cep.events import Iri
from cep.language.dialects.lars.tokens import LarsCursor, LarsToken
from cep.rules.terms import DIVIDED, Call, Constant, Expression, Variable

DEEPEST = 100
HIGHEST = 200
"""The maximum height of an expression. Because the height is limited, later passes may be recursive."""
LEVELS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
FUNCTIONS = {"+": "+", "-": "-", "*": "*", "%": "mod"}
COMPARISONS = {"=": "=", "==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
FOREIGN_COMPARISONS = ("<>", "=<", ":=", "=>", "!")
VALUES = ("name", "variable", "number", "time", "string", "quoted", "iri", "prefixed")
CAPITALS = "variables begin with a capital letter, constants do not"
FUNCTION = "only `+ - * / % ^` are available here; rules of a `.cep` program have functions"


def expression(cursor: LarsCursor, level: int = 1) -> Expression:
    """Read a sum (level 1) of products (level 2) of signed powers. All operators except `^` associate to the left."""
    _enter(cursor)
    first = cursor.token
    left = _signed(cursor)
    while (operator := cursor.token).kind == "mark" and LEVELS.get(operator.text, 0) >= level:
        cursor.advance()
        _refuse_word(cursor, first, left)
        start = cursor.token
        right = expression(cursor, LEVELS[operator.text] + 1)
        _refuse_word(cursor, start, right)
        function = FUNCTIONS.get(operator.text) or quotient(left, right)
        left = _grown(cursor, Call(function, (left, right), cursor.span(first)), operator)
    cursor.depth -= 1
    return left


def quotient(left: Expression, right: Expression) -> str:
    """Return the operator that `/` stands for: `/` if a side is a float constant, otherwise DIVIDED.

    With DIVIDED, the quotient of whole numbers is whole, as in Ticker and ASP.
    """
    decimal = any(isinstance(side, Constant) and isinstance(side.value, float) for side in (left, right))
    return "/" if decimal else DIVIDED


def _signed(cursor: LarsCursor) -> Expression:
    """Read `-x` or a power. `-X ^ 2` means `-(X ^ 2)`. `-3` is a constant."""
    first = cursor.token
    if cursor.accept("-"):
        _enter(cursor)
        inner = cursor.token
        value = _signed(cursor)
        cursor.depth -= 1
        if inner.kind == "number" and isinstance(value, Constant):
            assert isinstance(value.value, (int, float)), "a number was written"
            return Constant(-value.value, value.type, cursor.span(first))
        _refuse_word(cursor, inner, value)
        return _grown(cursor, Call("neg", (value,), cursor.span(first)), first)
    base = operand(cursor)
    if not cursor.sees("^"):
        return base
    operator = cursor.advance()
    _refuse_word(cursor, first, base)
    _enter(cursor)
    inner = cursor.token
    exponent = _signed(cursor)
    cursor.depth -= 1
    _refuse_word(cursor, inner, exponent)
    return _grown(cursor, Call("**", (base, exponent), cursor.span(first)), operator)


def operand(cursor: LarsCursor) -> Expression:
    token = cursor.token
    if cursor.accept("("):
        inner = expression(cursor)
        cursor.expect(")", "parentheses are for arithmetic; conditions are separated by `,`")
        return inner
    if token.kind not in VALUES:
        hint = f"a value is a variable (`X`), a symbol (`red`), a number or a string; {CAPITALS}"
        if token.text == "?":
            hint = "a variable is written without `?`: `Lat`"
        cursor.fail("a value", hint)
    cursor.advance()
    if token.kind == "variable":
        if cursor.sees("("):
            cursor.fail("an operator or the end of the value", f"predicates begin with a lower-case letter: "
                        f"`{lower_case(token.text)}(..)`")  # fmt: skip
        return Variable("_" if token.text == "_" else token.text, cursor.span(token))
    if token.kind == "name" and cursor.sees("("):
        cursor.stop(f"`{token.text}(..)` is not a value", FUNCTION, cursor.place(token.start, token.end))
    return constant(cursor, token)


def constant(cursor: LarsCursor, token: LarsToken) -> Constant:
    span = cursor.place(token.start, token.end)
    match token.kind:
        case "number":
            number = cursor.value(read_number, token, token.text)
            return Constant(number, "int" if isinstance(number, int) else "float", span)
        case "time":
            return Constant(cursor.value(read_time, token, token.text), "time", span)
        case "string":
            return Constant(cursor.value(read_string, token, token.text), "string", span)
        case "quoted":
            return Constant(token.text[1:-1].replace("\\'", "'").replace("\\\\", "\\"), "string", span)
        case "iri":
            return Constant(Iri(token.text[1:-1]), "iri", span)
        case "prefixed":
            prefix, _, local = token.text.partition(":")
            iri = namespace(prefix, cursor.prefixes)
            if iri is None:
                hint = f"declare it first: `PREFIX {prefix}: <http://...>`"
                cursor.stop(f"unknown prefix `{prefix}:`", hint, span)
            return Constant(Iri(iri + local), "iri", span)
        case _ if token.text in ("true", "false"):
            return Constant(token.text == "true", "bool", span)
        case _:
            return Constant(token.text, "string", span)


def arguments(cursor: LarsCursor) -> tuple[Expression, ...]:
    """Read the arguments of an atom, `(X, 1)`. Return an empty tuple if there are none."""
    opening = cursor.token
    if not cursor.accept("("):
        return ()
    if cursor.accept(")"):
        return ()
    terms = [expression(cursor)]
    while cursor.accept(","):
        terms.append(expression(cursor))
    if not cursor.sees(")"):
        hint = "an atom is `alpha(V)` or `p(X, 1)`"
        if cursor.token.kind in VALUES:
            hint = "arguments are separated by `,`"
        elif cursor.token.text in COMPARISONS:
            hint = "write the comparison after the atom and a `,`: `p(X), X > 3`"
        elif cursor.token.kind == "end" or cursor.sees(".", ":-"):
            span = cursor.place(opening.start, opening.end)
            hint = f"the `(` at {span.line}:{span.column} is not closed"
        cursor.fail("`,` or `)`", hint)
    cursor.advance()
    return tuple(terms)


def _enter(cursor: LarsCursor) -> None:
    cursor.depth += 1
    if cursor.depth > DEEPEST:
        cursor.stop(f"more than {DEEPEST} levels of nesting", "give an inner part a rule of its own")


def _grown(cursor: LarsCursor, call: Call, operator: LarsToken) -> Call:
    height = 1 + max(cursor.heights.get(id(argument), (1, argument))[0] for argument in call.arguments)
    if height > HIGHEST:
        where = cursor.place(operator.start, operator.end)
        cursor.stop(
            f"more than {HIGHEST} operators on one another", "put a part of it in a comparison of its own", where
        )
    cursor.heights[id(call)] = (height, call)
    return call


def _refuse_word(cursor: LarsCursor, first: LarsToken, read: Expression) -> None:
    if first.kind == "name" and isinstance(read, Constant) and read.type in ("string", "bool"):
        hint = f"a variable begins with a capital letter: `{first.text[0].upper()}{first.text[1:]}`"
        cursor.stop(f"`{first.text}` is a symbol, not a number", hint, cursor.place(first.start, first.end))
