"""The text format of Prometheus, also as OpenMetrics writes it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read
from cep.connectors.formats.prometheus import as_points
from cep.connectors.inputs import inputs
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from tests.cli_runs import cep

REQUESTS = "event http_requests_total(method: string, code: int, value: float?) FORMAT prometheus."
OTHER = 'event other(path: string?, value: float?, name: string FROM measurement) FORMAT prometheus(metric: "a:b").'
SECOND = 1_000_000


def schemas(*declarations: str) -> dict[str, Schema]:
    rules = [f"x{n} <- {text.split('(')[0].split()[1]}." for n, text in enumerate(declarations)]
    names = [text.split("(")[0].split()[1] for text in declarations]
    counts = [text.split("(", 1)[1].split(") FORMAT")[0].count(":") for text in declarations]
    rules = [f"x{n} <- {name}({', '.join('_' * count)})." for n, (name, count) in enumerate(zip(names, counts))]
    return Engine.from_text("\n".join([*declarations, *rules])).inputs


def rows(folder: Path, text: str, *declarations: str) -> tuple[dict[str, list[Any]], list[tuple[int, str]], int]:
    """By event the times and values of its rows; dead letters with their lines; how many samples were of no event."""
    (folder / "a.prom").write_text(text)
    found: dict[str, list[Any]] = {}
    dead, unmatched = [], 0
    for batch in read([str(folder / "a.prom")], schemas(*declarations)):
        for name, table in batch.tables.items():
            found.setdefault(name, []).extend(table.drop("end", "@order").rows())
            for row in range(table.height):
                assert batch.origin(name, row)[2] in text.split("\n")
        dead += [(one.line, one.reason) for one in batch.dead]
        unmatched += batch.unmatched
    return found, dead, unmatched


def test_samples_are_events_of_their_metric(tmp_path: Path) -> None:
    text = r"""# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
 http_requests_total { method = "post" , code="400", }  3   1395066363500

a:b{path="C:\\DIR\\",problem="x}\"\n,= "} +Inf 1395066364000
a:b 1.5e+02 1395066365.25 # {trace_id="x"} 0.5 1
up{job="node"} 1 1395066365000
http_requests_total{method="get",code="200"} NaN -1000
# EOF
"""
    found, dead, unmatched = rows(tmp_path, text, REQUESTS, OTHER)
    assert found == {
        "http_requests_total": [
            (1395066363 * SECOND, "post", 200, 1027.0),
            (1395066363 * SECOND + SECOND // 2, "post", 400, 3.0),
            (-1000 * SECOND, "get", 200, None),
        ],
        "other": [
            (1395066364 * SECOND, "C:\\DIR\\", None, "a:b"),
            (1395066365 * SECOND + SECOND // 4, None, 150.0, "a:b"),
        ],
    }
    assert not dead and unmatched == 1


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('http_requests_total{method="get" 5', "this is not a sample: a line is `metric{"),
        ("http_requests_total", "this is not a sample"),
        ('http_requests_total{method="get"} five 1', "the value `five` is not a number"),
        ('http_requests_total{method="get"} 5 soon', "`soon` is not a timestamp"),
        ('http_requests_total{method="get",method="put"} 5 1', "the label `method` appears twice"),
        ("http_requests_total{method} 5 1", "the label `method` has no value"),
        ('http_requests_total{"method"} 5 1', "the label `method` has no value"),
        ('{method="get"} 5 1', "the sample has no metric"),
        ('http_requests_total{method="get",code="200"} 5', "the sample has no timestamp: read `/federate`"),
        ('http_requests_total{method="get",code="x"} 5 1', "code: expected int, found `x`"),
    ],
)
def test_what_is_no_sample_says_why(line: str, reason: str, tmp_path: Path) -> None:
    good = 'http_requests_total{method="get",code="200"} 5 1395066363000'
    found, dead, _ = rows(tmp_path, f"{good}\n\n{line}\n{good}\n", REQUESTS)
    assert len(found["http_requests_total"]) == 2
    ((number, why),) = dead
    assert number == 3 and why.startswith(reason), why


def test_names_in_quotes_and_labels_called_as_the_value(tmp_path: Path) -> None:
    declared = (
        'event requests(code: int FROM "status.code", own: string FROM exported_value, value: float) '
        'FORMAT prometheus(metric: "http.requests").'
    )
    text = '{"http.requests","status.code"="5",value="v"} 7 1395066366000'
    found, dead, _ = rows(tmp_path, text, declared)
    assert found == {"requests": [(1395066366 * SECOND, 5, "v", 7.0)]} and not dead


def test_an_input_that_is_bound_takes_all_metrics(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(gzip.compress(b'up{job="a"} 1 1395066366000\ndown 0 1395066366001\n'))
    known = schemas("event sample(metric: string FROM measurement, job: string?, value: float) FORMAT prometheus.")
    found = [
        row
        for batch in read([f"sample={tmp_path / 'a.txt'}"], known, format="prometheus")
        for row in batch.tables["sample"].select("metric", "job", "value").rows()
    ]
    assert found == [("up", "a", 1.0), ("down", None, 0.0)]


def test_messages_hold_many_samples() -> None:
    known = schemas("event up(job: string, site: string FROM topic[0], value: float) FORMAT prometheus.")
    (one,) = inputs(["mqtt://h/#"], known)
    payloads = [b'# x\nup{job="a"} 1 1000\nup{job="b"} 0 1000', b"", b'up{ 1 1\nup{job="c"} 1 1000\ndown 1 1']
    topics = ["x/t", "y/t", "z/t"]
    batch = Inbox(one, known).batch(Messages(topics, [1, 2, 3], payloads, topics=topics), 10)
    assert batch.tables["up"].select("job", "site").rows() == [("a", "x"), ("b", "x"), ("c", "z")]
    assert [(dead.line, dead.text) for dead in batch.dead] == [(3, "up{ 1 1")] and batch.unmatched == 1


def test_any_text_is_a_sample_or_says_why_not() -> None:
    rng = Random(7)
    for _ in range(3000):
        line = "".join(rng.choice('a{}"=\\,# \t1.+eé\0\r') for _ in range(rng.randrange(14)))
        points, reasons = as_points(line.encode())
        assert points.count(b"\n") == 0 and (points != b"!") == (not reasons)


def test_infer_declares_metrics(tmp_path: Path) -> None:
    text = (
        'up{job="a"} 1 1395066366000\nup{job="b"} 0 1395066366000\n{"a.b"} NaN 1395066366000\n{"a.b"} 2 1395066367000\n'
    )
    (tmp_path / "scrape.txt").write_text(text)
    printed = cep("infer", str(tmp_path / "scrape.txt")).stdout
    assert "event up(" in printed and "FORMAT prometheus." in printed and 'FORMAT prometheus(metric: "a.b")' in printed
    (tmp_path / "p.cep").write_text(f"{printed}x(J, V) <- up(J, V).\n")
    made = cep("run", str(tmp_path / "p.cep"), "--input", str(tmp_path / "scrape.txt"))
    assert [json.loads(line)["j"] for line in made.stdout.splitlines() if '"x"' in line] == ["a", "b"], made.stderr


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ('FORMAT prometheus(metric: "")', "the name of the metric is empty"),
        ('FORMAT prometheus(measurement: "x")', "the options of prometheus are `metric`"),
    ],
)
def test_options_are_checked(declaration: str, message: str) -> None:
    with pytest.raises(CepError, match=message):
        Engine.from_text(f"event a(value: float) {declaration}.\nx(V) <- a(V).")
