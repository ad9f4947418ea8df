"""Matchers over labels, as people and programs write them for Alertmanager; and the labels of an alert."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep.connectors.alerts.labels import alert_labels
from cep.connectors.alerts.matchers import OPERATORS, Matcher, Matchers, Operator
from cep.core.errors import CepError
from tests.alert_server import expected

LABELS = {"alertname": "flood", "severity": "severe", "site": "north 1", "team": "water"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ('severity="Severe"', True),
        ('severity="severe"', True),
        ('severity=~"Sev.*"', True),
        ("severity=Minor", False),
        ('severity!="Severe"', False),
        ('{alertname="flood",site=~"north.*"}', True),
        ('{ alertname = "flood" , site =~ "north" }', False),
        ("alertname=flood, team!=fire,", True),
        ("site=north 1", True),
        ('team=~"water|fire"', True),
        ('team!~"water|fire"', False),
        ('missing=""', True),
        ('missing!=""', False),
        ('missing!~".+"', True),
        ('alertname="Flood"', False),
        ('"site"="north 1"', True),
        ("team=", False),
        ("{}", True),
        ("", True),
    ],
)
def test_matchers_are_read_and_match(text: str, matches: bool) -> None:
    found = Matchers.parse(text)
    assert found.matches(LABELS) is matches
    assert Matchers.parse(str(found)) == found, "the text form is read back"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("severity", "`severity` is not followed by an operator", 'name="value"'),
        ('{severity="x"', "a brace is not closed or not opened", 'name="value"'),
        ('severity="x" team="y"', 'a comma is missing before `team="y"`', "a comma between two"),
        ('="x"', "the name of a label is missing at", 'name="value"'),
        ('a="x"y"', "a comma is missing before", "a comma between two"),
        ('a={"', "a value is missing at", 'name="value"'),
        ('a=~"("', "`(` is not a regular expression", "RE2"),
        (r'a=~"(x)\1"', "is not a regular expression", "no look-around and no back-references"),
        ('a=~"' + "(" * 900 + "x" + ")" * 900 + '"', "characters", "at most 1,000"),
        ('a=~"((a{100}){100}){100}"', "is not a regular expression", "RE2"),
        (",".join(f'a{number}="x"' for number in range(101)), "there are 101 matchers", "at most 100"),
    ],
)
def test_mistakes_are_said_with_what_to_write(text: str, message: str, hint: str) -> None:
    with pytest.raises(CepError) as caught:
        Matchers.parse(text)
    assert message in caught.value.message and hint in (caught.value.hint or ""), caught.value


def test_a_severity_that_does_not_exist_is_doubted() -> None:
    assert "did you mean `Severe`" in Matchers.parse("severity=sever").doubt
    assert not Matchers.parse('severity=~"Sev.*",team="x"').doubt


def test_those_that_ask_for_nothing_match_all() -> None:
    for text, match_all in (("", True), ('a=""', True), ('a!="x"', True), ('a=~".*"', True), ('a=~".+"', False)):
        assert Matchers.parse(text).match_all is match_all, text


def test_an_expression_that_explodes_elsewhere_takes_linear_time() -> None:
    found = Matchers.parse('a=~"(a+)+b"')
    began = time.process_time()
    assert not found.matches({"a": "a" * 100_000})
    assert time.process_time() - began < 5, "backtracking would not end"


def test_random_matchers_are_those_of_an_oracle() -> None:
    rng = Random(36)
    values = ["", "a", "ab", "b", "a b", 'q"q', "back\\slash", "line\nend", "ä", "a,b", "{a}"]
    patterns = ["a.*", "a|b", ".*", ".+", "[ab]+", "", "ä", "(a)(b)?"]
    for _ in range(2_000):
        labels = {name: rng.choice(values) for name in "xyz" if rng.random() < 0.7}
        made = []
        for _ in range(rng.randint(0, 4)):
            operator = rng.choice(OPERATORS)
            made.append(Matcher(rng.choice("xyz"), operator, rng.choice(patterns if "~" in operator else values)))

        def holds(one: Matcher, labels: dict[str, str] = labels) -> bool:
            value = labels.get(one.name, "")
            same = value == one.value if "~" not in one.operator else re.fullmatch(one.value, value, re.S) is not None
            return same is not one.operator.startswith("!")

        matchers = Matchers.of(made)
        assert matchers.matches(labels) is all(map(holds, made)), (made, labels)
        assert Matchers.parse(str(matchers)) == matchers


_TEXT = st.text(st.one_of(st.sampled_from('\\"\n{},=!~ ab'), st.characters(exclude_categories=["Cs"])), max_size=20)


@given(_TEXT.filter(bool), st.sampled_from(["=", "!="]), _TEXT)
@settings(max_examples=1_000, deadline=None)
def test_any_name_and_value_is_read_back(name: str, operator: Operator, value: str) -> None:
    matcher = Matcher(name, operator, value)
    assert Matchers.parse(str(matcher)) == Matchers((matcher,)) == Matchers.parse(str(Matchers((matcher,))))


def test_labels_of_an_alert_keep_apart_what_has_one_name() -> None:
    change = replace(expected()[0], key={"s": "kewr", "severity": 3, "2x": 1, "a-b": "y"}, labels={"team": "water"})
    assert alert_labels(change, "storm.cep", "Test") == {
        "alertname": change.name,
        "severity": change.severity.lower(),
        "program": "storm.cep",
        "status": "test",
        "team": "water",
        "s": "kewr",
        "key_severity": "3",
        "key_2x": "1",
        "a_b": "y",
    }
