"""SenML: the examples of its standard, random packs against a plain reading, and what is wrong."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read, replay
from cep.connectors.inputs import Input
from cep.connectors.records.times import of_iso
from cep.core.errors import CepError
from cep.engine import Engine
from tests.long import examples
from tests.sensor_packs import SECOND, everything, rows, schemas

SENML = "event temp(n: string, u: string?, v: float?, vs: string?, vb: bool?, vd: string?) FORMAT senml."
NOW = SENML.replace("senml.", 'senml(now: "2010-06-08T18:01:16Z").')
AT = of_iso("2010-06-08T18:01:16Z")

HUMIDITY = """[
 {"bn":"urn:dev:ow:10e2073a01080063","bt":1.320067464e+09,
  "bu":"%RH","v":20},
 {"u":"lon","v":24.30621},
 {"u":"lat","v":60.07965},
 {"t":60,"v":20.3},
 {"u":"lon","t":60,"v":24.30622},
 {"u":"%EL","t":150,"v":98},
 {"t":180,"v":21.2}
]"""
RESOLVED = """[
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067464e+09,"v":20},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lon","t":1.320067464e+09,"v":24.30621},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lat","t":1.320067464e+09,"v":60.07965},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067524e+09,"v":20.3},
 {"n":"urn:dev:ow:10e2073a01080063","u":"lon","t":1.320067524e+09,"v":24.30622},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%EL","t":1.320067614e+09,"v":98},
 {"n":"urn:dev:ow:10e2073a01080063","u":"%RH","t":1.320067644e+09,"v":21.2}
]"""


def test_senml_single_datapoint(tmp_path: Path) -> None:
    pack = '[{"n":"urn:dev:ow:10e2073a01080063","u":"Cel","v":23.1}]'
    found, dead = rows(tmp_path, NOW, pack)
    assert found == [(AT, AT, "urn:dev:ow:10e2073a01080063", "Cel", 23.1, None, None, None)] and not dead
    found, ((line, reason),) = rows(tmp_path, SENML, pack)
    assert not found and line == 1
    assert reason.startswith("the time is now, and the time of arrival is not used: add a base time `bt` to the pack")


def test_senml_multiple_datapoints(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a0108006:","bt":1.276020076001e+09,
      "bu":"A","bver":5,
      "n":"voltage","u":"V","v":120.1},
     {"n":"current","t":-5,"v":1.2},
     {"n":"current","t":-4,"v":1.3},
     {"n":"current","v":1.7}
    ]"""
    found, dead = rows(tmp_path, SENML, pack)
    at = AT + 1000
    assert not dead
    assert [(start, n.rpartition(":")[2], u, v) for start, _, n, u, v, *_ in found] == [
        (at, "voltage", "V", 120.1),
        (at - 5 * SECOND, "current", "A", 1.2),
        (at - 4 * SECOND, "current", "A", 1.3),
        (at, "current", "A", 1.7),
    ]
    pack = '[{"bn":"urn:dev:ow:1:","n":"voltage","u":"V","v":120.1},{"n":"current","u":"A","t":-5,"v":1.2}]'
    found, _ = rows(tmp_path, NOW, pack)
    assert [row[0] for row in found] == [AT, AT - 5 * SECOND]


def test_senml_a_pack_means_what_its_resolved_form_means(tmp_path: Path) -> None:
    packed, dead = rows(tmp_path, SENML, HUMIDITY)
    assert packed == rows(tmp_path, SENML, RESOLVED)[0] and len(packed) == 7 and not dead
    assert packed == rows(tmp_path, SENML.replace(" FORMAT senml", ""), HUMIDITY, "data.senml")[0]
    assert packed == rows(tmp_path, SENML.replace(" FORMAT senml", " TIME t"), HUMIDITY, "x", "senml")[0]


