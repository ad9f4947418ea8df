"""Rows are dealt to buckets by value, and put together again; random programs in buckets derive the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, TIE, Attribute, Schema
from cep.core.value_hashes import hash_words
from cep.engine import detect
from cep.events import Iri
from cep.plan.partition import Stage
from cep.runtime.buckets import buckets, merged_by_arrival, merged_identical
from cep.runtime.state_by_key import deal_groups
from tests.cases_format import FOLDER, known, read_case
from tests.keyed_programs import keyed_programs
from tests.long import some
from tests.partitions import derived
from tests.programs import Program
from tests.rounds import Buckets
from tests.test_cases import case_name
from tests.test_equivalence import ANY, LONG, check, cut, examples, in_order, run, start, types

CASES = [path for path in sorted(FOLDER.rglob("*.case")) if "error" not in read_case(path).sections]
COUNTS = st.sampled_from((1, 2, 7))


def bucket(values: list[Any], type: str = "any", dtype: Any = None, count: int = 1 << 40) -> list[int]:
    schema = Schema("a", (Attribute("x", type, True),), False, False)
    return buckets(pl.DataFrame({"x": pl.Series(values, dtype=dtype)}), schema, (0,), count).tolist()


def test_a_value_has_the_same_bucket_however_it_comes() -> None:
    one = bucket([1])
    assert (
        one == bucket([1.0]) == bucket([1], "int", pl.UInt8) == bucket([1.0], "float") == bucket([1], "any", pl.Object)
    )
    text = bucket(["café"])
    assert text == bucket(["café"], "string", pl.Categorical) == bucket([Iri("café")], "any", pl.Object)
    assert bucket([0.0], "float") == bucket([-0.0], "float")
    assert bucket([None, None], "int", pl.Int64) == bucket([None, float("nan")], "float")
    second = pl.Series([1_000_000]).cast(pl.Datetime("us"))
    assert bucket(list(second)) == one and bucket(list(second), "time") == bucket([1_000_000], "time")
    mixed = bucket(["b", 2, 2.5, True, None], "any", pl.Object)
    assert mixed == bucket(["b"]) + bucket([2]) + bucket([2.5]) + one + bucket([None])


def test_the_bucket_of_a_value_never_changes() -> None:
    """A checkpoint outlives the version that wrote it."""
    texts = ["", "a", "KJFK", "a text of more than eight letters"]
    assert bucket(texts, count=1000) == [205, 504, 877, 108]
    assert bucket([0, 1, -1, 2**62], count=1000) == [0, 604, 289, 72]
    assert bucket([0.5, 1e300], count=1000) == [613, 846]
    assert bucket([None], count=1000) == [707]


@given(st.lists(st.text(), min_size=1))
def test_equal_texts_have_equal_words(texts: list[str]) -> None:
    found = hash_words(pl.Series(texts, dtype=pl.String), "string").tolist()
    assert len(set(zip(texts, found))) == len(set(texts)) == len(set(found))


def test_every_row_is_dealt_once_or_to_all() -> None:
    schema = Schema("a", (Attribute("x", "int"), Attribute("y", "int")), True, False)
    rows = [(t % 7, t % 3) for t in range(1000)]
    table = pl.DataFrame(
        {"start": range(1000), "end": range(1000), "x": [x for x, _ in rows], "y": [y for _, y in rows]}
    )
    for route in ((0,), (1, 0), "whole", "broadcast", "single"):
        stage = Stage(1, True, (), {"a": route}, frozenset({"a"}), (), frozenset(), ())
        dealt = [tables.get("a") for tables in deal_groups(stage, {"a": table, "b": table}, {"a": schema}, 4)]
        parts = [part for part in dealt if part is not None]
        assert all(part["start"].is_sorted() for part in parts)
        if route == "broadcast":
            assert all(part.equals(table) for part in parts) and len(parts) == 4
            continue
        assert sorted(t for part in parts for t in part["start"]) == list(range(1000))
        if isinstance(route, tuple):
            names = [schema.attributes[position].name for position in route]
            keys = [set(part.select(names).rows()) for part in parts]
            assert sum(map(len, keys)) == len(set().union(*keys))
        if route == "whole":
            assert all(150 < part.height < 350 for part in parts)


def test_what_buckets_give_is_put_in_order_and_made_one() -> None:
    place = {"start": [1, 1], "end": [2, 2], ARRIVAL: [3, 3], TIE: [0, 1]}
    one = pl.DataFrame(place | {"x": pl.Series([1, "u"], dtype=pl.Object)})[[1, 0]]
    two = pl.DataFrame(place | {"x": pl.Series([None, None], dtype=pl.Null), ARRIVAL: [2, 9]})
    three = pl.DataFrame(place | {"x": [1.0, 2.5], "end": [1, 2]})
    assert merged_by_arrival([one]).rows() == [(1, 2, 3, 1), (1, 2, 3, "u")]
    assert merged_by_arrival([three, one, two]).drop("start").rows() == [
        (1, 3, 1.0), (2, 2, None), (2, 3, 1), (2, 3, 2.5), (2, 3, "u"), (2, 9, None)
    ]  # fmt: skip
    assert merged_identical([one, two, three, one]).rows() == [
        (1, 2, "u"),
        (1, 2, 1),
        (1, 2, None),
        (1, 1, 1.0),
        (1, 2, 2.5),
    ]


@pytest.mark.parametrize("path", some(CASES), ids=case_name)
def test_cases(path: Path) -> None:
    case = read_case(path)
    options: dict[str, Any] = {"policy": case.policy}
    if case.knowledge is not None:
        options["knowledge"] = known(case.knowledge)
    wanted = detect(case.program, case.events, **options)
    for count in (1, 2, 7):
        found = derived(case.program, case.events, count, count, **options)
        check(wanted, found, f"in {count} buckets (+) it is not what it is in one engine (-)")


def check_buckets(program: Program, count: int, data: st.DataObject) -> None:
    events = in_order(program.events)
    try:
        wanted = run(start(program), [events])
    except CepError:  # a recursion without end, of which each bucket has but a part
        return
    random = data.draw(st.randoms(use_true_random=False))
    arriving, lateness = [*enumerate(events)], 0
    if data.draw(st.booleans()):
        arriving, lateness = random.sample(arriving, len(arriving)), LONG
    found = Buckets(program.text, count, random, types=types(events)).run(cut(data, arriving), lateness)
    check(wanted, found, f"in {count} buckets (+) it is not what it is in one engine (-)")


@examples(40)
@given(keyed_programs(), COUNTS, st.data())
def test_keyed_programs(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)


@examples(20)
@given(keyed_programs(policies=False), COUNTS, st.data())
def test_keyed_programs_without_policies(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)


@examples(40)
@given(ANY, COUNTS, st.data())
def test_any_programs(program: Program, count: int, data: st.DataObject) -> None:
    check_buckets(program, count, data)
