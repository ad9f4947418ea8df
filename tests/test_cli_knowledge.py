"""The command line over knowledge: what it holds, what it answers, why, whether it fits, and how it changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cep.command import app

ONTOLOGY = """\
@prefix ex: <http://example.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:Gale rdfs:subClassOf ex:Wind .
ex:Wind rdfs:subClassOf ex:Weather .
ex:o1 a ex:Gale ; ex:speed 60 .
ex:o2 a ex:Rain .
"""
RULES = """\
PREFIX ex: <http://example.org/>
event seen(what: iri) TIME t.
alarm(W) <- seen(W) WHERE { ?W a ex:Weather }.
"""
EVENTS = """\
{"type": "seen", "t": "2024-01-01T00:00:00Z", "what": "http://example.org/o1"}
{"type": "seen", "t": "2024-01-01T00:00:00Z", "what": "http://example.org/o2"}
{"type": "seen", "t": "2024-01-01T02:00:00Z", "what": "http://example.org/o1"}
{"type": "seen", "t": "2024-01-01T02:00:00Z", "what": "http://example.org/o2"}
{"type": "seen", "t": "2024-01-01T04:00:00Z", "what": "http://example.org/o2"}
"""
PROV = "http://www.w3.org/ns/prov#"
TIME = "http://www.w3.org/2001/XMLSchema#dateTime"
UPDATES = f"""\
<urn:1> <{PROV}generatedAtTime> "2024-01-01T01:00:00Z"^^<{TIME}> .
<urn:1> <{PROV}invalidatedAtTime> "2024-01-01T03:00:00Z"^^<{TIME}> .
<http://example.org/o2> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Gale> <urn:1> .
<urn:2> <{PROV}invalidatedAtTime> "2024-01-01T01:00:00Z"^^<{TIME}> .
<http://example.org/o1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Gale> <urn:2> .
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (
        ("weather.ttl", ONTOLOGY),
        ("rules.cep", RULES),
        ("events.jsonl", EVENTS),
        ("updates.nq", UPDATES),
    ):
        Path(name).write_text(text, encoding="utf-8")


def cep(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})


def whats(result: Result) -> list[tuple[str, str]]:
    """When and what, of alarms."""
    import json

    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return sorted((line["end"][11:16], line["w"].rsplit("/")[-1]) for line in lines)


def test_a_run_asks_the_closed_knowledge() -> None:
    result = cep("run", "rules.cep", "--input", "events.jsonl", "--knowledge", "weather.ttl")
    assert result.exit_code == 0
    assert whats(result) == [("00:00", "o1"), ("02:00", "o1")]


def test_without_reasoning_only_what_is_said_holds() -> None:
    arguments = ("run", "rules.cep", "--input", "events.jsonl", "-k", "weather.ttl", "--reasoning", "none")
    assert whats(cep(*arguments)) == []


def test_events_are_judged_by_the_knowledge_of_their_time() -> None:
    changes = ("--knowledge-updates", "updates.nq")
    result = cep("run", "rules.cep", "--input", "events.jsonl", "--knowledge", "weather.ttl", *changes)
    assert result.exit_code == 0, result.stderr
    assert whats(result) == [("00:00", "o1"), ("02:00", "o2")]


def test_what_one_graph_says_outlives_another() -> None:
    more = UPDATES.replace("<urn:1>", "<urn:3>").replace("03:00:00", "01:30:00")
    Path("more.nq").write_text(UPDATES + "".join(line + "\n" for line in more.splitlines() if "urn:3" in line))
    arguments = ("run", "rules.cep", "--input", "events.jsonl", "-k", "weather.ttl", "--knowledge-updates", "more.nq")
    assert whats(cep(*arguments)) == [("00:00", "o1"), ("02:00", "o2")]


def test_changes_need_knowledge_times_and_graphs() -> None:
    run = ("run", "rules.cep", "--input", "events.jsonl", "-k", "weather.ttl", "--knowledge-updates")
    Path("timeless.nq").write_text("<urn:a> <urn:b> <urn:c> <urn:g> .\n")
    Path("nowhere.nq").write_text("<urn:a> <urn:b> <urn:c> .\n")
    Path("wrong.nq").write_text(UPDATES.replace("2024-01-01T01:00:00Z", "yesterday", 1))
    Path("backwards.nq").write_text(UPDATES.replace("03:00:00", "00:30:00"))
    for file, message in (
        ("timeless.nq", "timeless.nq: the graph <urn:g> has no time"),
        ("nowhere.nq", "nowhere.nq: <urn:a> <urn:b> <urn:c> is in no graph, so it has no time"),
        ("wrong.nq", "wrong.nq: `yesterday` is not a time"),
        ("backwards.nq", "backwards.nq: the graph <urn:1> ends when it begins or before"),
        ("weather.ttl", "weather.ttl is in a format without named graphs"),
    ):
        result = cep(*run, file)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[0] == message


