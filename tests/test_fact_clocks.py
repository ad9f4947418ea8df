"""Times of day of facts with a FORMAT, and what becomes of zeros at the front of fields of a table of facts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from cep import Engine, detect
from cep.command import app
from cep.core.errors import CepError
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_program

HOUR = 3_600_000_000
PROGRAM = """fact shop(name: string, from: time FORMAT "%H%M", until: time FORMAT "%I:%M %p").
event visit(s: string).
open(S, F, U) <- visit(S) WHERE shop(S, F, U), F <= local_time(end(), "UTC").
"""


def run(folder: Path, program: str, table: str) -> Result:
    (folder / "p.cep").write_text(program)
    (folder / "v.jsonl").write_text('{"type": "visit", "time": "2024-05-01T12:00:00Z", "s": "a"}\n')
    (folder / "shop.csv").write_text(table)
    words = ["run", folder / "p.cep", "--input", folder / "v.jsonl", "--facts", f"shop={folder / 'shop.csv'}"]
    return CliRunner().invoke(app, list(map(str, words)))


def test_times_of_day_of_a_table_have_a_format(tmp_path: Path) -> None:
    for clock in ("0630", "630"):
        result = run(tmp_path, PROGRAM, f"name,from,until\na,{clock},06:30 pm\n")
        assert result.exit_code == 0 and '"f": 23400, "u": 66600' in result.stdout
    assert print_program(parse(PROGRAM)).startswith('fact shop(name: string, from: time FORMAT "%H%M", ')


def found(column: pl.Series | pd.Series, form: str) -> list[object]:
    program = f'fact at(n: int, t: time FORMAT "{form}").\nevent e(x: int).\nx(N, T) <- e(X) WHERE at(N, T).\n'
    table = pl.DataFrame({"n": range(len(column)), "t": column})
    return [event.args[1] for event in detect(program, [{"type": "e", "time": 0, "x": 1}], facts={"at": table})]


def test_times_of_day_of_frames() -> None:
    assert found(pl.Series([5, 1234]), "%H%M") == [5 * HOUR // 60, 12 * HOUR + 34 * HOUR // 60]
    assert found(pl.Series(["24:00", "00:00:"[:5]]), "%H:%M") == [24 * HOUR, 0]
    assert found(pl.Series([1234.0, 5.0]), "%H%M") == [12 * HOUR + 34 * HOUR // 60, 5 * HOUR // 60]
    assert found(pl.Series(["6.30"]), "%H.%M") == [6.5 * HOUR]
    for wrong in (pl.Series(["2401"]), pl.Series([1260]), pl.Series([12.5]), pl.Series(["x"])):
        with pytest.raises(CepError, match="is not a time") as caught:
            found(wrong, "%H%M")
        assert caught.value.hint == 'its declared FORMAT is `t: time FORMAT "%H%M"`'


@pytest.mark.parametrize(
    ("declared", "message", "hint"),
    [
        ('t: time FORMAT "%M:%S"', "no hour", '"%H:%M"'),
        ('t: time FORMAT "%H%M" ZONE "Europe/Zurich"', "cannot have a ZONE", 'local_time(end(), "Europe/Zurich")'),
        ('t: duration FORMAT "%H:%M"', "FORMAT of a duration", 'of type time: `from: time FORMAT "%H:%M"`'),
        ('t: time FORMAT "%d.%m. %H:%M"', "no year", "a fact may have a time of day alone"),
    ],
)
def test_what_is_no_time_of_day_is_told(declared: str, message: str, hint: str) -> None:
    with pytest.raises(CepError, match=message) as caught:
        Engine.from_text(f"fact at({declared}).\nevent e(x: int).\nx(T) <- e(X) WHERE at(T).\n")
    assert hint in (caught.value.hint or "")


def test_an_event_has_a_day() -> None:
    with pytest.raises(CepError, match="no year"):
        Engine.from_text('event e(x: int) TIME t FORMAT "%H%M".\nx(X) <- e(X).\n')


IDS = """event visit(s: string).
seen(N, D) <- visit(S) WHERE shop(N, D).
"""


def test_digits_with_a_leading_zero_stay_texts_where_nothing_is_declared(tmp_path: Path) -> None:
    result = run(tmp_path, IDS, "id,day\n0042,01052024\n17,31122024\n")
    assert result.exit_code == 0, result.stderr
    assert '"n": "0042", "d": "01052024"' in result.stdout and '"n": "17", "d": "31122024"' in result.stdout
    result = run(tmp_path, IDS, "id,day\n0,0.5\n-1,10\n")
    assert '"n": 0, "d": 0.5' in result.stdout and '"n": -1, "d": 10.0' in result.stdout
    result = run(tmp_path, f"fact shop(id: int, day: string).\n{IDS}", "id,day\n0042,01052024\n")
    assert '"n": 42, "d": "01052024"' in result.stdout


def test_a_comparison_with_numbers_is_told_how_they_are_declared(tmp_path: Path) -> None:
    program = "event visit(s: string).\nseen(N) <- visit(S) WHERE I = 42, shop(I, N).\n"
    result = run(tmp_path, program, "id,name\n0042,a\n")
    assert result.exit_code == 2 and "the first argument of `shop` is a string, and `I` is an int" in result.stderr
    assert "`fact shop(id: int, ..).` says which columns of a table are numbers" in " ".join(result.stderr.split())


def test_a_missing_time_of_day_is_missing() -> None:
    program = (
        'fact at(n: int, t: time? FORMAT "%H%M").\nevent e(x: int).\nx(N) <- e(X) WHERE at(N, T), T > time("00:01").\n'
    )
    table = pd.DataFrame({"n": [1, 2], "t": [5, np.nan]})
    assert [each.args for each in detect(program, [{"type": "e", "time": 0, "x": 1}], facts={"at": table})] == [(1,)]
