"""Times that are numbers side by side, `%d%m%Y`, of which zeros at the front are lost: padded, or a dead letter."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cep import detect
from cep.connectors.files import read
from cep.connectors.records.columns import text_cells, ticks
from cep.connectors.records.numbers import GOOD
from cep.connectors.records.times import of_text
from cep.core.schema import TimeFormat
from cep.core.time_pattern import padded
from cep.engine import Engine
from tests.long import examples

FIRST_OF_MAY = 1_714_521_600_000_000


def rows(tmp_path: Path, declared: str, records: list[dict[str, object]], suffix: str) -> tuple[list[int], list[str]]:
    """The times and the reasons of dead letters that a file of records gives."""
    engine = Engine.from_text(f"event r(x: int) {declared}.\nfound(X) <- r(X).")
    path = tmp_path / f"r.{suffix}"
    frame = pl.DataFrame(records)
    match suffix:
        case "jsonl":
            path.write_text("".join(json.dumps(each) + "\n" for each in records))
        case "csv":
            frame.write_csv(path)
        case _:
            frame.write_parquet(path)
    times, reasons = [], []
    for batch in read([f"r={path}"], {name: engine.plan.schemas[name] for name in engine.plan.inputs}):
        times += [time for table in batch.tables.values() for time in table["start"]]
        reasons += [dead.reason for dead in batch.dead]
    return times, reasons


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_whole_numbers_have_the_zeros_that_they_have_lost(tmp_path: Path, suffix: str) -> None:
    given: list[dict[str, object]] = [{"t": 1052024, "x": 1}, {"t": 31122024, "x": 2}, {"t": 52024, "x": 3}]
    times, reasons = rows(tmp_path, 'TIME t FORMAT "%d%m%Y"', given, suffix)
    assert times == [FIRST_OF_MAY, int(datetime(2024, 12, 31, tzinfo=UTC).timestamp()) * 1_000_000]
    assert reasons == ["t: `52024` has 5 digits where `%d%m%Y` has 8"]
    both: list[dict[str, object]] = [{"d": 1052024, "c": 730, "x": 1}, {"d": 1052024, "c": 5, "x": 1}]
    times, reasons = rows(tmp_path, 'TIME d, c FORMAT "%d%m%Y %H%M"', both, suffix)
    assert (times, reasons) == ([FIRST_OF_MAY + 27_000_000_000, FIRST_OF_MAY + 300_000_000], [])


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_text_of_too_few_digits_is_a_dead_letter_that_says_so(tmp_path: Path, suffix: str) -> None:
    given: list[dict[str, object]] = [{"t": "1052024", "x": 1}, {"t": "01052024", "x": 2}]
    times, reasons = rows(tmp_path, 'TIME t FORMAT "%d%m%Y"', given, suffix)
    assert times == [FIRST_OF_MAY]
    assert reasons == ["t: `1052024` has 7 digits where `%d%m%Y` has 8"]


def test_a_year_of_four_digits_has_lost_none() -> None:
    assert padded("240501", "%Y%m%d") == "240501"
    assert padded("105", "%y%m%d") == "000105" and padded("1052024", "%d.%m.%Y") == "1052024"
    with pytest.raises(ValueError, match="has 7 digits where `%Y%m%d` has 8"):
        of_text("9990101", TimeFormat("%Y%m%d"))


def test_whole_numbers_of_facts_and_frames() -> None:
    program = 'fact shop(name: string, from: time FORMAT "%d%m%Y").\nevent e(name: string).\n'
    program += "x(F) <- e(N) WHERE shop(N, F).\n"
    shops = pl.DataFrame({"name": ["a"], "from": [1052024]})
    (found,) = detect(program, [{"type": "e", "time": 1, "name": "a"}], facts={"shop": shops})
    assert found.args == (FIRST_OF_MAY,)
    frame = pl.DataFrame({"t": [1052024], "x": [1]})
    found = detect('event r(x: int) TIME t FORMAT "%d%m%Y".\na(X) <- r(X).\n', frame)
    assert found.tables["a"].height == 1 and not found.dead.height


PATTERNS = [
    "%d%m%Y",
    "%y%m%d",
    "%d%m%y%H%M",
    "%H%M%S%d%m%Y",
    "%j%Y",
    "%I%M%p %d%m%Y",
    "%d.%m.%Y %H%M",
    "%Y%m%d%H%M%S%f",
]


@examples(200)
@given(st.datetimes(datetime(1970, 1, 1), datetime(2068, 1, 1)), st.sampled_from(PATTERNS), st.integers(0, 9))
@example(datetime(2024, 5, 1), "%d%m%Y", 1)
def test_all_readers_agree_where_zeros_are_lost(moment: datetime, pattern: str, lost: int) -> None:
    text = moment.strftime(pattern)
    expected = of_text(text, TimeFormat(pattern))
    front = text[: len(text) - len(text.lstrip("0"))]
    short = text[min(lost, len(front)) :]
    try:
        judged = of_text(short, TimeFormat(pattern))
    except ValueError:
        judged = None
    found, states = ticks(text_cells(pl.Series([short])), 0, True, TimeFormat(pattern))
    assert (int(found[0]) if states[0] == GOOD else None) in (judged, None)
    assert judged in (expected, None)
    if text.isdecimal() and not pattern.startswith("%Y") and "f" not in pattern:
        assert of_text(padded(text.lstrip("0"), pattern), TimeFormat(pattern)) == expected
