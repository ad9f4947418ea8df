"""Programs of dialects with letters lost, put in and moved: each is read or refused; none ends a reader."""

from __future__ import annotations

import random

import pytest

from cep.core.errors import CepError
from cep.language.reading import converted
from cep.language.syntax.parser import parse
from tests.test_datalogmtl import MONITORING, SHORT_STOP
from tests.test_rtec import GAPS, LIFE, QUOTES, SHIPS

PROGRAMS = [
    *((text, "x.prolog") for text in (LIFE, GAPS, QUOTES, SHIPS)),
    *((text, "p.dmtl") for text in (MONITORING, SHORT_STOP)),
    ("P(X) :- Diamondminus[0,2](A(X), not B(X)) Since(0,1] C(X,Y)\nBottom :- SOMETIME[-2,1]P(X), Top\n", "p.dmtl"),
]
PIECES = [*"(),.:-=[]|_XaT0\\+'\"% \n@", "true", "holdsAt(", "happensAt(", ":-", "not ", "Top", "Bottom", "inf", "-1"]


@pytest.mark.parametrize("seed", range(8))
def test_any_text_is_read_or_refused(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(60):
        text, name = choose.choice(PROGRAMS)
        for _ in range(choose.randint(1, 3)):
            at, other = choose.randrange(len(text)), choose.randrange(len(text))
            inside = choose.choice(("", choose.choice(PIECES), text[other : other + choose.randint(1, 12)]))
            text = text[:at] + inside + text[at + choose.randint(0, 4) :]
        try:
            own = converted(text, name)
        except CepError as refused:
            assert "hint: " in str(refused) or f"{name}:" in str(refused)
            continue
        parse(own)