def test_stats_counts_what_is_said_and_what_follows() -> None:
    result = cep("knowledge", "stats", "weather.ttl")
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0][:2] == ["5", "triples,"] and "inferred" in lines[0]
    assert ["ex:Weather", "1", "1", "inferred"] in lines


def test_query_prints_tables_and_answers() -> None:
    ask = ("knowledge", "query")
    table = cep(*ask, "SELECT ?o ?speed { ?o a ex:Weather ; ex:speed ?speed }", "-k", "weather.ttl")
    assert table.exit_code == 0
    assert table.stdout.splitlines()[-1] == "1 answer"
    assert ["ex:o1", "60"] in [line.split() for line in table.stdout.splitlines()]
    rows = cep(*ask, "SELECT ?o { ?o a ex:Weather }", "-k", "weather.ttl", "--format", "csv")
    assert rows.stdout == "o\nhttp://example.org/o1\n"
    assert cep(*ask, "ASK { ex:o2 a ex:Weather }", "-k", "weather.ttl").stdout == "no\n"
    made = cep(*ask, "CONSTRUCT { ?o a ex:Thing } { ?o a ex:Weather }", "-k", "weather.ttl")
    assert "Thing" in made.stdout
    Path("question.rq").write_text("ASK { ex:o1 a ex:Weather }")
    assert cep(*ask, "@question.rq", "-k", "weather.ttl").stdout == "yes\n"


def test_a_query_warns_of_names_that_are_nowhere() -> None:
    asked = cep("knowledge", "query", "SELECT ?o {\n  ?o ex:sped ?s }", "-k", "weather.ttl")
    assert asked.stdout.splitlines()[-1] == "0 answers"
    assert "query:2:6: warning: `ex:sped` is nowhere in the knowledge" in asked.stderr
    assert "hint: did you mean `ex:speed`?" in asked.stderr


def test_files_that_are_not_what_they_seem() -> None:
    Path("weather.txt").write_text(ONTOLOGY)
    assert "did you mean weather.ttl?" in cep("knowledge", "stats", "wether.ttl").stderr
    assert ".txt is for GeoNames dumps" in cep("knowledge", "stats", "weather.txt").stderr


def test_terms_are_printed_as_they_are() -> None:
    Path("odd.ttl").write_text(
        'PREFIX ex: <http://example.org/> ex:a ex:v "[red]x[/red] :smile:"@en, 1.5, 99999999999999999999, "P1Y" .'
    )
    ask = ("knowledge", "query", "SELECT ?v { ?o ex:v ?v }", "-k", "odd.ttl", "--reasoning", "none")
    shown = [line.strip() for line in cep(*ask).stdout.splitlines()]
    assert '"[red]x[/red] :smile:"@en' in shown
    assert cep(*ask, "--format", "csv").stdout.splitlines() == [
        "v", "1.5", "99999999999999999999", "P1Y", "[red]x[/red] :smile:",
    ]  # fmt: skip
    assert '"99999999999999999999"^^<http://www.w3.org/2001/XMLSchema#integer>' in cep(*ask, "--format", "tsv").stdout
    assert '"xml:lang": "en"' in cep(*ask, "--format", "json").stdout
    made = cep("knowledge", "query", "DESCRIBE ex:a", "-k", "odd.ttl", "--format", "csv")
    assert made.exit_code == 2 and "the answer is not a table" in made.stderr


def test_rows_have_an_order() -> None:
    Path("speeds.ttl").write_text("PREFIX ex: <http://example.org/> ex:a ex:speed 10, 9, 2.5, 100, 77 .")
    ask = ("knowledge", "query", "-k", "speeds.ttl", "--format", "csv")
    assert cep(*ask, "SELECT ?s { ?o ex:speed ?s }").stdout.split() == ["s", "2.5", "9", "10", "77", "100"]
    order = cep(*ask, "SELECT ?s { ?o ex:speed ?s } ORDER BY DESC(?s) LIMIT 2")
    assert order.stdout.split() == ["s", "100", "77"]


