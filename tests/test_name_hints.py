"""Names that are none: what was probably meant, and how a built-in predicate is called."""

from __future__ import annotations

import pytest

from cep.compile import compile
from cep.connectors.inputs import inputs
from cep.core.errors import CepError


@pytest.mark.parametrize(
    ("rule", "hints"),
    [
        ("x(K) <- a(k, V).", ["hint: `k` is a constant; a variable begins with a capital: `K`"]),
        ("x(K) <- a(K, V) WHERE near(K, 5).",
         ["`near` has 5 arguments, not 2", "hint: `near(Lat, Long, Radius, Feature, Metres)`"]),
        ("x(K) <- a(K, V) WHERE near(1.0, 2.0, 3, F, M).", ["unknown predicate `near`", "`--knowledge places.ttl`"]),
        ("x(K) <- a(K, V) WHERE nearr(K).", ["unknown predicate `nearr`", "hint: did you mean `near`?"]),
        ("x(K) <- a(K, V) WHERE lenght(K) > 3, nearr(K).",
         ["unknown function `lenght`", "did you mean `length`?", "unknown predicate `nearr`", "did you mean `near`?"]),
    ],
)  # fmt: skip
def test_what_was_meant(rule: str, hints: list[str]) -> None:
    with pytest.raises(CepError) as found:
        compile("event a(k: string, v: int).\n" + rule)
    for one in hints:
        assert one in str(found.value)


def test_the_option_of_a_format_is_named() -> None:
    with pytest.raises(CepError, match="`xml` is not a format of the input"):
        inputs(["a.csv"], {}, format="xml")
