"""What a beginner writes wrongly is told with what to write instead: of times, booleans, windows, misplaced columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cep.connectors.files import read
from cep.connectors.records.times import of_text
from cep.core.errors import CepError
from cep.core.schema import TimeFormat
from cep.engine import Engine

DECLARED = "event a(d: int, o: bool).\n"


@pytest.mark.parametrize(
    ("rule", "hint"),
    [
        ("x(D) <- a(D, O) WHERE O.", "`O = true`"),
        ("x(D) <- a(D, O) WHERE D > 1, not O.", "`O = false`"),
        ("x(D, A) <- a(D, O) AGGREGATE A = count() OVER EACH 10 min GROUP BY D.", "`OVER EACH 1 h BY ID`"),
        ("x(D) <- a(D, O) EACH 10 min.", "`smoke(R, T) AGGREGATE M = avg(T) OVER EACH 1 h BY R`"),
        ("x(D) <- a(D, O) WHERE D > 1 SESSION 10 min.", "AGGREGATE M = avg(T)"),
        ("x(D) <- a(D, O) WHERE hour(time()) > 2.", "the time of an event is `start()` or `end()`"),
    ],
)
def test_rules(rule: str, hint: str) -> None:
    with pytest.raises(CepError) as caught:
        Engine.from_text(DECLARED + rule)
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "pattern", "meant"),
    [
        ("30/03/2024 22:00", "%m/%d/%Y %H:%M", '`FORMAT "%d/%m/%Y %H:%M"`'),
        ("30.03.24 22:00", "%d.%m.%Y %H:%M", '`FORMAT "%d.%m.%y %H:%M"`'),
        ("30.03.2024 22:00:05", "%d.%m.%Y %H:%M", '`FORMAT "%d.%m.%Y %H:%M:%S"`'),
        ("30.03.2024 22:00", "%d.%m.%Y %H:%M:%S", '`FORMAT "%d.%m.%Y %H:%M"`'),
        ("30.03.2024", "%d/%m/%Y", '`FORMAT "%d.%m.%Y"`'),
        ("1711836000000", "%Y-%m-%d", "`FORMAT epoch ms`"),
        ("2024-03-30T22:00:00Z", "%d.%m.%Y", "it is ISO 8601, which is read without a FORMAT"),
    ],
)
def test_times_by_another_pattern(text: str, pattern: str, meant: str) -> None:
    with pytest.raises(ValueError, match="is not written") as caught:
        of_text(text, TimeFormat(pattern))
    assert str(caught.value).endswith(meant)


def reasons(folder: Path, declaration: str, record: dict[str, object]) -> list[str]:
    schemas = Engine.from_text(f"{declaration}\nx(V) <- a(V).").plan.schemas
    (folder / "a.jsonl").write_text(json.dumps(record) + "\n")
    (batch,) = read([f"a={folder / 'a.jsonl'}"], {"a": schemas["a"]})
    return [dead.reason for dead in batch.dead]


def test_a_time_elsewhere(tmp_path: Path) -> None:
    record: dict[str, object] = {"meta": {"sentAt": "2024-03-30T22:00:00+01:00"}, "v": 1}
    (reason,) = reasons(tmp_path, "event a(v: int) TIME ts.", record)
    assert reason == 'no time: `ts` is missing; `meta.sentAt` looks like the time: `TIME "meta.sentAt"`'
    (reason,) = reasons(tmp_path, "event a(v: int) TIME ts.", record | {"ts": None})
    assert reason == "no time: `ts` is missing"
    (reason,) = reasons(tmp_path, "event a(v: int) TIME ts.", {"at": 1714554000123, "v": 1})
    assert reason.endswith("`at` looks like the time: `TIME at FORMAT epoch ms`")


def test_a_float_where_an_int_is_declared(tmp_path: Path) -> None:
    (reason,) = reasons(tmp_path, "event a(v: int) TIME ts.", {"ts": 1, "v": -0.6})
    assert reason == "v: expected int, found `-0.6`; declare numbers with decimals as float"
