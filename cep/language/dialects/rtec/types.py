"""Type inference for the arguments of all predicates. Prolog declares no types, so the types are inferred from the use
of the arguments.

Arguments that share a variable have the same type. Values in comparisons or arithmetic are numbers. Their type is int
if there are constants among them, all of these are ints, and none of the values is read from input. Otherwise it is
float. All other values are strings.
"""

from __future__ import annotations

from collections.abc import Hashable

from cep.core.errors import CepError, Source, Span
from cep.language.dialects.rtec.terms import Compound, Many, Number, Term, Var
from cep.rules.terms import Call, Constant, Expression, Variable

Key = Hashable
ARITHMETIC = {"+": "+", "-": "-", "*": "*", "/": "/", "//": "//", "mod": "mod", "**": "**", "^": "**"}
FUNCTIONS = {
    "abs": "abs", "min": "min", "max": "max", "sqrt": "sqrt", "exp": "exp", "log": "log", "sin": "sin", "cos": "cos",
    "atan2": "atan2", "floor": "floor", "round": "round",
}  # fmt: skip
"""Our names for Prolog's arithmetic functions."""


class Types:
    """The arguments and variables of a description, grouped into classes of the same type. Each class has evidence for
    its type.

    A key identifies an argument or variable, and also the class that contains it.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.parent: dict[Key, Key] = {}
        self.known: dict[Key, dict[str, Span]] = {}
        self.fresh = 0

    def root(self, key: Key) -> Key:
        while (above := self.parent.setdefault(key, key)) != key:
            key = above
        return key

    def same(self, key: Key, other: Key) -> None:
        """Unite the classes of two keys."""
        key, other = self.root(key), self.root(other)
        if key != other:
            self.parent[key] = other
            self.known[other] = self.known.pop(key, {}) | self.known.get(other, {})

    def note(self, key: Key, kind: str, span: Span) -> None:
        """Record evidence for the type of the class that contains `key`.

        `kind`: `text`, `int` or `float` for a constant of this type, `reckoned` for a value in arithmetic, or `input`
        for an input value.
        """
        self.known.setdefault(self.root(key), {}).setdefault(kind, span)

    def key(self, term: Term, clause: int) -> Key:
        """Return the key of a term. For a constant, also record its type.

        A variable has the same key everywhere in a clause. Each other term gets a new key.
        """
        if isinstance(term, Var) and term.name != "_":
            return ("variable", clause, term.name)
        self.fresh += 1
        fresh_key: Key = ("fresh", self.fresh)
        match term:
            case Number(value):
                self.note(fresh_key, "int" if isinstance(value, int) else "float", term.span)
            case Compound(_, ()):
                self.note(fresh_key, "text", term.span)
            case Compound():
                self.same(fresh_key, self.reckoned(term, clause))
        return fresh_key

    def reckoned(self, term: Term, clause: int) -> Key:
        """Return the key of an arithmetic expression, and record that all values in the expression have one numeric
        type. Raises CepError for a text."""
        if not isinstance(term, Compound) or not term.arguments:
            key = self.key(term, clause)
            if isinstance(term, Compound):
                hint = "arithmetic has only numbers and variables"
                raise CepError(f"`{term.name}` is not a number", self.source, term.span, hint, "type")
            self.note(key, "reckoned", term.span)
            return key
        self.function(term)
        keys = [self.reckoned(argument, clause) for argument in term.arguments]
        for other_key in keys[1:]:
            self.same(keys[0], other_key)
        if term.name in ("/", "sqrt", "exp", "log", "sin", "cos", "atan2"):
            self.note(keys[0], "float", term.span)
        return keys[0]

    def function(self, term: Compound) -> str:
        """Return our name of an arithmetic function. Raises CepError if the function is not supported."""
        if term.name in ARITHMETIC:
            return "neg" if len(term.arguments) == 1 and term.name == "-" else ARITHMETIC[term.name]
        if term.name not in FUNCTIONS:
            hint = f"supported are {', '.join((*ARITHMETIC, *FUNCTIONS))}"
            raise CepError(f"`{term.name}/{len(term.arguments)}` is not supported", self.source, term.span, hint,
                           "dialect")  # fmt: skip
        return FUNCTIONS[term.name]

    def use(self, name: str, arguments: tuple[Term, ...], clause: int) -> None:
        """Record that the arguments of the predicate, event or fluent `name` have the same types as the terms in
        `arguments`.

        `arguments`: the terms that a clause writes for these arguments. Raises CepError if one of them is a list.
        """
        for index, term in enumerate(arguments):
            if isinstance(term, Many):
                raise CepError(
                    "a list cannot be a value", self.source, term.span, "write its members one by one", "dialect"
                )
            self.same(("argument", name, index), self.key(term, clause))

    def type(self, key: Key) -> str:
        """Return the type of a class. Raises CepError if the class contains a text and also occurs in arithmetic."""
        known = self.known.get(self.root(key), {})
        if "text" in known:
            if "reckoned" in known:
                first = known["reckoned"]
                message = f"this is a text, but {first.line}:{first.column} uses it as a number"
                raise CepError(message, self.source, known["text"], "use a number in both places, or a text in both",
                               "type")  # fmt: skip
            return "string"
        if "float" in known or ("reckoned" in known and ("input" in known or "int" not in known)):
            return "float"
        return "int" if "int" in known else "string"

    # --- terms as expressions ---

    def expression(self, term: Term, type: str) -> Expression:
        match term:
            case Var(name, span):
                return Variable(name, span)
            case Number(value, span):
                if type == "string":
                    return Constant(str(value), "string", span)
                return Constant(float(value), "float", span) if type == "float" else Constant(value, type, span)
            case Compound(name, (), span):
                return Constant(name, "string", span)
            case Compound():
                inner = tuple(self.expression(argument, type) for argument in term.arguments)
                return Call(self.function(term), inner, term.span)
        raise CepError("a list cannot be a value", self.source, term.span, None, "dialect")

    def argument(self, name: str, index: int, term: Term) -> Expression:
        """Convert an argument of a predicate, event or fluent. Raises CepError if it is a compound term or a list."""
        if isinstance(term, Compound) and term.arguments:
            raise CepError(f"`{term.name}(..)` cannot be a value here", self.source, term.span,
                           "use a variable, and put the arithmetic in a condition: `X is ..`", "dialect")  # fmt: skip
        return self.expression(term, self.type(("argument", name, index)))

    def arguments(self, name: str, terms: tuple[Term, ...]) -> tuple[Expression, ...]:
        """Convert all arguments of a predicate, event or fluent. Raises CepError for compound terms and lists."""
        return tuple(self.argument(name, index, term) for index, term in enumerate(terms))
