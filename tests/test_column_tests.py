"""Comparisons of columns with constants: as tests of compiled code, and as an index of what asks for constants."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from cep.core.relation import END, FIRST, START, Table, bits
from cep.core.values import MISSING, Pool
from cep.engine import Engine
from cep.events import Event
from cep.language.syntax.parser import parse
from cep.rules.conditions.column_tests import column_tests, passing, passing_own
from cep.rules.conditions.conditions import compile_conditions
from cep.rules.terms import Condition, StaticRule
from cep.runtime.constant_index import constant_indexes
from tests.long import seeds

TYPES = {"int": "v0", "float": "v1", "string": "v2", "bool": "v3", "time": "v4", "duration": "v5", "any": "v6"}
ORDERS = ["=", "!=", "<", "<=", ">", ">="]
LARGE = 2**53 + 1
CONSTANTS = {
    "int": ["3", "0", "-2", "2.5", "3.0", "-0.5", str(LARGE), str(2**63 - 1), "9007199254740993.0", "1e300"],
    "float": ["3", "0", "-0.0", "2.5", "-1e300", str(LARGE), "2 + 1"],
    "string": ['"a"', '"b"', '"new"'],
    "bool": ["true", "false"],
    "time": ["3", "2.5"],
    "duration": ["3 s", "1 ms", "-2", "2.5"],
    "any": ["3", '"a"', "true"],
}
VALUES: dict[str, list[Any]] = {
    "int": [MISSING, MISSING + 1, -2, 0, 2, 3, 4, LARGE - 1, LARGE, LARGE + 1, 2**63 - 1],
    "float": [np.nan, -1e300, -2.0, 0.0, 2.5, 3.0, float(LARGE), 1e300],
    "string": ["a", "b", None],
    "bool": [MISSING, 0, 1],
    "time": [MISSING, 0, 2_500_000, 3_000_000],
    "duration": [MISSING, -2_000_000, 1_000, 2_500_000, 3_000_000],
    "any": [3, 3.0, "a", True, None],
}


def conditions(random: Random) -> tuple[str, tuple[Condition, ...]]:
    parts = []
    for _ in range(random.randint(1, 3)):
        type = random.choice(list(TYPES))
        column, constant = TYPES[type].upper(), random.choice(CONSTANTS[type])
        operator = random.choice(ORDERS[:2] if type in ("bool", "any") else ORDERS)
        parts.append(random.choice([f"{column} {operator} {constant}", f"{constant} {operator} {column}"]))
    (rule,) = parse(f"x(0) :- {', '.join(parts)}.").statements
    assert isinstance(rule, StaticRule)
    return ", ".join(parts), rule.conditions


def table_of(random: Random, count: int, pool: Pool) -> Table:
    table = np.zeros((FIRST + len(TYPES), count), np.int64)
    table[START] = table[END] = np.arange(count)
    for place, type in enumerate(TYPES):
        values = [random.choice(VALUES[type]) for _ in range(count)]
        if type in ("string", "any"):
            table[FIRST + place] = pool.encode_values(values)
        else:
            table[FIRST + place] = bits(np.array(values, np.float64 if type == "float" else np.int64))
    return table


@pytest.mark.parametrize("seed", seeds(60))
def test_tests_hold_where_conditions_do(seed: int) -> None:
    random, pool = Random(seed), Pool()
    text, written = conditions(random)
    types = {name.upper(): type for type, name in TYPES.items()}
    table = table_of(random, 200, pool)
    names = {f"V{place}": table[FIRST + place] for place in range(len(TYPES))}
    names["V1"] = names["V1"].view(np.float64)
    whole = compile_conditions(written, types, {}, pool).holds(names, 200)
    tests, others = column_tests(written, types, pool, None)
    left = compile_conditions(others, types, {}, pool).holds(names, 200)
    chosen = np.zeros(200, np.bool_)
    chosen[passing(table, tests) if len(tests) else slice(None)] = True
    assert (chosen & left).tolist() == whole.tolist(), text


@pytest.mark.parametrize("seed", seeds(60))
def test_rows_of_a_family_pass_the_tests_of_their_members(seed: int) -> None:
    random, pool = Random(seed), Pool()
    types = {name.upper(): type for type, name in TYPES.items()}
    drawn = [column_tests(conditions(random)[1], types, pool, None)[0] for _ in range(40)]
    length = random.choice([len(tests) for tests in drawn])
    members = [tests for tests in drawn if len(tests) == length]
    for count in (0, 1, 300):
        table = np.vstack([table_of(random, count, pool), np.zeros(count, np.int64)])
        table[-1] = [random.randrange(len(members)) for _ in range(count)]
        chosen = passing_own(table, np.stack(members)).tolist()
        for number, tests in enumerate(members):
            own = np.flatnonzero(table[-1] == number)
            expected = own[passing(np.ascontiguousarray(table[:, own]), tests)] if length else own
            assert [row for row in chosen if table[-1, row] == number] == expected.tolist()


@pytest.mark.parametrize("seed", seeds(60))
def test_an_index_finds_what_is_concerned(seed: int) -> None:
    random, pool = Random(seed), Pool()
    types = {name.upper(): type for type, name in TYPES.items()}
    tests = {}
    for number in range(random.choice([3, 20, 200])):
        tests[number], _ = column_tests(conditions(random)[1], types, pool, None)
    indexes, others = constant_indexes(tests)
    for count in (1, 2, 50, 400):
        table = table_of(random, count, pool)
        concerned = {number: rows for index in indexes for number, rows in index.concerned(table)}
        assert not concerned.keys() & set(others)
        for number, of_reader in tests.items():
            wanted = passing(table, of_reader).tolist() if len(of_reader) else list(range(count))
            if number in concerned:
                assert set(wanted) <= set(concerned[number][END].tolist())
                own = concerned[number]
                assert (own[:, passing(own, of_reader)] == table[:, wanted]).all()
            elif number not in others:
                assert not wanted
        whole, unbounded = constant_indexes(tests, 0)
        repeated = [index.repeated(table) for index in whole]
        assert [index.count(table) for index in whole] == [wider.shape[1] for wider in repeated]
        for number in tests.keys() - unbounded:
            own = np.concatenate([wider[:-1, wider[-1] == number] for wider in repeated], axis=1)
            assert (own[:, passing(own, tests[number])] == table[:, passing(table, tests[number])]).all()


def rules(random: Random, many: int) -> tuple[str, list[tuple[str, int, int]]]:
    asked = [
        (random.choice(["<", ">", "=", "between"]), random.randrange(25), random.randrange(25, 30)) for _ in range(many)
    ]
    lines = ["event reading(room: int, temp: int) TIME time.\nevent hit(number: int, room: int, temp: int).\n"]
    lines.append("event then(number: int, room: int).\n")
    for number, (operator, low, high) in enumerate(asked):
        where = f"T between {low} and {high}" if operator == "between" else f"T {operator} {low}"
        lines.append(f"hit({number}, R, T) <- reading(R, T) WHERE {where}.\n")
        lines.append(f"then({number}, R) <- (reading(R, {low}) SEQ reading(R, T) WHERE {where}) WITHIN 5 s.\n")
    return "".join(lines), asked


@pytest.mark.parametrize("options", [{}, {"explain": True}, {"revise": 3_000_000}], ids=str)
@pytest.mark.parametrize("seed", seeds(6))
def test_many_rules_that_differ_in_a_constant(seed: int, options: dict[str, Any]) -> None:
    random = Random(seed)
    text, asked = rules(random, random.choice([3, 12, 60]))
    readings = [(random.randrange(3), random.randrange(30), 400_000 * number) for number in range(120)]
    hits, thens = [], []
    for place, (room, temp, time) in enumerate(readings):
        for number, (operator, low, high) in enumerate(asked):
            if not {"<": temp < low, ">": temp > low, "=": temp == low, "between": low <= temp <= high}[operator]:
                continue
            hits.append((number, room, temp, time))
            for other, value, start in readings[:place]:
                if other == room and value == low and time - start <= 5_000_000:
                    thens.append((number, room, start, time))
    for size in (1, 7, 120):
        engine = Engine.from_text(text, **options)
        derived: dict[str, list[tuple[Any, ...]]] = {"hit": [], "then": []}
        batches = [readings[start : start + size] for start in range(0, len(readings), size)]
        for batch in [*batches, None]:
            given = [Event("reading", each[:2], each[2], each[2]) for each in batch or ()]
            for name, table in (engine.close() if batch is None else engine.push(given)).items():
                columns = ("number", "room", "temp", "end") if name == "hit" else ("number", "room", "start", "end")
                derived[name] += table.select(columns).rows()
        assert sorted(derived["hit"]) == sorted(hits)
        assert sorted(derived["then"]) == sorted(thens)
