"""PARAM: a program with parameters is the program with their values in their places."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep import api
from cep.command import app
from cep.compile import compile
from cep.connectors.why.text import Explainer, condition_text
from cep.core.errors import CepError, CepErrors
from cep.engine import Engine
from cep.events import Event, Iri
from cep.explain.question import read_question
from cep.language.reading import parameters_of
from cep.language.syntax.parser import parse
from cep.operators.where import SelectPattern
from cep.rules.printing import print_condition
from cep.rules.terms import Condition, Disjunction
from tests import cli_runs
from tests.cases_format import known
from tests.long import seeds
from tests.programs import iteration, program, recursion, window
from tests.test_equivalence import types

FRIDGES = """PARAM Hot = 7.0 IN 5..12 STEP 0.5.
PARAM Patience = 15 min IN 5 min..1 h.
event reading(fridge: string, temp: float) TIME time.
warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A > Hot, B > A WITHIN Patience.
"""
MINUTE = 60_000_000
READINGS = [Event("reading", ("milk", temp), at, at) for temp, at in ((8.2, 10 * MINUTE), (9.5, 20 * MINUTE))]


def warmings(**options: object) -> int:
    engine = Engine.from_text(FRIDGES, **options)  # type: ignore[arg-type]
    return len([*_rows(engine.push(READINGS)), *_rows(engine.close())])


def test_a_value_that_is_set_replaces_the_default() -> None:
    assert warmings() == 1
    assert warmings(params={"Hot": 9}) == 0
    assert warmings(params={"Patience": timedelta(minutes=9)}) == 0
    assert warmings(params={"Patience": "20 min", "Hot": "8"}) == 1


_DURATION = re.compile(r"(WITHIN|LAST) ([0-9.]+ (?:ms|s|min))")
_NUMBER = re.compile(r"([<>=] )(-?\d+(?:\.\d+)?)(?![\w.])")


def parametrised(text: str, rng: random.Random) -> tuple[str, dict[str, str]]:
    """The program with some constants as parameters that have other defaults, and their values."""
    values: dict[str, str] = {}
    declared: list[str] = []

    def named(before: str, value: str, default: str) -> str:
        if rng.random() < 0.3:
            return before + value
        name = f"P{len(values)}x"
        values[name] = value
        declared.append(f"PARAM {name} = {default}.")
        return before + name

    lines = []
    for line in text.split("\n"):
        if "<-" in line:
            line = _DURATION.sub(lambda m: named(f"{m[1]} ", m[2], "7 h"), line)
            line = _NUMBER.sub(lambda m: named(m[1], m[2], "0.25" if "." in m[2] else "77"), line)
        lines.append(line)
    rng.shuffle(declared)
    at = rng.choice((0, len(lines)))
    return "\n".join([*lines[:at], *declared, *lines[at:]]), values


@pytest.mark.parametrize("seed", seeds(120))
def test_random_programs_mean_the_same_with_their_constants_as_parameters(seed: int) -> None:
    rng = random.Random(f"parameters {seed}")
    made = rng.choice((program, program, window, iteration, recursion))(rng)
    text, values = parametrised(made.text, rng)
    declared = types(made.events)

    def found(text: str, params: Mapping[str, object] | None = None) -> list[tuple[object, ...]] | str:
        knowledge = known(made.knowledge) if made.knowledge else None
        try:
            engine = Engine.from_text(text, types=declared, knowledge=knowledge, max_derivations=2000, params=params)
            output = engine.push([each for each in made.events if each.type in engine.inputs])
            return [*_rows(output), *_rows(engine.close())]
        except CepErrors as error:
            return str(error.errors[0].message)
        except CepError as error:
            return error.message

    expected, actual = found(made.text), found(text, params=values)
    assert actual == expected, text


def _rows(output: Mapping[str, pl.DataFrame]) -> list[tuple[object, ...]]:
    return [(name, *row) for name, table in output.items() for row in table.iter_rows()]


def test_every_type_is_read_from_texts_and_objects() -> None:
    text = """PREFIX x: <http://x/>
