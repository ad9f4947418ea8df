"""What notebooks show of results, and cells of rules, in IPython's own shell."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from cep import Engine, detect
from cep.derived_page import COLUMNS, EVENTS, LANES, ROWS, WARNINGS, page

PROGRAM = """\
event reading(fridge: string, temp: float) TIME time.
PARAM Hot = 7.0 IN 5..12.
warm(F, T) <- reading(F, T) WHERE T > Hot.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
"""
READINGS = [
    {"time": "2024-05-01T08:00:00Z", "fridge": "milk", "temp": 8.5},
    {"time": "2024-05-01T08:10:00Z", "fridge": "milk", "temp": 6.0},
    {"time": "2024-05-01T08:20:00Z", "fridge": "<b>&'\"", "temp": 9.5},
]
VOID = {"path", "br", "hr", "img"}


class Shown(HTMLParser):
    """The text of a page and its tags; every tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)


@pytest.fixture
def shell() -> Any:
    made = InteractiveShell()
    made.user_ns["readings"] = pl.DataFrame(READINGS)
    assert made.run_line_magic("load_ext", "cep") is None
    return made


def cell(shell: Any, line: str, text: str = PROGRAM) -> tuple[Any, str]:
    """The result of a cell, and what it writes."""
    with capture_output() as captured:
        found = shell.run_cell(f"%%cep {line}\n{text}")
    return found, captured.stdout + captured.stderr


def test_results_are_tables_and_a_timeline() -> None:
    found = detect(PROGRAM, READINGS)
    shown = Shown(found._repr_html_())
    assert "derived: warm 2, silent 2" in shown.texts
    assert shown.count("table") == 2 and shown.count("svg") == 1 and shown.count("tr") == 6
    assert {"<b>&'\"", "milk", "8.5", "2024-05-01T08:20:00Z", "temp"} - set(shown.texts) == {"temp"}
    assert "t" in shown.texts and shown.count("b") == 2, "a value is no tag"
    assert "script" not in {tag for tag, _ in shown.tags}


def test_a_bar_stands_where_its_time_is() -> None:
    table = pl.DataFrame({"start": [0, 500, 900], "end": [100, 500, 1000]}).cast(pl.Datetime("us", "UTC"))
    (drawn,) = [tag["d"] for name, tag in Shown(page("x", {"a": table})).tags if name == "path" and "fill" in tag]
    bars = [(int(a) - 150, int(b)) for a, b in re.findall(r"M(\d+) \d+h(\d+)", drawn or "")]
    assert bars == [(0, 56), (280, 2), (504, 56)]


def test_large_results_are_small_pages() -> None:
    rows = 300_000
    times = pl.Series(range(rows)).cast(pl.Datetime("us", "UTC"))
    wide = {f"c{n}": pl.Series([n] * rows) for n in range(40)}
    table = pl.DataFrame({"start": times, "end": times, "text": pl.Series(["x" * 200] * rows), **wide})
    html = page("many", {f"event_{n}": table for n in range(30)}, [f"row {n}: <i>" for n in range(5_000)])
    assert len(html) < 150_000
    shown = Shown(html)
    assert shown.count("tr") == LANES * (ROWS + 1) and shown.count("th") == LANES * COLUMNS
    assert f"and {30 - LANES} more events" in shown.texts
    assert f"{rows - ROWS:,} more rows and {43 - COLUMNS} more columns" in shown.texts
    assert any("row 0: <i> and 4,999 more" in text for text in shown.texts) and shown.count("i") == 0


def test_what_has_no_rows_times_or_ends() -> None:
    assert "derived: warm 0, silent 0" in Shown(detect(PROGRAM, [])._repr_html_()).texts
    door = "event door(d: string, open: bool) TIME time. fluent ajar(d: string).\n"
    door += "initiate ajar(D) <- door(D, true). terminate ajar(D) <- door(D, false)."
    found = detect(door, [{"time": 0, "d": "a", "open": True}, {"time": 60, "d": "b", "open": True}])
    shown = Shown(found._repr_html_())
    assert "null" in shown.texts and shown.count("svg") == 1
    far = pl.DataFrame({"start": [-(2**60), None], "end": [2**60, 5]}).cast(pl.Datetime("us", "UTC"))
    assert Shown(page("far", {"a": far})).count("svg") == 1
    mixed = pl.DataFrame({"start": [0], "end": [0], "d": [-1_500_000], "b": [True]}).cast(
        {"start": pl.Datetime("us", "UTC"), "end": pl.Datetime("us", "UTC"), "d": pl.Duration("us")}
    )
    assert {"-1500 ms", "true"} <= set(Shown(page("mixed", {"a": mixed})).texts)