def test_senml_values_of_several_types_and_resources(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a01080063:","n":"temp","u":"Cel","v":23.1},
     {"n":"label","vs":"Machine Room"},
     {"n":"open","vb":false},
     {"n":"nfc-reader","vd":"aGkgCg"}
    ]"""
    found, dead = rows(tmp_path, NOW, pack)
    assert not dead
    assert [row[4:] for row in found] == [
        (23.1, None, None, None),
        (None, "Machine Room", None, None),
        (None, None, False, None),
        (None, None, None, "aGkgCg"),
    ]
    pack = """[
     {"bn":"2001:db8::2/","bt":1.320078429e+09,"n":"temperature","u":"Cel","v":25.2},
     {"n":"humidity","u":"%RH","v":30},
     {"bn":"2001:db8::1/","n":"temperature","u":"Cel","v":12.3},
     {"n":"humidity","u":"%RH","v":67}
    ]"""
    found, _ = rows(tmp_path, SENML, pack)
    assert [row[2] for row in found] == [
        f"2001:db8::{n}/{what}" for n in (2, 1) for what in ("temperature", "humidity")
    ]
    assert {row[0] for row in found} == {1_320_078_429 * SECOND}


def test_senml_a_record_may_only_say_what_holds_for_others(tmp_path: Path) -> None:
    pack = """[
     {"bn":"urn:dev:ow:10e2073a01080063:"},
     {"n":"temp","u":"Cel","v":23.1},
     {"n":"heat","u":"/","v":1},
     {"n":"fan","u":"/","v":0}
    ]"""
    found, dead = rows(tmp_path, NOW, pack)
    assert [(row[2].rpartition(":")[2], row[4]) for row in found] == [("temp", 23.1), ("heat", 1.0), ("fan", 0.0)]
    assert not dead


def test_senml_long_names_sums_and_base_values(tmp_path: Path) -> None:
    declaration = "event meter(name: string, value: float, total: float? FROM sum, unit: string?) FORMAT senml."
    pack = '[{"bn":"m/","bt":1320078429,"bv":0.1,"bs":100,"bu":"J","n":"1","v":0.2,"s":5},{"n":"2","t":0.5,"s":6}]'
    found, dead = rows(tmp_path, declaration, pack)
    at = 1_320_078_429 * SECOND
    assert not dead
    assert found == [(at, at, "m/1", 0.3, 105.0, "J"), (at + 500_000, at + 500_000, "m/2", 0.1, 106.0, "J")]
    pack = '[{"n":"a","t":1320078429,"vs":"x"},{"n":"a","t":1320078429,"vs":"y"}]'
    found, _ = rows(tmp_path, "event word(name: string, value: string) FORMAT senml.", pack)
    assert [row[2:] for row in found] == [("a", "x"), ("a", "y")]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ('{"n":"a","v":"1"}', "`v` has to be a number, but it is a string"),
        ('{"n":"a","vb":1}', "`vb` has to be a boolean, but it is a number"),
        ('{"n":"a","v":1,"vs":"x"}', "a record has one value, but this one has `v` and `vs`"),
        ('{"n":"a"}', "the record has no value: it needs one of `v`, `vs`, `vb`, `vd`, or the sum `s`"),
        ('{"v":1}', "the record has no name: it needs `n`, or `bn` in a record before it"),
        ('{"n":"a b","v":1}', "`a b` is not a name: letters, digits and `-:./_`, the first a letter or a digit"),
        ("[1]", "a record of SenML is a JSON object, but this is a list"),
        ('{"n":"a","v":1,"t":1e99}', "`t`: `1e99` is too large to be added"),
        ('{"n":"a","v":1e999}', "v: `1e999` is too large for a float"),
    ],
)
def test_senml_a_record_that_is_wrong_does_not_harm_others(tmp_path: Path, record: str, reason: str) -> None:
    pack = f'[\n{{"bt":1320078429}},\n{{"n":"x","v":1}},\n{record},\n{{"n":"y","v":2}}\n]'
    found, dead = rows(tmp_path, SENML, pack)
    assert [row[2] for row in found] == ["x", "y"]
    assert dead == [(4, reason)]


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        ('[{"bn":1,"n":"a","v":1}]', "the pack cannot be used: `bn` has to be a string, but it is a number"),
        ('[{"bt":"x","n":"a","v":1}]', "the pack cannot be used: `bt` has to be a number, but it is a string"),
        ('[{"bver":11,"n":"a","v":1}]', "the pack cannot be used: it has version 11 of SenML, but 10 is the latest"),
        ('[{"bver":0,"n":"a","v":1}]', "the pack cannot be used: the version `bver` is not a positive integer"),
        ('[{"n":"a","v":1},{"n":"b","v":1,"x_":1}]', "the pack cannot be used: the field `x_` must be understood"),
        ('[{"n":"a","n":"b","v":1}]', "the key `n` appears twice"),
        ('[{"n":"a","v":1}', "bad JSON at character 17: expecting ',' or ']'"),
        ('[{"n":"a","v":NaN}]', "`v` has to be a number, but it is null"),
        ('[{"n":"a","v":1}] x', "bad JSON at character 19: extra data"),
        ("7", "a document is a list of records or an object, but this is a number"),
    ],
)
def test_senml_a_pack_that_is_wrong_does_not_harm_others(tmp_path: Path, pack: str, reason: str) -> None:
    good = '[{"n":"good","t":1320078429,"v":1}]'
    found, dead = rows(tmp_path, SENML, f"{good}\n\n{pack}\n{good}\n")
    assert len(found) == 2
    ((line, why),) = dead
    assert line == 3 and why.startswith(reason)


def test_senml_a_dead_letter_holds_the_record_alone(tmp_path: Path) -> None:
    (tmp_path / "a.senml").write_text('[\n {"n":"a","vs":"äöü€𝄞","t":1320078429},\n {"n":"é","v":1}\n]\n')
    batches = list(read([str(tmp_path / "a.senml")], schemas(SENML)))
    ((dead,), (batch,)) = everything(batches)[1], batches
    assert (dead.line, dead.text) == (3, '{"n":"é","v":1}')
    assert batch.origin("temp", 0)[1:] == (2, '{"n":"a","vs":"äöü€𝄞","t":1320078429}')
    (replayed,) = replay([str(tmp_path / "a.senml")], schemas(SENML))
    assert replayed.origin("temp", 0)[1:] == (2, '{"n":"a","vs":"äöü€𝄞","t":1320078429}')


def test_senml_text_that_is_no_utf8(tmp_path: Path) -> None:
    good = b'[{"n":"a","vs":"\xc3\xa4","t":1320078429}]\n'
    (tmp_path / "a.senml").write_bytes(good + b'[{"n":"a","vs":"\xe4","t":1320078429}]\n' + good)
    tables, dead = everything(list(read([str(tmp_path / "a.senml")], schemas(SENML))))
    assert tables["temp"].height == 2
    assert [(one.line, one.code) for one in dead] == [(2, "utf-8")]


def test_senml_packs_one_after_the_other_and_in_small_pieces(tmp_path: Path) -> None:
    lines = "\n".join(f'[{{"bn":"d{i}","bt":{1_320_000_000 + i},"v":{i}}},{{"t":1,"v":0}}]' for i in range(200))
    (tmp_path / "a.senml").write_text(lines + "\n" + HUMIDITY.replace("\n", " "))
    (tmp_path / "b.senml").write_text(HUMIDITY + "\n" + HUMIDITY)
    for name, count in (("a.senml", 407), ("b.senml", 14)):
        for chunk in (1 << 24, 300):
            tables, dead = everything(list(read([str(tmp_path / name)], schemas(SENML), chunk=chunk)))
            assert tables["temp"].height == count and not dead
            assert tables["temp"]["@order"].to_list() == list(range(count))


def test_senml_an_event_asks_for_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(CepError, match="temp: a record of SenML has no `heat`") as refused:
        list(read([str(tmp_path / "a.json")], schemas("event temp(n: string, heat: float) FORMAT senml.")))
    assert refused.value.hint is not None and "value: float FROM v" in refused.value.hint
    engine = Engine.from_text("f(X) <- temp(X).")
    with pytest.raises(CepError, match="temp is not declared, so it is not known which fields of senml are its values"):
        list(read([str(tmp_path / "a.json")], {"temp": engine.plan.schemas["temp"]}, format="senml"))


numbers = st.one_of(
    st.integers(-(10**9), 10**9), st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=3)
)


@examples(60)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"n": st.sampled_from(["", "a", "b/c"])},
            optional={
                "bn": st.sampled_from(["dev:", "x"]),
                "bt": st.integers(10**9, 2 * 10**9),
                "bu": st.sampled_from(["Cel", "V"]),
                "bv": numbers,
                "u": st.sampled_from(["A", "%RH"]),
                "t": numbers.map(lambda n: n if abs(n) < 10**6 else 1),
                "v": numbers,
                "vs": st.text(max_size=3),
            },
        ),
        max_size=6,
    )
)
def test_senml_random_packs_against_a_plain_reading(pack: list[dict[str, Any]]) -> None:
    base: dict[str, Any] = {}
    wanted, wrong = [], 0
    for one in pack:
        base |= {key: value for key, value in one.items() if key.startswith("b")}
        own = {key: value for key, value in one.items() if not key.startswith("b")}
        name, time = base.get("bn", "") + own["n"], base.get("bt", 0) + own.get("t", 0)
        values = [own[key] for key in ("v", "vs") if key in own] or ([0] if "bv" in base else [])
        if len(values) != 1 or not name or time < 2**28:
            wrong += 1
            continue
        value = values[0] if isinstance(values[0], str) else None
        number = None if value is not None else float(Decimal(values[0]) + Decimal(base.get("bv", 0)))
        wanted.append((int(time * SECOND), name, own.get("u", base.get("bu")), number, value))
    payload = json.dumps([{k: _json(v) for k, v in one.items()} for one in pack]).encode()
    payload = re.sub(rb'"@([^"]*)@"', rb"\1", payload)
    inbox = Inbox(Input("kafka://h/t", "senml", "temp", True), schemas(SENML))
    batch = inbox.batch(Messages(["t"], [7], [payload]), 0)
    table = batch.tables.get("temp")
    found = [] if table is None else table.select("start", "n", "u", "v", "vs").rows()
    assert found == wanted and len(batch.dead) == wrong
    assert all(one.line == 7 for one in batch.dead)


def _json(value: Any) -> Any:
    return f"@{value}@" if isinstance(value, Decimal) else value
