"""Documents of sensors that are read many at a time, beside the reader of single ones: both give the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from cep.connectors.formats import plain_packs as plainpacks
from tests.long import seeds
from tests.sensor_packs import rows

SENML = """event temp(n: string, u: string?, v: float?, vs: string?, vb: bool?, vd: string?)
FORMAT senml."""
VALUES = "event temp(n: string, t: float, value: {}?, unit: string?) TIME t FORMAT senml."
THINGS = """event seen(result: {}?, id: {}?, datastream: {}?, feature: string?, extra: string?)
FORMAT sensorthings."""


def both(
    folder: Path, declaration: str, text: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """What is read of a text, which both ways read alike."""
    monkeypatch.setattr(plainpacks, "LARGE", 1 << 40)
    alone = rows(folder, declaration, text, name)
    monkeypatch.setattr(plainpacks, "LARGE", 0)
    assert rows(folder, declaration, text, name) == alone
    return alone


def value(source: random.Random) -> dict[str, Any]:
    return source.choice(
        [
            {"v": source.choice([0, 1, -3, 2.5, -0.0, 1e300, 12345678901234567890])},
            {"vs": source.choice(["", "a", "\u00b0C \u20ac", 'q"b\\', "x\ny"])},
            {"vb": source.random() < 0.5},
            {"vd": "aGkgCg"},
        ]
    )


def record(source: random.Random, odd: bool) -> dict[str, Any]:
    """A record of SenML; `odd`: it may be unlike what senders give."""
    made: dict[str, Any] = {}
    for label, given in {
        "bn": ["urn:dev:", "x/", ""],
        "bt": [1_712_016_000, 1712016000.25, 1.712016e9, 300_000_000],
        "bu": ["Cel", "%RH"],
        "bver": [5, 10],
        "n": ["a", "b:c", "K1"],
        "u": ["m/s", "V"],
        "t": [0, 7, -2, 0.5, -1.25, 3.0000001],
    }.items():
        if source.random() < (0.15 if label.startswith("b") else 0.6):
            made[label] = source.choice(given)
    if source.random() < 0.9:
        made.update(value(source))
    if odd:
        made.update(
            source.choice(
                [
                    value(source), {"bver": source.choice([11, 0, 10.5, "1"])}, {"bv": 1}, {"s": 2}, {"ut": 5},
                    {"x": 1},
                    {"must_": 1}, {"n": "-a"}, {"n": None}, {"n": 3}, {"v": "1"}, {"t": "2"}, {"bt": None}, {"v": None},
                    {"bn": "\u00e4"}, {"nested": {"n": "a"}}, {"bt": 0}, {"bs": 1}, {"t": 10**12}, {"t": -(10**9)},
                ]
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize("seed", seeds(40))
def test_packs_read_many_at_a_time(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    packs = []
    for _ in range(source.randrange(1, 12)):
        pack = [record(source, source.random() < 0.05) for _ in range(source.randrange(6))]
        if pack and source.random() < 0.9:
            pack[0] = {"bn": "urn:dev:", "bt": source.choice([1_712_016_000, 1712016000.5]), **pack[0]}
        text = json.dumps(pack, ensure_ascii=source.random() < 0.5)
        if source.random() < 0.1:
            text = source.choice(
                [text[:-1], text.replace('"n": ', '"n": "", "n": ', 1), text + " x", "{}", "", "[3]", text * 2]
            )
        packs.append(text)
    both(tmp_path, VALUES.format(source.choice(["float", "string"])), "\n".join(packs) + "\n", "x.json", monkeypatch)
    both(tmp_path, SENML, "\n".join(packs) + "\n", "lines.json", monkeypatch)
    pack = [record(source, False) for _ in range(5)]
    whole = json.dumps([{"bt": 1_712_016_000, "bn": "dev:", **pack[0]}, *pack[1:]], indent=1)
    both(tmp_path, SENML, whole + "\n" + whole, "whole.json", monkeypatch)


def observation(source: random.Random) -> dict[str, Any]:
    link = "https://example.org/v1.1/Datastreams({})"
    made: dict[str, Any] = {"phenomenonTime": "2024-04-02T00:00:00Z", "result": 1}
    for key, given in {
        "@iot.id": [1, 25, "a-b", 'q"', None, True, -3, 1.5],
        "phenomenonTime": ["2024-04-02T00:00:00Z/2024-04-02T01:00:00Z", "x", None, 5, "a/b/c", "2024\u002f1"],
        "resultTime": ["2024-04-02T00:00:00Z", None],
        "result": [1, 2.5, "on", True, {"a": [1, 2]}, None],
        "Datastream@iot.navigationLink": [
            *map(link.format, ["7", "007", "0", "'abc'", "abc", "", "1)(2", "1/2"]),
            "https://example.org/Things(4)/Datastreams(9)/", "Datastreams(3)", "x", 7, None, "https://e/xDatastreams(1)",
        ],
        "FeatureOfInterest@iot.navigationLink": ["https://example.org/FeaturesOfInterest(12)", "https://e/Features(1)"],
        "Datastream": [{"@iot.id": 4}, {"name": "x"}, None, 3],
        "datastream": ["own"],
        "id": [77],
        "extra": ["\u00b0", "a\nb"],
        "parameters": [{"phenomenonTime": "nested", "value": [1]}],
        "dataArray": [[[1]]],
    }.items():  # fmt: skip
        often = 0.002 if key == "dataArray" else 0.8 if "Link" in key else 0.25
        if source.random() < often:
            made[key] = source.choice(given)
    return made if source.random() < 0.98 else source.choice([{}, {"a": 1}])


@pytest.mark.parametrize("seed", seeds(40))
def test_pages_read_many_at_a_time(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(seed)
    declaration = THINGS.format(*(source.choice(["string", "int", "float"]) for _ in range(3)))
    if source.random() < 0.3:
        declaration = declaration.replace("FORMAT", "TIME phenomenonTime FORMAT")
    page: dict[str, Any] = {"@iot.count": 3, "value": [observation(source) for _ in range(source.randrange(30))]}
    if source.random() < 0.5:
        page["@iot.nextLink"] = "https://example.org/next?value=[1]"
    plain = source.random() < 0.5
    text = json.dumps(page, indent=source.choice([1, None]), ensure_ascii=plain)
    if source.random() < 0.2:
        text = source.choice([text[:-1], text.replace('"value"', '"value": [], "value"', 1), "[1]", text + "\n" + text])
    both(tmp_path, declaration, text + "\n", "page.json", monkeypatch)
    one_a_line = "\n".join(json.dumps(each, ensure_ascii=plain) for each in page["value"])
    both(tmp_path, declaration, one_a_line + "\n", "lines.json", monkeypatch)


def test_what_is_plain_needs_no_other_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of single documents is not asked where all is plain."""
    monkeypatch.setattr(plainpacks, "LARGE", 0)
    monkeypatch.setattr("cep.connectors.formats.packs.elements", None)
    base, last = '{"bn":"dev:","bt":1712016000.5,"bu":"Cel","bver":10}', '{"n":"b","u":"V","vs":"\u20ac"}'
    pack = f'[{base},{{"n":"a","t":1,"v":2.5}},{last}]\n'
    found, dead = rows(tmp_path, SENML, pack * 2, "packs.json")
    at = 1_712_016_000_500_000
    first = (at + 1_000_000, at + 1_000_000, "dev:a", "Cel", 2.5, None, None, None)
    second = (at, at, "dev:b", "V", None, "\u20ac", None, None)
    assert sorted(found) == sorted([first, second] * 2) and not dead
    page = {"value": [{"phenomenonTime": "2024-04-02T00:00:00Z/2024-04-02T01:00:00Z", "result": 1, "@iot.id": 5}]}
    ((start, end, *values),), dead = rows(
        tmp_path, THINGS.format("int", "int", "int"), json.dumps(page, indent=1), "page.json"
    )
    assert end - start == 3_600_000_000 and values[:2] == [1, 5] and not dead
