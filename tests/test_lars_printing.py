"""LARS that is printed is read as the same; and any text is read or refused."""

from __future__ import annotations

import random

import pytest

from cep.core.errors import CepError, Source
from cep.core.literals import SECOND
from cep.language.dialects.lars.ast import (
    AT,
    EVERY,
    NOW,
    SOME,
    LarsAtom,
    LarsLiteral,
    LarsProgram,
    LarsRule,
    TimeWindow,
    TupleWindow,
    Window,
)
from cep.language.dialects.lars.printer import print_program
from cep.language.dialects.lars.reader import parsed
from cep.language.dialects.lars.windows import longest
from cep.language.syntax import ast
from cep.rules.terms import DIVIDED, Call, Comparison, Constant, Expression, Graph, Variable
from tests.long import seeds
from tests.test_lars_reading import CACHING, REACHING, lars, laser

X, T, S = Variable("X"), Variable("T"), Variable("S")


class TreeMaker:
    """Random trees of whatever can be written."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def program(self) -> LarsProgram:
        rules = tuple(self.rule() for _ in range(self.random.randint(1, 6)))
        return LarsProgram(rules, (ast.Prefix("wt", "http://a.b/#"),), SECOND)

    def rule(self) -> LarsRule:
        body = tuple(self.element() for _ in range(self.random.randint(0, 4)))
        if body and self.random.random() < 0.2:
            return LarsRule(None, None, body)
        return LarsRule(self.atom(True), self.at() if self.random.random() < 0.4 else None, body)

    def at(self) -> Expression:
        return self.random.choice([T, S, Constant(5, "int"), Constant(-3, "int"), self.number(2)])

    def atom(self, head: bool = False) -> LarsAtom:
        name = self.random.choice(["a", "b", "at", "in", "always", "by", "step", "event", "fact", "highAt", "x_1"])
        values = (self.number(2) if head and self.random.random() < 0.3 else self.value() for _ in range(3))
        return LarsAtom(name, tuple(values)[: self.random.randint(0, 3)])

    def value(self) -> Expression:
        constants = [
            *((each, "string") for each in ("red", "not", "true", "A b", "", 'q"\\', "x\ny", "at", "caf\u00e9")),
            *((each, "int") for each in (0, 7, -3)), *((each, "float") for each in (2.5, 1e20, -1e-7)),
            (True, "bool"), (1360281600000000, "time"),
        ]  # fmt: skip
        if self.random.random() < 0.5:
            return self.random.choice([X, T, Variable("_"), Variable("Y_1")])
        return Constant(*self.random.choice(constants))

    def number(self, depth: int) -> Expression:
        if not depth or self.random.random() < 0.3:
            return self.random.choice(
                [X, T, Variable("N2"), Constant(3, "int"), Constant(-3, "int"), Constant(0.5, "float")]
            )
        one, other = self.number(depth - 1), self.number(depth - 1)
        function = self.random.choice(["+", "-", "*", "/", "mod", "**", "neg"])
        if function == "neg":
            return Call("neg", (one,))
        if function == "/":
            decimal = any(isinstance(each, Constant) and each.type == "float" for each in (one, other))
            function = "/" if decimal else DIVIDED
        return Call(function, (one, other))

    def element(self) -> LarsLiteral | Comparison | Graph:
        chance = self.random.random()
        if chance < 0.25:
            operator = self.random.choice(["=", "!=", "<", "<=", ">", ">="])
            sides = [self.number(3), self.value()]
            self.random.shuffle(sides)
            return Comparison(operator, *sides)
        if chance < 0.32:
            text = "{ ?S wt:height ?H . # }\n }"
            return Graph(text, ("S", "H"), (("wt", "http://a.b/#"),), self.random.random() < 0.5)
        atom, negated = self.atom(), self.random.random() < 0.4
        modality = self.random.choice([NOW, SOME, EVERY, AT])
        if modality == NOW:
            return LarsLiteral(atom, NOW, None, None, negated)
        window: Window | None = self.window()
        if modality == AT and self.random.random() < 0.3:
            window = None
        return LarsLiteral(atom, modality, self.at() if modality == AT else None, window, negated)

    def window(self) -> Window:
        if self.random.random() < 0.6:
            return TimeWindow(self.random.choice([0, 3, 10, longest(SECOND)]), self.random.choice([1, 1, 7]))
        return TupleWindow(self.random.randint(1, 9), self.random.choice([None, None, ("X",), ("X", "Y_1")]))


@pytest.mark.parametrize("seed", seeds(12))
def test_what_is_printed_is_read_as_the_same(seed: int) -> None:
    maker = TreeMaker(seed)
    for _ in range(30):
        program = maker.program()
        text = print_program(program)
        again = parsed(Source(text), SECOND)
        assert again == program, text
        assert print_program(again) == text


PIECES = [*"(),.:-=[]|_XaT0\\+'\"% \n@{}#", "at ", "in ", "not ", "always ", ":-", "[3]", "/*", "%*", "event ", "1e9"]
TEXTS = [
    (CACHING, lars),
    (REACHING, lars),
    ("@(S, h(X)) :- time_win(3,0,1, @(T, p(X))) and MATH(+,S,T,2)\nq(1)\n", laser),
]


@pytest.mark.parametrize("seed", seeds(12))
def test_any_text_is_read_or_refused(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(60):
        text, reader = choose.choice(TEXTS)
        for _ in range(choose.randint(1, 3)):
            at, other = choose.randrange(len(text)), choose.randrange(len(text))
            inside = choose.choice(("", choose.choice(PIECES), text[other : other + choose.randint(1, 12)]))
            text = text[:at] + inside + text[at + choose.randint(0, 4) :]
        try:
            program = reader(text)
        except CepError as refused:
            assert "hint: " in str(refused), str(refused)
            continue
        assert lars(print_program(program)) == program, text