PARAM N = 3. PARAM T = 1.5. PARAM S = "a". PARAM B = true. PARAM D = 5 min. PARAM At = 2024-05-01. PARAM Of = x:a.
"""
    day = datetime(2024, 5, 2, 10, 30, tzinfo=UTC)
    iri = Iri("http://x/b")
    for given in (
        {"N": "-4", "T": "2", "S": "b c", "B": "false", "D": "90 s", "At": "2024-05-02 10:30", "Of": "x:b"},
        {"N": -4, "T": 2, "S": "b c", "B": False, "D": timedelta(seconds=90), "At": day, "Of": iri},
        {"D": 90},
        {"D": "PT1M30S"},
    ):
        found = {each.name: each.value.value for each in parameters_of(text, values=given)}
        wanted = {"N": -4, "T": 2.0, "S": "b c", "B": False, "D": 90_000_000, "Of": iri}
        wanted["At"] = int(day.timestamp()) * 1_000_000
        assert {name: found[name] for name in given} == {name: wanted[name] for name in given}
        assert all(type(found[name]) is type(wanted[name]) or name == "Of" for name in given)
        again = parameters_of(text, values={each.name: each.given for each in parameters_of(text, values=given)})
        assert {each.name: each.value for each in again} == {e.name: e.value for e in parameters_of(text, values=given)}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Hto": 8}, "the program has no parameter `Hto`\nhint: did you mean `Hot`?"),
        ({"Hot": 13}, "parameter `Hot`: 13.0 is out of range\nhint: `Hot` may be 5.0..12.0"),
        ({"Hot": "warm"}, "parameter `Hot`: `warm` is not a float\nhint: e.g. `--param Hot=7.5`"),
        ({"Hot": float("nan")}, "parameter `Hot`: nan is not a float\nhint: e.g. `--param Hot=7.5`"),
        ({"Hot": True}, "parameter `Hot`: True is not a float\nhint: e.g. `--param Hot=7.5`"),
        ({"Patience": "5 mins"}, "parameter `Patience`: unknown unit `mins`\n"
                                 "hint: the units are `ms`, `s`, `min`, `h` and `d`"),
        ({"Patience": "-5 min"}, "parameter `Patience`: `-5 min` is not a duration\n"
                                 "hint: e.g. `--param 'Patience=15 min'`"),
        ({"Patience": 7200}, "parameter `Patience`: 2 h is out of range\nhint: `Patience` may be 5 min..1 h"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_allowed(given: Mapping[str, object], message: str) -> None:
    with pytest.raises(CepError) as caught:
        compile(FRIDGES, params=given)
    assert str(caught.value) == message and caught.value.code == "option"


BOUND = "event a(x: int). event b(x: int).\n"


@pytest.mark.parametrize(
    ("statement", "message", "hint"),
    [
        ("PARAM hot = 7.", "expected the name of a parameter, found `hot`", "`PARAM Hot = 7.`"),
        ("PARAM Hot 7.", "expected `=` and a value, found `7`", "PARAM Hot = 7.0 IN 5..12"),
        ("PARAM = 7.", "expected the name of a parameter, found `=`", "PARAM Hot = 7.0"),
        ("PARAM Hot = Cold.", "expected a constant, found `Cold`", "PARAM Hot"),
        ("PARAM Hot = cold.", "expected a constant, found `cold`", '`"cold"`'),
        ("PARAM Hot = 7 IN 8..9.", "the default is out of range", "it is 7, and may be 8..9"),
        ("PARAM Hot = 7 IN 9..8.", "no value is in this range", "put the smaller value first"),
        ("PARAM Hot = 7 IN ... ", "the range has no end", "IN 5.."),
        ("PARAM Hot = 7 IN 5.5..8.", "the default is an int, but this value is not", "`7.0`"),
        ("PARAM Hot = 5 min IN 1..8.", "the default is a duration, but this value is not", "`5 min`"),
        ('PARAM Hot = "a" IN "a".."b".', "a parameter of type string cannot have a range", 'IN ["a", "b"]'),
        ('PARAM Hot = "a" IN ["b"].', "the default is out of range", 'it is "a", and may be ["b"]'),
        ("PARAM Hot = 7 STEP 1.", "a step needs a range", "IN 5..12 STEP 0.5"),
        ("PARAM Hot = true STEP 1.", "a parameter of type bool cannot have a step", "numbers and durations"),
        ("PARAM Hot = 7 IN 1..9 STEP 0.", "a step must be larger than 0", "STEP 0.5"),
        ("PARAM Hot = -5 min.", "a duration cannot be negative", "PARAM Hot"),
        ("PARAM Hot = 7.\nPARAM Hot = 8.", "the parameter `Hot` is declared twice", "line 2 declares it"),
        ("PARAM Hot = 7.\nc(X) <- a(Hot).", "the parameter `Hot` cannot be an argument of an event", "WHERE X = Hot"),
        (
            "PARAM Hot = 7.\nc(X) <- a(x: Hot).",
            "the parameter `Hot` cannot be an argument of an event",
            "WHERE X = Hot",
        ),
        ("PARAM M = 7.\nc(M) <- a(X) AGGREGATE M = avg(X) OVER LAST 3 s.", "`M` is a parameter", "another name"),
        ("PARAM M = 7.\nc(N) <- a(X) AGGREGATE N = sum(X) OVER LAST 3 s BY M.", "`M` is a parameter", "another name"),
        (
            'PARAM D = "a".\nc(X) <- a(X) SEQ b(_) WITHIN D.',
            'found the parameter `D`, which is `"a"`',
            "a duration is written",
        ),
        (
            "PARAM D = -3.\nc(X) <- a(X) SEQ b(_) WITHIN D.",
            "found the parameter `D`, which is `-3`",
            "a duration is written",
        ),
        ("PARAM D = 1.5.\nc(X) <- a(X) TIMES D.", "takes a whole number from 1, found `1.5`", "TIMES"),
    ],
)
def test_mistakes(statement: str, message: str, hint: str) -> None:
    with pytest.raises(CepError) as caught:
        parse(BOUND + statement)
    assert message in caught.value.message and hint in (caught.value.hint or ""), caught.value
    assert caught.value.span is not None and caught.value.code == "syntax"


NAMED = 'PARAM Hot = 7.0. PARAM Patience = 15 min. PARAM Many = 3. PARAM Site = "north".\n'
NAMED += "event a(x: float). event s(x: string). fluent f(x: float).\n"


@pytest.mark.parametrize(
    ("rules", "hint"),
    [
        ("b(X) <- a(X) WHERE X > Hott.", "did you mean `Hot`?"),
        ("b(X, Hott) <- a(X).", "did you mean `Hot`?"),
        ("b(X, Y) <- a(X) WHERE Y = if(X > Hott, 1, 2).", "did you mean `Hot`?"),
        ("b(X) <- a(X) WHERE (X > Hott or X < 2).", "did you mean `Hot`?"),
        ("b(X, Hottes) <- a(X) AND a(Hottest).", "did you mean `Hottest`?"),
        ("b(X) <- a(X) UNLESS (a(Y) WHERE Y > Hott) WITHIN 5 min.", "did you mean `Hot`?"),
        ("initiate f(X) <- a(X) WHERE X > Hott.", "did you mean `Hot`?"),
        ("r(3). t(X) :- r(X), X > Hott. b(X) <- a(X) WHERE t(X).", "did you mean `Hot`?"),
        ("b(X) <- a(X) SEQ a(_) WITHIN Patince.", "did you mean `Patience`?"),
        ("b(X) <- a(X) SEQ a(_) WITHIN Hott.", "a limit from the data is a condition"),
        ("b(X) <- a(X) UNLESS a(_) WITHIN patience.", "did you mean `Patience`?"),
        ("f(X) ENDS AFTER Pateince.", "did you mean `Patience`?"),
        ("b(M) <- a(X) AGGREGATE M = avg(X) OVER LAST Manny EVENTS.", "did you mean `Many`?"),
        ("b(M) <- a(X) AGGREGATE M = avg(X) OVER LAST Patince.", "did you mean `Patience`?"),
        ("b(M) <- a(X) AGGREGATE M = percentile(X, Hott) OVER LAST 3 s.", "did you mean `Hot`?"),
        ("b(X) <- a(X) TIMES Manny WITHIN 3 s.", "did you mean `Many`?"),
        ("b(X) <- a(X) WHERE X > Cold.", "name it in the pattern"),
    ],
)
def test_a_mistyped_name_is_told(rules: str, hint: str) -> None:
    with pytest.raises(CepError) as caught:
        compile(NAMED + rules)
    assert hint in (caught.value.hint or ""), caught.value


def test_a_mistyped_name_that_becomes_a_variable_is_told() -> None:
    (told,) = [each for each in compile(NAMED + "b(X) <- s(X) WHERE X = Sit.").plan.warnings if each.code == "idle"]
    assert told.message.startswith("`Sit` is used nowhere else") and told.hint == "did you mean `Site`?"


@pytest.mark.parametrize(
    ("file", "rules"),
    [
        ("b.lars", "h(X) :- r(X) in [2], X >= Hott.\n"),
        ("b.lars", "h(X) :- r(X) in [Hott].\n"),
        ("b.laser", "h(X) :- time_win(Hott,0,1,diamond(r(X)))\n"),
        ("b.dmtl", "Flag(X) :- Diamondminus[0,Hott]M(X)\n"),
        ("b.dmtl", "Flag(Hott) :- Diamondminus[0,3]M(X)\n"),
        ("b.rtec", "initiatedAt(up(X)=true, T) :- happensAt(r(X), T), X > Hott.\n"),
    ],
)
def test_a_mistyped_name_in_a_dialect_is_told(file: str, rules: str, tmp_path: Path) -> None:
    files = {"a.cep": "PARAM Hot = 7.\nevent r(x: int) TIME time.\n", file: rules}
    with pytest.raises(CepError, match="`Hott`") as caught:
        compile(files)
    assert caught.value.hint == "did you mean `Hot`?"
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    told = cli_runs.cep("check", "--together", *(str(tmp_path / name) for name in files))
    assert "hint: did you mean `Hot`?" in told.stderr


def test_the_words_of_the_statement_stay_names() -> None:
    text = "event param(step: int).\nstep(Step) <- param(Step) WHERE Step > 1.\nparam(3) :- 1 = 1."
    assert len(parse(text).statements) == 3


def test_columns_are_words_also_where_a_parameter_has_their_name() -> None:
    text = (
        "PARAM Temp = 3.\nevent a(t: int FROM Temp, u: int FROM Pump.Temp) TIME Time.\nb(T) <- a(T, _) WHERE T > Temp."
    )
    found = api.detect(text, [{"Temp": 4, "Pump": {"Temp": 1}, "Time": "2024-05-01"}])
    assert found["b"]["t"].to_list() == [4]


def test_a_negative_value_is_one_number() -> None:
    text = "PARAM Low = -3.\nevent a(x: int) TIME time.\nb(X - Low, Low ** 2, -Low) <- a(X)."
    found = api.detect(text, [{"x": 1, "time": "2024-05-01"}])
    assert found["b"].select(pl.exclude("start", "end")).row(0) == (4, 9, 3)


def test_a_graph_pattern_takes_values() -> None:
    text = """PREFIX x: <http://x/>
