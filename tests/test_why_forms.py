"""The triples that a rule rests on are shown in whatever form their literals were written."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from tests.long import some

PREFIXES = "@prefix : <urn:x:> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
RULES = "PREFIX : <urn:x:>\nevent r(s: string) TIME time.\nfound(S{0}) <- r(S) WHERE {1}.\n"
FORMS = [
    *("4", "4.0", "04.50", "4e0", "+4", "-0.0", "0.0000001", "1.23456789012345678901", "true", '"1"^^xsd:boolean'),
    *('"4"^^xsd:double', '"4.00"^^xsd:float', '"0.1"^^xsd:float', '"4"^^xsd:int', '"04"^^xsd:byte'),
    *('"-0"^^xsd:unsignedInt', '"12345678901234567890"^^xsd:integer', '"9007199254740993"'),
    *('"2013-02-08"^^xsd:date', '"2013-02-08T18:00:00"^^xsd:dateTime', '"2013-02-08T24:00:00.000Z"^^xsd:dateTime'),
    *('"2013-02-08T18:00:00.10+01:00"^^xsd:dateTimeStamp', '"PT90M"^^xsd:duration', '"P1DT24H"^^xsd:dayTimeDuration'),
    *('"P1M"^^xsd:duration', '"warm"', '"warm"@EN', '"w\\n\\"x"', '"4"^^<urn:own>', ":b", "_:b", "<urn:y:%20>"),
]


def explained(folder: Path, rules: str, turtle: str, *options: str) -> str:
    (folder / "p.cep").write_text(rules)
    (folder / "k.ttl").write_text(PREFIXES + turtle)
    (folder / "r.csv").write_text("time,s\n1,A\n")
    with chdir(folder):
        files = ["--input", "r=r.csv", "--knowledge", "k.ttl"]
        result = CliRunner().invoke(app, ["explain", "p.cep", "found(A)", *files, *options])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("form", some(FORMS))
@pytest.mark.parametrize(
    ("attributes", "conditions"),
    [
        (", W", "{ ?X :name ?S ; :warn ?W }"),
        ("", "{ ?X :name ?S ; :warn ?w }"),
        (", W", "{ ?X :name ?S OPTIONAL { ?X :warn ?W } }"),
        (", W", "{ ?X :name ?S }, triple(X, :warn, W)"),
        (", W", "triple(X, P, S), triple(X, :warn, W)"),
    ],
)
def test_the_triple_of_an_answer_is_told_whatever_its_form(
    tmp_path: Path, form: str, attributes: str, conditions: str
) -> None:
    turtle = f':x :name "A" ; :warn {form} .\n:y :name "B" ; :warn 4, 4.0, 4.5, "4", true, "warm", :c .'
    rules = RULES.format(attributes, conditions)
    (tree,) = json.loads(explained(tmp_path, rules, turtle, "--format", "json"))
    triples = [fact["steps"][0]["triple"] for each in tree["conditions"] for fact in each.get("triples", ())]
    of_x = [(verb, thing) for subject, verb, thing in triples if subject == "<urn:x:x>"]
    assert [verb for verb, _ in of_x] == ["<urn:x:name>", "<urn:x:warn>"], triples
    bare = form.strip('"').split('"')[0].removeprefix(":").removeprefix("_:")
    assert bare in of_x[1][1] or form == "_:b"


def test_it_is_that_of_the_answer_and_no_other(tmp_path: Path) -> None:
    turtle = ':x :name "A" ; :warn 3.0, 4.0, "4.5"^^xsd:float, "5"^^xsd:int .'
    for value, form in (("3.0", "3.0"), ("4", "4.0"), ("4.5", '"4.5"^^xsd:float'), ("5", '"5"^^xsd:int')):
        text = explained(tmp_path, RULES.format("", f"{{ ?X :name ?S ; :warn ?W }}, W = {value}"), turtle)
        assert [line.strip() for line in text.splitlines() if ":warn" in line][-1] == f":x :warn {form}"


def test_a_constant_in_a_pattern_is_found_in_its_form(tmp_path: Path) -> None:
    turtle = ':x :name "A" ; :warn 4.00 . :y :name "A" ; :warn 4.50 .'
    text = explained(tmp_path, RULES.format("", "{ ?X :name ?S ; :warn 4.0 FILTER(?S != '') }"), turtle)
    assert ":x :warn 4.00" in text and ":y" not in text.split("warn 4.0 FILTER")[1]


def test_prov_names_the_triple_as_it_was_written(tmp_path: Path) -> None:
    text = explained(
        tmp_path, RULES.format(", W", "{ ?X :name ?S ; :warn ?W }"), ':x :name "A" ; :warn 4.0 .', "--format", "prov"
    )
    assert '#object> "4.0"^^<http://www.w3.org/2001/XMLSchema#decimal> .' in text
