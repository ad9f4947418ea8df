"""The charts of the benchmarks show the figures of the document, and are those that the script draws."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.__main__ import publish
from benchmarks.charts import PICTURES, RESULTS, WORKLOADS, charts
from benchmarks.table import Line

DOCUMENT = PICTURES.parent / "benchmarks.md"
PAIR = r"([\d.]+) \| +([\d.]+)"
ROW = re.compile(rf"^\| ([^|]+?) \| +{PAIR} \| +{PAIR} \|$", re.MULTILINE)


def test_the_pictures_are_drawn_from_the_results() -> None:
    for name, text in charts(json.loads(RESULTS.read_text())).items():
        assert (PICTURES / name).read_text() == text, f"{name}: do `python -m benchmarks.charts`"
        assert f"pictures/{name}" in DOCUMENT.read_text()
        ElementTree.fromstring(text)


def test_the_table_of_the_document_says_the_same() -> None:
    lines = json.loads(RESULTS.read_text())["engine"]["lines"]
    table = re.split(r"^\| workload .*\n", DOCUMENT.read_text(), flags=re.MULTILINE)[1].split("\n\n")[0]
    rows = ROW.findall(table)
    assert len(rows) == len(WORKLOADS) == len(lines) / 2
    said = [(round(float(rate) * 1e6), float(times)) for row in rows for rate, times in (row[1:3], row[3:5])]
    held = {name: [(line["value"], line["ratio"]) for line in lines if line["workload"] == name] for name in WORKLOADS}
    assert sorted(said) == sorted((round(value, -5), round(ratio, 1)) for of in held.values() for value, ratio in of)


def test_a_new_run_takes_the_place_of_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results, page = tmp_path / "results.json", tmp_path / "benchmarks.md"
    results.write_text(RESULTS.read_text())
    page.write_text(DOCUMENT.read_text())
    monkeypatch.setattr("benchmarks.charts.RESULTS", results)
    monkeypatch.setattr("benchmarks.charts.PICTURES", tmp_path)
    monkeypatch.setattr("benchmarks.report.PAGE", page)
    sizes = [
        Line("seq3", 5e6, events=2_000_000, keys=100, loop=1.25e6),
        Line("seq3", 6e6, events=20_000, keys=100, loop=1e6),
        Line("seq3", 4e6, events=2_000_000, keys=100_000, loop=1e6),
        Line("rules by type", 5e6, events=1_000_000, keys=100, loop=1e6),
        Line("fluent", 3e6, events=2_000_000, keys=100, loop=1e6),
    ]
    publish(sizes, "today, <here>")
    drawn = (tmp_path / "benchmarks-engine.svg").read_text()
    assert "today, &lt;here&gt;" in drawn and "5.0 M, 4.0 times" in drawn and "a SEQ b SEQ c" in drawn
    assert "a AND b" not in drawn
    text = page.read_text()
    assert "| a SEQ b SEQ c | 5.0 | 4.0 | 4.0 | 4.0 |" in text and "| fluent | 3.0 | 3.0 |  |  |" in text
    assert "| rules by type | 1M | 100 | 5M |" in text and "today, <here>" in text
    assert text.count("\n#") == DOCUMENT.read_text().count("\n#")