def test_a_name_that_is_nowhere_is_told_before_a_run() -> None:
    Path("slip.cep").write_text(RULES.replace("ex:Weather", "ex:Wether"))
    checked = cep("check", "slip.cep", "-k", "weather.ttl")
    assert checked.exit_code == 0
    assert "slip.cep:3:34: warning: `ex:Wether` is nowhere in the knowledge, so there are no answers" in checked.stderr
    assert "hint: did you mean `ex:Weather`?" in checked.stderr
    run = cep("run", "slip.cep", "--input", "events.jsonl", "-k", "weather.ttl")
    assert (run.exit_code, run.stdout) == (0, "")
    assert run.stderr.splitlines()[0] == checked.stderr.splitlines()[0]


def test_without_knowledge_that_alone_is_told() -> None:
    result = cep("run", "rules.cep", "--input", "events.jsonl")
    assert result.exit_code == 2
    assert len([line for line in result.stderr.splitlines() if line.startswith("rules.cep:")]) == 1


def test_what_is_no_question_is_told_where() -> None:
    result = cep("knowledge", "query", "SELECT ?s { ?s a ex:Storm ", "-k", "weather.ttl")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "query:1:18: a `}` is missing after this",
        "    SELECT ?s { ?s a ex:Storm ",
        "                     ^^^^^^^^",
        "hint: put the pattern in braces: `SELECT ?s { ?s a ex:Storm }`",
    ]
    Path("question.rq").write_text("SELECT ?s {\n  ?s a ex:Storm ; ex:speed ?speed ?speed > 3 }")
    asked = cep("knowledge", "query", "@question.rq", "-k", "weather.ttl")
    assert "question.rq:2:35: a `.` or `;` is missing before `?speed`" in asked.stderr
    assert cep("knowledge", "query", "ASK {}", "-k", "weather.ttl", "--format", "xml").exit_code == 2
    assert cep("knowledge", "query", "ASK {}").exit_code == 2


def test_explain_shows_the_proof() -> None:
    result = cep("knowledge", "explain", "ex:o1 a ex:Weather", "-k", "weather.ttl")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["ex:o1", "a", "ex:Weather", "cax-sco"]
    assert any(line.split() == ["ex:o1", "a", "ex:Gale", "asserted"] for line in lines)


def test_explain_of_what_is_not_there() -> None:
    result = cep("knowledge", "explain", "ex:o2 a ex:Weather", "-k", "weather.ttl")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "`ex:o2 a ex:Weather` is neither asserted nor inferred"
    garbled = cep("knowledge", "explain", "ex:o2 a", "-k", "weather.ttl")
    assert garbled.exit_code == 2
    assert "this is not a triple" in garbled.stderr


def test_check_holds_stations_against_their_shapes() -> None:
    Path("stations.ttl").write_text(
        "@prefix sosa: <http://www.w3.org/ns/sosa/> .\n"
        "@prefix wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#> .\n"
        "<urn:s1> a sosa:Platform ; wgs84:lat 95.0 .\n"
    )
    result = cep("check", "--knowledge", "stations.ttl")
    assert result.exit_code == 2
    assert "<urn:s1>: a station has one longitude (wgs84:long)" in result.stderr
    assert cep("check", "rules.cep", "--knowledge", "weather.ttl").exit_code == 0


def test_malformed_knowledge_is_told_with_its_place() -> None:
    Path("broken.ttl").write_text("@prefix ex: <http://example.org/> .\nex:a ex:b ex:c\nex:d ex:e .\n")
    result = cep("run", "rules.cep", "--input", "events.jsonl", "--knowledge", "broken.ttl")
    assert result.exit_code == 2
    assert result.stderr.startswith("broken.ttl:3:1: this is not Turtle")
    assert cep("check").exit_code == 2
    assert "no --knowledge" in cep("check", "rules.cep", "--reasoning", "rdfs").stderr


def test_stats_take_knowledge_as_other_commands_do() -> None:
    assert (
        cep("knowledge", "stats", "--knowledge", "weather.ttl").stdout[:30]
        == cep("knowledge", "stats", "weather.ttl").stdout[:30]
    )
    assert cep("knowledge", "stats").exit_code == 2


