"""`cep fmt`: the layout of programs, which changes no meaning, keeps every comment and is reached at once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.compile import compile
from cep.core.errors import CepError
from cep.language.reading import formatted
from cep.language.syntax.parser import parse
from tests import formula_maker
from tests.cli_runs import cep
from tests.long import examples
from tests.programs import Program, contests, programs, recursions, windows
from tests.test_printer import CANONICAL

ROOT = Path(__file__).parent.parent
PROGRAMS = sorted(
    path for folder in ("demos", "benchmarks", "docs") for path in (ROOT / folder).rglob("*.cep") if path.is_file()
)
BLOCK = re.compile(r"```(?:cep|part)[^\n]*\n(.*?)```", re.DOTALL)
CASE = re.compile(r"^--- program\n(.*?)(?=^---)", re.DOTALL | re.MULTILINE)


def remarks(text: str) -> list[str]:
    """Comments, found without the formatter: what is left of a line behind strings, IRIs and graphs."""
    bare = re.sub(r'"(?:[^"\\\n]|\\.)*"|<[A-Za-z][^<>\s]*>|\{[^{}]*\}', lambda found: "_" * len(found.group()), text)
    return [text[m.start() : m.end()].rstrip() for m in re.finditer(r"[#%][^\n]*", bare)]


def check(text: str) -> str:
    """Format a program, and hold the result against what formatting promises."""
    made = formatted(text)
    tree = parse(text)
    assert parse(made).statements == tree.statements
    assert formatted(made) == made
    assert not re.search(r"[ \t]+$", made, re.MULTILINE) and "\n\n\n" not in made and not made.startswith("\n")
    assert re.sub(r"\s", "", made).casefold() == re.sub(r"\s", "", text).casefold()
    return made


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_projects_programs_have_the_usual_layout(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check(text) == text
    assert remarks(text)


def test_programs_of_pages_and_cases_stay_what_they_are() -> None:
    texts = [block for page in sorted((ROOT / "docs").glob("*.md")) for block in BLOCK.findall(page.read_text())]
    texts += [
        case for path in sorted((ROOT / "tests/cases").rglob("*.case")) for case in CASE.findall(path.read_text())
    ]
    tried = 0
    for text in texts:
        try:
            parse(text)
        except CepError:
            continue  # a program that shows a mistake
        made = check(text)
        assert remarks(made) == remarks(text)
        tried += 1
    assert tried > 430


def test_a_statement_as_it_is_printed_is_laid_out_as_usual() -> None:
    for line in CANONICAL.splitlines():
        made = check(line)
        assert made.count("\n") > 1 or made == f"{line}\n"


@examples(300)
@given(st.one_of(programs(), windows(), recursions(), contests()), st.randoms(use_true_random=False))
def test_random_programs_keep_their_plan(program: Program, random: Random) -> None:
    text = _scattered(program.text, random)
    made = check(text)
    assert _plan(made) == _plan(text)


@examples(200)
@given(st.randoms(use_true_random=False))
def test_random_formulas_keep_their_meaning(random: Random) -> None:
    maker = formula_maker.Maker(random)
    rules = maker.rules(3, 3)
    check(_scattered(formula_maker.text(rules, maker.known), random))


def _plan(text: str) -> object:
    """Everything of a plan but where it was written."""
    try:
        plan = compile(text).plan
    except CepError as error:
        return error.message
    return plan.nodes, plan.names, plan.columns, plan.points, plan.schemas, plan.inputs, plan.arguments


def _scattered(text: str, random: Random) -> str:
    """The same tokens with other spaces, line breaks and comments between them."""
    from cep.language.syntax.tokens import line_starts, tokenise

    tokens = tokenise(text, line_starts(text))
    made, end = "", 0
    for token in tokens[:-1]:
        gap = text[end : token.start]
        if gap and token.kind != "name":  # a unit stands on the line of its number
            gap = random.choice((gap, " ", "  ", "\n", "\n\n\n", "\t", " # why\n", "\n% so\n      "))
        made += gap + token.text
        end = token.end
    return made


def test_the_page_shows_what_changes() -> None:
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    before, after = (re.findall(rf"```cep {name}.cep\n(.*?)```", page, re.DOTALL)[0] for name in ("before", "after"))
    assert check(before) == after


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("e<-a seq b where X>1 within 3h.", "e <- a SEQ b WHERE X > 1 WITHIN 3 h.\n"),
        ("e( X )<-a( X )seq b( X )where X>1 within 3   h .", "e(X) <- a(X) SEQ b(X) WHERE X > 1 WITHIN 3 h.\n"),
        ("e(X)<-a(X)where X<-1, -X<3-1.", "e(X) <- a(X) WHERE X < -1, -X < 3 - 1.\n"),
        ("Event a(x:int,y:float? in  -3 .. 4).", "event a(x: int, y: float? in -3..4).\n"),
        ("storm:e(X)<-a(X).", "storm: e(X) <- a(X).\n"),
        ("PREFIX   om-owl :<http://x.org/>", "PREFIX om-owl: <http://x.org/>\n"),
        ("param Hot=7.0 in 5..12 step 0.5.", "PARAM Hot = 7.0 in 5..12 step 0.5.\n"),
        ("a(1).b(2). # two\n\n\n\nc(3).", "a(1).\nb(2).  # two\n\nc(3).\n"),
        ("e <-\na\n  SEQ b.", "e <-\n    a\n    SEQ b.\n"),
        ("e <- a\n   # why\n   SEQ b.", "e <- a\n    # why\n    SEQ b.\n"),
        ("e <- NOT(c).[a,b] WITHIN 3 s.", "e <- NOT(c).[a, b] WITHIN 3 s.\n"),
        ("e <- (a SEQ b).3 .", "e <- (a SEQ b).3.\n"),
        ("known(S)    <- a(S).\nstorm(Sts)  <- b(Sts).", "known(S)   <- a(S).\nstorm(Sts) <- b(Sts).\n"),
        ("known(S)   <- a(S).\nstorm(Sts) <- b(Sts).", "known(S)   <- a(S).\nstorm(Sts) <- b(Sts).\n"),
        ("known(S)    <- a(S).\n\nstorm(Sts) <- b(Sts).", "known(S) <- a(S).\n\nstorm(Sts) <- b(Sts).\n"),
        ("e <-   a SEQ\n       b.", "e <- a SEQ\n     b.\n"),
        (
            "e(X)<-a(X) WHERE {?X a <x:y> ;\n                   <x:z> 3}.",
            "e(X) <- a(X) WHERE {?X a <x:y> ;\n                   <x:z> 3}.\n",
        ),
        ("e(X)  <-  a(X) WHERE {\n  ?X a <x:y>}.", "e(X) <- a(X) WHERE {\n  ?X a <x:y>}.\n"),
        ('e(X)<-a(X) WHERE {?X <x:y> """\n a""" }.', 'e(X) <- a(X) WHERE {?X <x:y> """\n a""" }.\n'),
        ("a <- b.\r\n\r\nc <- d.\r\n", "a <- b.\r\n\r\nc <- d.\r\n"),
        ("", ""),
        ("# alone", "# alone\n"),
    ],
)
def test_layout(written: str, usual: str) -> None:
    made = formatted(written)
    assert formatted(made) == made
    assert made == usual


def test_a_long_line_is_broken() -> None:
    written = (
        "e(A, B) <- " + " SEQ ".join(f"reading_of_a_sensor(a: A, b: B, number: {n})" for n in range(5)) + " WITHIN 3 h."
    )
    made = check(written)
    assert max(map(len, made.splitlines())) <= 120
    assert made.splitlines()[1].startswith("    SEQ reading_of_a_sensor")
    alert = f'ALERT a ON b(X) TITLE "{"x" * 60}" TEXT "{"y" * 60}" FOR 3 h.'
    assert check(alert).splitlines()[1].startswith("    TEXT")


def test_long_lines_in_columns() -> None:
    """Many at once; what stands in columns still does after the break."""
    rule = " SEQ ".join(["reading_of_a_sensor(a: A, b: B)"] * 6)
    made = check("".join(f"{f'e{n}(A)':9} <- {rule} WITHIN 3 h.{' ' * (n < 10)}   # {n}\n" for n in range(8, 12)))
    heads = [line for line in made.splitlines() if line.startswith("e")]
    assert {line.index("<-") for line in heads} == {7} and len(made.splitlines()) == 12
    assert len({line.index("#") for line in made.splitlines() if "#" in line}) == 1


def test_parameters_of_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.cep").write_text("PARAM Wait=5 min.\n")
    Path("b.cep").write_text("e<-a SEQ b WITHIN Wait.\n")
    assert cep("fmt", "b.cep").exit_code == 2
    result = cep("fmt", ".")
    assert (result.exit_code, result.output) == (0, "a.cep: formatted\nb.cep: formatted\n2 files, 2 formatted\n")
    assert Path("b.cep").read_text() == "e <- a SEQ b WITHIN Wait.\n"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.cep").write_text("e<-a.")
    Path("b.cep").write_text("e <- a.\n")
    Path("c.cep").write_text("e <- a,b.\n")
    result = cep("fmt", "--check", "a.cep", "b.cep")
    assert (result.exit_code, result.output) == (1, "a.cep: the layout differs\n2 files, 1 would be formatted\n")
    result = cep("fmt", "--diff", "a.cep", "b.cep")
    assert result.exit_code == 0 and "\n-e<-a.\n" in result.output and "\n+e <- a.\n" in result.output
    assert Path("a.cep").read_text() == "e<-a."
    result = cep("fmt", "a.cep", "b.cep", "c.cep")
    assert result.exit_code == 2 and "c.cep:1:7: expected an operator or `.`, found `,`" in result.output
    assert "c.cep: 1 error, left as it is\n3 files, 1 formatted\n" in result.output
    assert [Path(f"{name}.cep").read_text() for name in "abc"] == ["e <- a.\n", "e <- a.\n", "e <- a,b.\n"]
    assert cep("fmt", "--check", "a.cep").exit_code == 0


def test_standard_input() -> None:
    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cep", "fmt", "-", *options]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=120)

    result = run("e<-a.")
    assert (result.returncode, result.stdout, result.stderr) == (0, "e <- a.\n", "")
    assert run("e<-a.", "--check").returncode == 1
    result = run("e <- ,")
    assert result.returncode == 2 and "<stdin>:1:6" in result.stderr


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.dmtl", "this is a program in datalogmtl"),
        ("a.rtec", "this is a program in rtec"),
        ("a.lars", "this is a program in lars"),
        ("a.laser", "this is a program in laser"),
        ("a.csv", "by its name this is data, not a program\nhint: `cep fmt` lays out programs: `cep fmt rules.cep`"),
        ("gone.cep", "no such file"),
    ],
)
def test_what_is_refused(name: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name != "gone.cep":
        Path(name).write_text("p :- q.\n")
    result = cep("fmt", name)
    assert result.exit_code == 2 and told in result.output