PARAM Least = 2.5. PARAM Kind = x:Pump. PARAM Word = "b \\"c".
event a(s: string) TIME time.
b(S, L) <- a(S) WHERE { ?p a ?Kind ; x:code ?S ; x:level ?L FILTER(?L > ?Least && ?L < 9) }.
c(S) <- a(S) WHERE { ?p x:word ?Word ; x:code ?S }.
"""
    background = known(
        '@prefix x: <http://x/> . x:p a x:Pump ; x:code "s" ; x:level 3 ; x:word "b \\"c" .\n'
        'x:q a x:Fan ; x:code "s" ; x:level 4 . x:r a x:Pump ; x:code "s" ; x:level 1 .'
    )
    rows = [{"s": "s", "time": "2024-05-01"}]
    found = api.detect(text, rows, knowledge=background)
    assert found["b"]["l"].to_list() == [3] and len(found["c"]) == 1
    found = api.detect(text, rows, knowledge=background, params={"Kind": "x:Fan", "Word": "b"})
    assert (found["b"]["l"].to_list() == [4] and "c" not in found.tables) or not len(found["c"])


def test_a_program_of_several_files_and_dialects_has_its_parameters_everywhere() -> None:
    files = {
        "a.cep": "event reading(x: int) TIME time.\nhot(X) <- reading(X) WHERE X > Hot.\n",
        "b.cep": "PARAM Hot = 7. PARAM Long = 2 s.\n",
        "c.lars": "often(X) :- hot(X) in [Long], X >= Hot.\n",
    }
    rows = [{"x": 8, "time": "2024-05-01T00:00:00Z"}, {"x": 6, "time": "2024-05-01T00:00:01Z"}]
    found = api.detect(files, rows)
    assert found["hot"]["x"].to_list() == [8] and len(found["often"]) == 1
    found = api.detect(files, rows, params={"Hot": 5})
    assert found["hot"]["x"].to_list() == [8, 6]
    with pytest.raises(CepError, match="declared twice") as caught:
        api.detect({**files, "d.cep": "PARAM Hot = 8.\n"}, rows)
    assert "line 1 of b.cep declares it" in (caught.value.hint or "")
    with pytest.raises(CepError, match="whole number of ticks"):
        api.detect(files, rows, params={"Long": "1500 ms"})


def test_formulas_and_rules_of_datalogmtl_and_rtec_take_values() -> None:
    own = 'PARAM Far = 4 s. PARAM Name = "n".\nevent e(x: string) TIME time.\n'
    metric = {"a.cep": own + "fluent s(x: string).\ns(X) WHILE ONCE[0 s, Far] t(X).\nfluent t(x: string).\n"}
    written = {"a.cep": metric["a.cep"].replace("Far]", "4 s]").replace("PARAM Far = 4 s. ", "")}
    assert compile(metric).plan.nodes == compile(written).plan.nodes
    event = "event e(x: string) TIME time.\n"
    for far, name in ((4, "n"), (6, "m")):
        values = {"Far": f"{far} s", "Name": name}
        for file, rule in (
            ("b.dmtl", "Flag(X) :- Diamondminus[0,{far}] Monit(X,{name})\n"),
            ("b.rtec", "initiatedAt(up(X)=true, T) :- happensAt(m(X,N,M), T), N > {far}, M \\= {name}.\n"),
        ):
            given = {"a.cep": own, file: rule.format(far="Far", name="Name")}
            plain = {"a.cep": event, file: rule.format(far=far, name=f'"{name}"')}
            try:
                expected = compile(plain).plan.nodes
            except CepError as error:
                pytest.fail(str(error))
            assert compile(given, params=values).plan.nodes == expected


def test_values_that_rules_use_are_part_of_what_a_snapshot_is_of() -> None:
    text = FRIDGES + "PARAM Unused = 1.\n"
    engine = Engine.from_text(text)
    engine.push(READINGS[:1])
    blob = engine.snapshot()
    again = Engine.from_text(text, params={"Unused": 2})
    again.restore(blob)
    assert len([*_rows(again.push(READINGS[1:])), *_rows(again.close())]) == 1
    with pytest.raises(CepError):
        Engine.from_text(text, params={"Hot": 8}).restore(blob)
    assert compile(text).fingerprint != compile(text, params={"Patience": "10 min"}).fingerprint


def test_a_parameter_that_no_rule_uses_is_a_warning() -> None:
    (warning,) = Engine.from_text(FRIDGES + "PARAM Unused = 1.\n").warnings
    assert warning.message == "no rule uses the parameter `Unused`" and warning.span is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.cep").write_text(FRIDGES)
    Path("in.csv").write_text("time,fridge,temp\n2024-05-01 08:10,milk,8.2\n2024-05-01 08:20,milk,9.5\n")
    Path("site.toml").write_text('Hot = 9\nPatience = "20 min"\n')
    Path("bad.toml").write_text("Hot = \n")
    Path("deep.toml").write_text("[Hot]\nx = 1\n")


def cep(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, arguments, prog_name="cep")
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


@pytest.mark.usefixtures("folder")
def test_commands_take_values() -> None:
    assert '"warming"' in cep("run", "rules.cep", "-i", "in.csv")
    assert not cep("run", "rules.cep", "-i", "in.csv", "--params", "site.toml")
    assert '"warming"' in cep("run", "rules.cep", "-i", "in.csv", "--params", "site.toml", "--param", "Hot=8")
    listed = cep("plan", "rules.cep", "--param", "Hot=8")
    assert listed.startswith(
        "parameters\n  Hot       8.0     in 5.0..12.0, default 7.0\n  Patience  15 min  in 5 min..1 h\n"
    )
    assert "A > 8.0" in listed
    cep("check", "rules.cep", "--param", "Patience=10min")
    assert "8.2 > 8" in cep("explain", "rules.cep", "warming(milk)", "-i", "in.csv", "--param", "Hot=8")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--param", "Hot"], "--param: `Hot` is not a name and a value\nhint: e.g. `--param Hot=8`"),
        (["--param", "Hot=8", "--param", "Hot=9"], "--param: `Hot` is set twice"),
        (["--param", "Hto=8"], "the program has no parameter `Hto`\nhint: did you mean `Hot`?"),
        (["--params", "none.toml"], "--params none.toml: no such file"),
        (["--params", "bad.toml"], "--params bad.toml: Invalid value"),
        (["--params", "deep.toml"], "--params deep.toml: `Hot` is a table, not a value"),
    ],
)
def test_options_that_cannot_be_taken(arguments: list[str], message: str) -> None:
    for command in (["check", "rules.cep"], ["plan", "rules.cep"], ["run", "rules.cep", "-i", "in.csv"]):
        assert message in cep(*command, *arguments, status=2)


def test_people_read_the_name_of_a_parameter_with_its_value() -> None:
    """Of a condition that decides; what is printed to be read again has the value."""
    text = (
        'PARAM Limit = 30 IN 10..50 STEP 5. PARAM Who = "it\'s". PARAM On = true.\n'
        "event drive(id: string, speed: int, lit: bool).\n"
        "fast(S) <- drive(S, V, L) WHERE V > Limit + 2, (S != Who or L = On)."
    )
    engine = Engine.from_text(text, remember=2**60)
    engine.push_event("drive", ("bob", 20, True), 10**6)
    engine.close()
    (answer,) = Explainer(engine).why_not(read_question("fast(bob)", engine))["rules"]
    (failed,) = answer["failure"]["conditions"]
    assert failed["text"] == "V > Limit (30) + 2" and failed["told"] == "20 > 32"
    (told,) = [condition_text(each) for each in rule_conditions(text) if isinstance(each, Disjunction)]
    assert told == '(S != Who ("it\'s") or L = On (true))'
    assert [print_condition(each) for each in rule_conditions(text)] == ["V > 30 + 2", '(S != "it\'s" or L = true)']


def rule_conditions(text: str) -> list[Condition]:
    """The conditions of the only rule of a program."""
    (rule,) = Engine.from_text(text).plan.rules.rules
    assert isinstance(rule.body, SelectPattern)
    return list(rule.body.conditions)