def test_imports_that_were_not_loaded_are_told() -> None:
    owl = "@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
    Path("top.ttl").write_text(owl + "<urn:top> a owl:Ontology ; owl:imports <urn:parts>, <urn:parts/2> .\n")
    Path("parts.ttl").write_text(owl + "<urn:p> a owl:Ontology ; owl:versionIRI <urn:parts/2> .\n")
    message = cep("check", "rules.cep", "-k", "weather.ttl", "-k", "top.ttl", "-k", "parts.ttl")
    assert message.exit_code == 0
    assert (
        "warning: <urn:parts> is imported (owl:imports) and was not loaded\n"
        "hint: load its file too, with `--knowledge FILE`: imports are not fetched" in message.stderr
    )
    both = cep("run", "rules.cep", "-i", "events.jsonl", "-k", "weather.ttl", "-k", "top.ttl")
    assert "<urn:parts>, <urn:parts/2> are imported" in both.stderr
    Path("whole.ttl").write_text(owl + "<urn:parts> a owl:Ontology .\n")
    assert "imported" not in cep("check", "-k", "top.ttl", "-k", "parts.ttl", "-k", "whole.ttl").stderr


def test_values_of_another_kind_are_told() -> None:
    Path("mixed.ttl").write_text(
        '@prefix ex: <http://example.org/> .\nex:a ex:warn 4.0 . ex:b ex:warn 3.5 . ex:c ex:warn "3,0" .\n'
    )
    Path("warn.cep").write_text(
        "PREFIX ex: <http://example.org/>\nevent level(of: iri, v: float) TIME t.\n"
        "high(S) <- level(S, V) WHERE { ?S ex:warn ?W }, V > W.\n"
    )
    result = cep("check", "warn.cep", "-k", "mixed.ttl")
    message = '`?W` is a float 2 times, a string once: "3,0", where `?S` is <http://example.org/c>'
    assert result.exit_code == 0 and message in result.stderr and "warn.cep:3:" in result.stderr
    Path("levels.csv").write_text("of,v,t\nhttp://example.org/a,5.0,2024-01-01T00:00:00Z\n")
    assert message in cep("run", "warn.cep", "-i", "level=levels.csv", "-k", "mixed.ttl").stderr
    Path("mixed.ttl").write_text("@prefix ex: <http://example.org/> .\nex:a ex:warn 4.0 . ex:b ex:warn 3 .\n")
    assert "`?W` is" not in cep("check", "warn.cep", "-k", "mixed.ttl").stderr


def test_a_change_that_brings_another_type_is_refused_alone() -> None:
    """`7` becomes `4.5`: this change is a dead letter with its reason, and the run goes on; `4.0` is 4."""
    Path("limits.ttl").write_text("<urn:a> <urn:limit> 7 .")
    Path("limits.cep").write_text(
        "event r(v: int) TIME t.\nabove(V, L) <- r(V) WHERE { <urn:a> <urn:limit> ?L }, V > L.\n"
    )
    lines = (f'{{"type": "r", "v": 9, "t": "2024-01-01T0{hour}:30:00Z"}}\n' for hour in range(4))
    Path("readings.jsonl").write_text("".join(lines))
    made = []
    for hour, value in ((1, "4.0"), (2, "4.5"), (3, "5")):
        type = "decimal" if "." in value else "integer"
        for property, name in (("generated", f"{hour}"), ("invalidated", f"{hour}")):
            minute = "00" if property == "generated" else "45"
            made.append(
                f'<urn:{name}> <http://www.w3.org/ns/prov#{property}AtTime> "2024-01-01T0{hour}:{minute}:00Z"'
                "^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n"
            )
        made.append(f'<urn:a> <urn:limit> "{value}"^^<http://www.w3.org/2001/XMLSchema#{type}> <urn:{hour}> .\n')
    Path("limits.nq").write_text("".join(made))
    arguments = ("limits.cep", "--input", "readings.jsonl", "-k", "limits.ttl", "--knowledge-updates", "limits.nq")
    result = cep("run", *arguments)
    assert result.exit_code == 0, result.stderr
    import json

    found = [(json.loads(line)["end"][11:13], json.loads(line)["l"]) for line in result.stdout.splitlines()]
    assert found == [("00", 7), ("01", 4), ("01", 7), ("02", 7), ("03", 5), ("03", 7)]
    assert "1 dead letter (1 of an unknown event)" in result.stderr
