"""Identities made by kernels are those of `json.dumps` and `hashlib`, whatever the rows are made of."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from hashlib import blake2b

import numpy as np
import polars as pl
import pytest

from cep.core.blake2b import LANES, digests, lanes_of
from cep.core.fluents import CHANGES, HOLDS, SINCE_EVER, FluentTable
from cep.core.identity import ID, TableIdentities, identified, identity_hashes, occurrence_texts
from cep.core.kernels import njit
from cep.core.relation import FIRST, START, Table
from cep.core.schema import Attribute, Schema
from cep.core.shortest import LETTERS, write_float, write_whole
from cep.core.values import MISSING, Pool
from cep.runtime.decode import frames


@njit()
def _written(values, of_floats, letters, ends):  # type: ignore[no-untyped-def]
    """LETTERS of room for each."""
    for row in range(len(values)):
        at = LETTERS * row
        ends[row] = write_float(letters, at, values[row]) if of_floats else write_whole(letters, at, values[row])


def written(values: np.ndarray, of_floats: bool) -> list[str]:
    letters, ends = np.zeros(LETTERS * len(values), np.uint8), np.zeros(len(values), np.int64)
    _written(values.view(np.int64), of_floats, letters, ends)
    text = letters.tobytes().decode()
    return [text[LETTERS * row : end] for row, end in enumerate(ends.tolist())]


def test_a_digest_is_that_of_the_library() -> None:
    rng = np.random.default_rng(3)
    lengths = np.array([0, 1, 7, 8, 127, 128, 129, 255, 256, 257, 512, *rng.integers(0, 512, 61)])
    words = np.zeros((len(lengths), 64), np.uint64)
    letters = words.view(np.uint8)
    for row, length in enumerate(lengths.tolist()):
        letters[row, :length] = rng.integers(0, 256, length)
    lanes = lanes_of()
    for first in range(0, len(lengths), LANES):
        digests(words[first : first + LANES], lengths[first : first + LANES], lanes)
        for row in range(first, first + LANES):
            expected = blake2b(letters[row, : lengths[row]].tobytes(), digest_size=16).digest()
            assert lanes[:2, row - first].tobytes() == expected


def test_numbers_are_written_as_python_writes_them() -> None:
    rng = np.random.default_rng(4)
    powers = np.ldexp(1.0, np.arange(-1074, 1024, 7))
    tens = 10.0 ** np.arange(-323, 309, 3)
    some = [0.0, 1e-4, 1e16, math.nextafter(1e16, 0), 9007199254740993.0, 1e22, 1e23, 5e-324, 2.2250738585072014e-308]
    drawn = rng.integers(0, 0x7FF0000000000000, 300).view(np.float64)
    near = [
        10 ** rng.uniform(-6, 18, 300),
        rng.random(300),
        rng.random(300).round(3) * 1000,
        rng.integers(0, 2**53, 50),
    ]
    floats = np.concatenate([powers, np.nextafter(powers, 0), tens, tens * 1.1, some, drawn, *near])
    floats = np.concatenate([floats, -floats])
    assert written(floats, True) == list(map(repr, floats.tolist()))
    ends = [0, 9, 10, 99, 100, 10**18 - 1, 10**18, 2**63 - 1]
    whole = np.array([*ends, *(-each for each in ends), *rng.integers(-(2**63) + 1, 2**63 - 1, 100)])
    assert written(whole, False) == list(map(str, whole.tolist()))


VALUES = {
    "int": lambda rng: rng.choice([None, 0, -(2**63) + 1, 2**62, rng.randrange(-100, 100)]),
    "float": lambda rng: rng.choice([None, 0.0, 1e-5, 1e16, 5e-324, -1e300, rng.random(), -math.pi, 3.0]),
    "string": lambda rng: rng.choice([None, "", "plain ~!#[]", 'a"b', "back\\slash", "é", "\n", "\x7f", "\U0001f600"]),
    "iri": lambda rng: "http://example.org/" + "x" * rng.randrange(200),
    "bool": lambda rng: rng.choice([None, True, False]),
    "time": lambda rng: rng.randrange(10**15),
}


def table_of(schema: Schema, number: int, pool: Pool, rng: random.Random) -> Table:
    table = np.zeros((FIRST + len(schema.attributes), number), np.int64)
    table[START] = [rng.choice([SINCE_EVER, rng.randrange(-(10**15), 10**15)]) for _ in range(number)]
    table[START + 1] = table[START] + [rng.randrange(1000) for _ in range(number)]
    for at, attribute in enumerate(schema.attributes):
        drawn = [VALUES[attribute.type](rng) for _ in range(number)]
        if attribute.type == "float":
            table[FIRST + at] = np.array([math.nan if each is None else each for each in drawn]).view(np.int64)
        elif attribute.type in ("string", "iri"):
            table[FIRST + at] = pool.encode(pl.Series(drawn, dtype=pl.String), attribute.type)
        else:
            table[FIRST + at] = [MISSING if each is None else int(each) for each in drawn]
    return table


@pytest.mark.parametrize("part", [None, HOLDS])
def test_identities_of_tables_are_those_of_their_frames_and_of_their_texts(part: str | None) -> None:
    rng = random.Random(5)
    fluent = None if part is None else FluentTable(part, "f", False)
    for types in (("int", "float"), tuple(VALUES), (), ("string", "string"), ("float", "bool", "float")):
        attributes = tuple(Attribute(f"a{at}", type) for at, type in enumerate(types))
        schema = Schema('na"me', attributes, True, False, fluent=fluent)
        for number, meaning in ((0, "m"), (15, "m"), (16, "meaning"), (300, "long " * 40)):
            pool = Pool()
            table = table_of(schema, number, pool, rng)
            frame = frames({"f": [table]}, {"f": schema}, pool)["f"]
            times = ["start"] if part else ["start", "end"]
            texts = [
                f"{json.dumps(schema.name)} {json.dumps(row)}"
                for row in frame.select(*times, *(each.name for each in attributes)).rows()
            ]
            expected = [blake2b((meaning + text).encode(), digest_size=16).hexdigest() for text in texts]
            assert occurrence_texts(frame, schema) == texts
            assert TableIdentities(schema, meaning).of(table, frame).to_list() == expected
            assert TableIdentities(schema, meaning).of(table[:, ::2], frame[::2]).to_list() == expected[::2]
            assert identified(frame, schema, meaning)[ID].to_list() == (expected if part else told_apart(expected))


def told_apart(ids: list[str]) -> list[str]:
    """Identities of events: each but the first of equal ones depends on how many come before it."""
    before, apart = Counter[str](), []
    for id in ids:
        text = f"{id} {before[id]}"
        apart.append(blake2b(text.encode(), digest_size=16).hexdigest() if before[id] else id)
        before[id] += 1
    return apart


def test_identities_of_columns_that_no_engine_gives() -> None:
    columns = {
        "start": pl.Series([-(2**63), *range(19)]),
        "end": pl.Series([None, -(2**63), *range(18)], dtype=pl.Int64),
        "a": pl.Series([math.nan, math.inf, -math.inf, -0.0, None] * 4, dtype=pl.Float64),
        "b": pl.Series([None] * 20),
        "c": pl.Series([1, "x", None, True] * 5, dtype=pl.Object),
        "d": pl.Series([*range(20)], dtype=pl.UInt64),
    }
    for names in ("a", "b", "ab", "abc", "abd", ""):
        for time in ("start", "end"):
            frame = pl.DataFrame({"start": columns[time], "end": columns["start"], **{n: columns[n] for n in names}})
            schema = Schema("e", tuple(Attribute(name, "any") for name in names), True, False)
            expected = identity_hashes(occurrence_texts(frame, schema), "m")
            assert identified(frame, schema, "m")[ID].to_list() == expected
            rows = [f'"e" {json.dumps(row)}' for row in frame.rows()]
            assert occurrence_texts(frame, schema) == rows


def test_identities_of_changes_of_fluents_are_of_their_edges() -> None:
    schema = Schema("f", (Attribute("k", "int"),), True, False, fluent=FluentTable(CHANGES, "f", False))
    frame = pl.DataFrame({"@edge": ["begins", "ends"] * 10, "time": range(20), "k": range(20), "bounds": ["["] * 20})
    texts = [f'"f" {json.dumps(row[:3])}' for row in frame.rows()]
    assert identified(frame, schema, "m")[ID].to_list() == identity_hashes(texts, "m")