def test_an_engine_shows_its_events() -> None:
    engine = Engine.from_text(PROGRAM)
    shown = Shown(engine._repr_html_())
    assert "2 rules: reading in, warm, silent out; no data yet" in shown.texts
    assert "reading(fridge: string, temp: float)" in shown.texts
    engine.push(READINGS)
    assert "up to 2024-05-01T08:19:59.999999+00:00" in repr(engine)
    many = "".join(f"e{n}(X) <- a{n}(X) SEQ b(X). " for n in range(EVENTS + 3))
    shown = Shown(Engine.from_text(many)._repr_html_())
    assert "and 3 more" in shown.texts and shown.count("pre") == WARNINGS
    assert f"and {EVENTS + 3 - WARNINGS} more warnings" in shown.texts


def test_a_cell_runs_over_data(shell: Any) -> None:
    found, _ = cell(shell, "readings -o found")
    assert found.result.counts == {"warm": 2, "silent": 2} and shell.user_ns["found"] is found.result
    formats, _ = shell.display_formatter.format(found.result)
    assert formats["text/html"] == found.result._repr_html_()
    assert "2 derived" in formats["text/plain"] or "4 derived" in formats["text/plain"]
    found, _ = cell(shell, "reading=readings --param Hot=9 --rules rules")
    assert found.result.counts["warm"] == 1 and "PARAM Hot" in shell.user_ns["rules"]
    found, _ = cell(shell, "readings --lateness '10 min' --policy recent")
    assert found.result.counts["warm"] == 2


def test_a_cell_without_data_is_checked(shell: Any) -> None:
    found, _ = cell(shell, "")
    assert list(found.result.outputs) == ["warm", "silent"]
    found, said = cell(shell, "", "warm(F) <- reading(F, T), T > 7.")
    assert not found.success and "<cell>:1:25: expected an operator" in said.replace("<program>", "<cell>")
    assert "hint: " in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("reading", "there is no variable `reading`"),
        ("a=readings b", "`b` is not a name and a value"),
        ("readings -o 3x", "-o: `3x` is not the name of a variable"),
        ("-o found", "without data the program derives nothing"),
        ("readings --param Hot", "`Hot` is not a name and a value"),
        ("readings --param Hott=3", "Hot"),
        ("readings --lateness soon", "soon"),
        ("readings --frobnicate", "unrecognized arguments"),
        ("readings --knowledge gone.ttl", "gone.ttl"),
        ("readings 'x", "No closing quotation"),
    ],
)
def test_mistakes_in_the_line_are_told_in_a_line(shell: Any, line: str, told: str) -> None:
    found, said = cell(shell, line)
    assert not found.success and told in said and "Traceback" not in said


def test_knowledge(shell: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ttl").write_text('<urn:x#milk> <urn:x#in> "milk" .')
    rules = "event reading(fridge: string, temp: float) TIME time.\n"
    rules += "known(F) <- reading(F, _) WHERE { ?x <urn:x#in> ?F }.\n"
    found, _ = cell(shell, "readings --knowledge k.ttl", rules)
    assert found.result.counts == {"known": 2}
    import rdflib

    shell.user_ns["graph"] = rdflib.Graph().parse("k.ttl")
    found, _ = cell(shell, "readings --knowledge graph", rules)
    assert found.result.counts == {"known": 2}


def test_the_page_on_notebooks_runs(shell: Any) -> None:
    page = (Path(__file__).parent.parent / "docs/python.md").read_text(encoding="utf-8")
    cells = re.findall(r"```ipython\n(.*?)```", page, re.DOTALL)
    results = [shell.run_cell(each) for each in cells]
    assert [each.success for each in results] == [True, True] and shell.user_ns["found"]["warm"].height == 2


def test_help(shell: Any) -> None:
    with capture_output() as captured:
        shell.run_line_magic("pinfo", "%%cep")
    assert "--lateness DURATION" in captured.stdout
