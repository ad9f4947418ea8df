"""Marks between thousands, weeks and zones in times, times of tables of facts: as they are declared."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from cep import Engine, detect
from cep.app.facts import read_facts
from cep.command import app
from cep.connectors.files import read
from cep.core.errors import CepError
from cep.core.time_pattern import of_pattern
from cep.language.static_predicates import declarations_of
from cep.language.syntax.parser import parse


def rows(folder: Path, declaration: str, text: str, name: str = "r.csv") -> tuple[list[Any], list[str]]:
    """The attributes of what is read, and why other records are not."""
    (folder / name).write_text(text, encoding="utf-8")
    schemas = Engine.from_text(f"{declaration}\nn <- r.\n".replace("r.\n", "r(x: _).\n")).inputs
    batches = list(read([f"r={folder / name}"], schemas))
    tables = [batch.tables["r"] for batch in batches if batch.tables]
    found = pl.concat(tables).drop("start", "end", "@order").rows() if tables else []
    return found, [letter.reason for batch in batches for letter in batch.dead]


@pytest.mark.parametrize(
    ("marks", "separator", "decimal", "mark"),
    [
        ('thousands: ","', ",", ".", ","),
        ('separator: ";", decimal: ",", thousands: "."', ";", ",", "."),
        ('separator: ";", thousands: "\'"', ";", ".", "'"),
        ('separator: ";", decimal: ",", thousands: "\u202f"', ";", ",", "\u202f"),
        ('thousands: " "', ",", ".", " "),
    ],
)
def test_marks_of_thousands(tmp_path: Path, marks: str, separator: str, decimal: str, mark: str) -> None:
    numbers = [0.5, 12, 123.25, -1234.5, 1234567.125, 1e9]
    swap = str.maketrans({",": mark, ".": decimal})
    written = [f"{number:,.3f}".translate(swap) for number in numbers]
    plain = [f"{number:.3f}".replace(".", decimal) for number in numbers]
    body = "".join(f'2024-05-01T08:00:00Z{separator}" {each} "{separator}"{each}"\n' for each in written + plain)
    declared = f"event r(x: float, y: string) TIME t FORMAT csv({marks})."
    found, dead = rows(tmp_path, declared, f"t{separator}x{separator}y\n{body}")
    assert [x for x, _ in found] == numbers * 2 and not dead
    assert [y for _, y in found] == written + plain  # texts stay


@pytest.mark.parametrize("text", ["12.34", "1.2345", "1.23.456", "1234.567", ".123", "1.234.5"])
def test_marks_in_other_places_are_no_numbers(tmp_path: Path, text: str) -> None:
    declared = 'event r(x: float) TIME t FORMAT csv(separator: ";", decimal: ",", thousands: ".").'
    found, (dead,) = rows(tmp_path, declared, f"t;x\n2024-05-01T08:00:00Z;{text}\n")
    assert not found and ("decimal mark is `,`" in dead or "stand before each three digits" in dead)


@pytest.mark.parametrize(
    ("marks", "said"),
    [
        ('thousands: "."', "the decimal mark and the thousands mark must be different"),
        ('decimal: ",", thousands: ","', "the decimal mark and the thousands mark must be different"),
        ('thousands: "1"', "the thousands mark must be one character"),
        ('grouping: ","', "did you mean `thousands`?"),
    ],
)
def test_marks_that_cannot_be(marks: str, said: str) -> None:
    with pytest.raises(CepError) as refused:
        Engine.from_text(f"event r(x: float) FORMAT csv({marks}).\nn(X) <- r(X).")
    assert said in str(refused.value)


def test_infer_proposes_the_marks(tmp_path: Path) -> None:
    for name, text, marks in (
        ("us.csv", 't,x,y\n2024-05-01,"1,234.5","12,345"\n2024-05-02,7.5,9\n', 'FORMAT csv(thousands: ",")'),
        ("eu.csv", "t;x\n2024-05-01;1.234,5\n2024-05-02;7,5\n", 'decimal: ",", thousands: ".")'),
        ("de.csv", "t;x\n2024-05-01;1,234\n2024-05-02;7,5\n", 'decimal: ",")'),
    ):
        (tmp_path / name).write_text(text)
        printed = CliRunner().invoke(app, ["infer", str(tmp_path / name), "--event", "r"]).stdout
        assert marks in printed and "x: float" in printed
        assert rows(tmp_path, printed, text, name)[1] == []


def test_tables_of_facts_have_marks_and_formats(tmp_path: Path) -> None:
    table = tmp_path / "limit.csv"
    table.write_text("a;from;most\nq;01.05.2024 08:00;1.234,5\nw;31.03.2024 02:30;7\n")
    marks = 'FORMAT csv(separator: ";", decimal: ",", thousands: ".")'
    form = 'FORMAT "%d.%m.%Y %H:%M" ZONE "Europe/Zurich"'
    program = f"fact limit(a: string, from: time {form}, most: float) {marks}.\nevent e(a: string).\n"
    program += "x(F, M) <- e(A) WHERE limit(A, F, M).\n"
    known = declarations_of(parse(program))["limit"]
    with pytest.raises(CepError, match=r"31\.03\.2024 02:30"):  # skipped by the clocks
        detect(program, [], facts={"limit": read_facts("limit", table, known)})
    table.write_text("a;from;most\nq;01.05.2024 08:00;1.234,5\n")
    (found,) = detect(program, [{"type": "e", "time": 1, "a": "q"}], facts={"limit": read_facts("limit", table, known)})
    assert found.args == (1714543200 * 1_000_000, 1234.5)


@pytest.mark.parametrize("mark", ["", ', thousands: "."'])
def test_what_is_declared_a_text_or_by_a_format_stays_as_it_is_written(tmp_path: Path, mark: str) -> None:
    table = tmp_path / "shop.csv"
    program = 'fact shop(name: string, code: string?, from: time FORMAT "%d%m%Y", open: bool, most: float) '
    program += f'FORMAT csv(separator: ";", decimal: ","{mark}).\nevent e(name: string).\n'
    program += "x(C, F, O, M) <- e(N) WHERE shop(N, C, F, O, M).\n"
    known = declarations_of(parse(program))["shop"]
    for header in ("most;Name;code;from;open", "a;b;c;d;e"):  # by name, by order
        by_name = header.startswith("m")
        rows = [
            ("7", "0042", "01052024", "Yes", "2,5"),
            ("8", "1e5", "11052024", "no", "12"),
            ("09", "NA", "02012024", "yes", "3"),
        ]
        lines = [";".join((each[-1], *each[:-1]) if by_name else each) for each in rows]
        table.write_text("\n".join([header, *lines]) + "\n")
        records = [{"type": "e", "time": 1, "name": each[0]} for each in rows]
        found = detect(program, records, facts={"shop": read_facts("shop", table, known)})
        days = [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 11, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)]
        ticks = [int(day.timestamp()) * 1_000_000 for day in days]
        assert {each.args for each in found} == {
            ("0042", ticks[0], True, 2.5), ("1e5", ticks[1], False, 12.0), (None, ticks[2], True, 3.0)
        }  # fmt: skip


def test_an_error_of_the_program_is_told_before_its_tables(tmp_path: Path) -> None:
    (tmp_path / "limit.csv").write_text("a;b\nq;1\n")
    (tmp_path / "p.cep").write_text('fact limit(a: string FROM x) FORMAT csv(separator: ";").\nx(A) <- e(A).\n')
    (tmp_path / "e.jsonl").write_text("")
    options = ["--input", str(tmp_path / "e.jsonl"), "--facts", f"limit={tmp_path / 'limit.csv'}"]
    told = CliRunner().invoke(app, ["run", str(tmp_path / "p.cep"), *options], prog_name="cep").stderr
    assert "p.cep:1:" in told and "the columns have the names of the attributes" in told
    assert "separated by" not in told


@pytest.mark.parametrize("pattern", ["%G-W%V-%u", "%Y-W%W-%w", "%Y-%U-%w", "%A %Y %W", "%y %U %a", "%G%V %w"])
def test_weeks_are_those_of_strptime(pattern: str) -> None:
    chosen = random.Random(pattern)
    for _ in range(400):
        day = date(1975, 1, 1) + timedelta(days=chosen.randrange(90 * 365))
        text = day.strftime(pattern)
        expected = (datetime(day.year, day.month, day.day, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
        if not (pattern.startswith("%y") and not 1969 <= day.year <= 2068):
            assert of_pattern(text, pattern) == (expected * 86_400_000_000, False), text


def test_weeks_and_utc_in_files(tmp_path: Path) -> None:
    declared = 'event r(x: int) TIME t FORMAT "%G-W%V-%u %H:%M %Z" ZONE "Europe/Zurich".'
    found, dead = rows(
        tmp_path, declared, "t,x\n2024-W18-3 08:00 UTC,1\n2024-W18-3 08:00 gmt,2\n2024-W18-3 08:00 CET,3\n"
    )
    assert found == [(1,), (2,)] and "is not written" in dead[0]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("%G-%V", "but the format has no day of the week"),
        ("%Y-W%V-%u", "`%V` goes with the year `%G`"),
        ("%Y %W %U %a", "a format can name only one kind of week"),
        ("%Y %W %a %d", "both say which day it is"),
        ("%x %X", "`%x` is not a known directive"),
        ("%Q", "`%G %V %U %W` with `%u %w %a %A`"),
    ],
)
def test_patterns_that_say_no_time(pattern: str, said: str) -> None:
    with pytest.raises(CepError) as refused:
        of_pattern("", pattern)
    assert said in f"{refused.value.message} {refused.value.hint}"
