"""What README.md and docs/ show is run: programs over their streams, commands, Python; drawings are drawn again.

A fenced block is read by its first word:

    cep       a program; a second word names its file: one of the project, which it equals, or one for the commands
    below
    part      statements that go with the program before them, and with those in a comment `<!-- beside: ... -->` above
    prolog    a program of the dialect that the suffix of its name says; facts: records of the program of that name
    timeline  events above the axis, all that is derived from them below it: each as in tests/cases/README.md, then
    drawn events    a stream without a drawing; a program with neither has the stream of the one before it
    derived   all that is derived
    turtle    the background knowledge of the program; with a second word a file
    error     the message in full that a program is refused with; `warning`: those of a program that is not
    csv, json, yaml    a file, named by the second word
    case      see test_cases.py
    formula   see test_fluent_pages.py; lars, laser and ticks: see test_lars_docs.py
    console   commands after `$ `, each with what it prints, in a folder that holds the named files above
    python    a script; a `text` block behind it is what it prints
"""

from __future__ import annotations

import io
import math
import re
import shlex
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import pyoxigraph as ox
import pytest
from typer.testing import CliRunner

from cep import command
from cep.connectors.rdf import triples
from cep.connectors.rdf.question import Question
from cep.connectors.rdf.store import EventStore
from cep.connectors.rdf.vocabulary import EventVocabulary
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.core.identity import identified
from cep.core.literals import UNITS
from cep.core.prefixes import PREFIXES
from cep.core.schema import Attribute, Schema
from cep.engine import Engine, detect
from cep.events import Event
from cep.rules.expressions.aggregates import AGGREGATES
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.keywords import BINARY_OPERATORS, KEYWORDS
from tests import reference
from tests.cases_format import difference, known, read_event, read_events, sort_key, write_event
from tests.reference_knowledge import read

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README, LANGUAGE, TOUR, CLI = ROOT / "README.md", DOCS / "language.md", DOCS / "tour.md", DOCS / "cli.md"
COOKBOOK, SERVE = DOCS / "cookbook.md", DOCS / "serve.md"
PAGES = (
    README,
    LANGUAGE,
    TOUR,
    CLI,
    COOKBOOK,
    DOCS / "python.md",
    DOCS / "fluents.md",
    DOCS / "limits.md",
    DOCS / "benchmarks.md",
    DOCS / "revision.md",
    DOCS / "lars.md",
    DOCS / "testing.md",
    DOCS / "backtest.md",
    DOCS / "diff.md",
    DOCS / "knowledge.md",
    DOCS / "sources.md",
)
ALL_PAGES = (
    README,
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *(ROOT / folder / "README.md" for folder in ("demos", "ontologies", "tests/cases")),
)
_STATEMENT = re.compile(
    r"^(event|fluent|fact|initiate|terminate|initially|policy|ALERT) [\w:\"]"
    r"|^(\w+: )?[a-z]\w*(\([^()]*\))?( = \w+)? *(<-|:-|WHILE|BECOMES|ENDS) ",
    re.MULTILINE,
)
"""How a line begins that only a program has."""
_OF_A_PROGRAM = ("timeline", "events", "derived", "error", "warning", "turtle")
_BESIDE = re.compile(r"<!-- beside:\n((?:(?!-->).)*)-->\n```part\n(.*?)```", re.DOTALL)
SCALES = {"seconds": 1_000_000, "minutes": 60_000_000, "hours": 3_600_000_000}
_ROW = re.compile(r"(.+? @ (?:\[[^\]]*\]|\S+(?: (?:ms|s|min|h|d)\b)?))(?: |$)")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words behind the fence, the text, the line it begins on."""

    kind: str
    name: str
    text: str
    line: int


@dataclass
class Example:
    """A program and the blocks that belong to it."""

    page: Path
    program: Block
    blocks: dict[str, Block] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.program.name or "rules.cep"


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    opened: list[str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif opened is None:
            opened, lines = line[3:].split() or [""], []
        else:
            text = "".join(each + "\n" for each in lines)
            found.append(Block(opened[0], " ".join(opened[1:]), text, number - len(lines)))
            opened = None
    assert opened is None, f"{page.name}: a block is not closed"
    return found


def examples() -> list[Example]:
    """All programs; one that has no stream of its own gets the one before it."""
    made: list[Example] = []
    for page in ALL_PAGES:
        beside = {part: above for above, part in _BESIDE.findall(page.read_text(encoding="utf-8"))}
        for block in blocks(page):
            if block.kind == "part":
                before = next((each.program.text for each in reversed(made) if each.page == page), "")
                text = before + beside.get(block.text, "") + block.text
                made.append(Example(page, replace(block, text=text)))
            elif block.kind in ("cep", "prolog"):
                made.append(Example(page, block))
            elif page in PAGES and block.kind in _OF_A_PROGRAM and not block.name:
                assert made and block.kind not in made[-1].blocks, f"{page.name}:{block.line}: of which program?"
                made[-1].blocks[block.kind] = block
    for before, after in zip(made, made[1:]):
        if "derived" in after.blocks and not {"events", "timeline"} & after.blocks.keys():
            after.blocks["events"] = before.blocks["events"]
    return made


EXAMPLES = [
    example for example in examples() if example.blocks or not example.program.name or example.program.kind == "prolog"
]


def place(example: Example) -> str:
    return f"{example.page.stem}:{example.program.line}"


@pytest.mark.parametrize("example", EXAMPLES, ids=place)
def test_program(example: Example) -> None:
    text = example.program.text
    turtle = example.blocks["turtle"].text if "turtle" in example.blocks else ""
    knowledge = known(turtle) if turtle or "{ ?" in text else None
    if "error" in example.blocks:
        with pytest.raises(CepError) as caught:
            Engine.from_text(text, name=example.name, knowledge=knowledge)
        assert str(caught.value) == example.blocks["error"].text.strip("\n")
        return
    engine = Engine.from_text(text, name=example.name, knowledge=knowledge)
    if "warning" in example.blocks:
        assert "\n\n".join(map(str, engine.warnings)) == example.blocks["warning"].text.strip("\n")
    if "timeline" in example.blocks:
        drawn = example.blocks["timeline"].text
        events, derived, axis = read_timeline(drawn)
        assert drawn == draw(events, derived, axis), "the drawing should be:\n" + draw(events, derived, axis)
    elif "derived" in example.blocks:
        events = read_events(example.blocks["events"].text)
        derived = read_events(example.blocks["derived"].text)
    else:
        return
    assert derived == sorted(derived, key=sort_key), "what is derived is shown by (end, start, type, arguments)"
    by_reference = reference.detect(text, events, knowledge={-math.inf: read(turtle)})
    assert not difference(derived, by_reference), "by the reference interpreter"
    assert not difference(derived, detect(text, events, knowledge=knowledge)), "by the engine"


def test_every_program_is_marked_as_one() -> None:
    """No page shows a program in a block without a kind, or in a comment of another, where no test would run it."""
    tested = "cep part prolog case formula lars laser turtle sparql python ipython"
    for page in ALL_PAGES:
        for block in blocks(page):
            found = None if block.kind in tested.split() else _STATEMENT.search(block.text)
            assert found is None, f"{page.name}:{block.line}: mark it as `cep` or `part`: {found[0]}"


def test_facts_of_dialects_are_read(tmp_path: Path) -> None:
    (page,) = [each for each in ALL_PAGES if each.stem == "dialects"]
    programs = {each.name: each for each in blocks(page) if each.kind == "prolog"}
    facts = [each for each in blocks(page) if each.kind == "facts"]
    assert facts
    for each in facts:
        rules, records = tmp_path / each.name, tmp_path / "records.facts"
        rules.write_text(programs[each.name].text, encoding="utf-8")
        records.write_text(each.text, encoding="utf-8")
        printed = run(["cep", "run", str(rules), "--input", str(records)])
        assert "dead letter" not in printed and f"{len(each.text.splitlines())} records" in printed


def read_timeline(text: str) -> tuple[list[Event], list[Event], str]:
    """The events above the axis, those below it, the axis."""
    lines = text.splitlines()
    axis = next(line for line in lines if line.split(" ")[0] in SCALES)
    sides: tuple[list[Event], list[Event]] = ([], [])
    for number, line in enumerate(lines):
        if line is not axis:
            row = _ROW.match(line)
            assert row is not None, f"no event: {line!r}"
            sides[number > lines.index(axis)].append(read_event(row[1]))
    return *sides, axis


def draw(events: list[Event], derived: list[Event], axis: str) -> str:
    """Each event beside its notation as `|` or `|---|`, to the scale of the axis: its first two numbers say how far
    apart they are, and in which column."""
    ticks = [(match.start(), float(match[0])) for match in re.finditer(r"-?[\d.]+", axis)]
    (left, first), (right, second) = ticks[:2]
    scale = SCALES[axis.split(" ")[0]]

    def column(time: int) -> int:
        if time % scale == scale - 1:  # the last microsecond of a window is just left of the next
            return column(time + 1) - 1
        at = left + (time / scale - first) * (right - left) / (second - first)
        assert at == round(at) >= left, f"{time / scale} has no column of its own"
        return round(at)

    def row(event: Event) -> str:
        begin, end = column(event.start), column(event.end)
        bar = "|" if begin == end else "|" + "-" * (end - begin - 1) + "|"
        label = written(event)
        assert len(label) < left, f"no room for {label}"
        return f"{label:{begin}}{bar}"

    def written(event: Event) -> str:
        name, at = write_event(event).split(" @ ")
        if scale == 1_000_000:
            return f"{name} @ {at}"
        unit = {"minutes": "min", "hours": "h"}[axis.split(" ")[0]]
        return f"{name} @ " + re.sub(r"-?[\d.]+", lambda t: f"{float(t[0]) * 1_000_000 / scale:g} {unit}", at)

    assert all(column(round(number * scale)) == at for at, number in ticks), "the axis is not even"
    return "\n".join([*map(row, events), axis, *map(row, derived)]) + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and what they print: errors and results in the order they come, seconds aside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    for block in blocks(page):
        if "/" in block.name:
            assert (ROOT / block.name).read_text(encoding="utf-8") == block.text
        elif block.name and block.kind in ("cep", "csv", "json", "lars", "turtle", "yaml"):
            Path(block.name).write_text(block.text, encoding="utf-8")
        for said in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] if block.kind == "console" else ():
            command, _, printed = said.partition("\n")
            assert untimed(run(shlex.split(command))) == untimed(printed), f"{page.name}:{block.line}: {command}"


def test_recipes_are_listed_and_warn_of_nothing() -> None:
    """The top of the page links each recipe once. Recipes run, and forget what they no longer need."""
    text = COOKBOOK.read_text(encoding="utf-8")
    recipes = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    index, titles, bodies = recipes[0], recipes[1::2], recipes[2::2]
    assert sorted(re.findall(r"\[([^]]*)\]\(#", index)) == sorted(titles)
    assert len(titles) >= 15
    for title, body in zip(titles, bodies, strict=True):
        assert "\n$ cep run " in body, title
    turtle = {block.name: block.text for block in blocks(COOKBOOK) if block.kind == "turtle"}
    for block in blocks(COOKBOOK):
        if block.kind == "cep":
            about = turtle.get(block.name.replace(".cep", ".ttl"))
            engine = Engine.from_text(block.text, name=block.name, knowledge=known(about) if about else None)
            given = [each for each in engine.warnings if each.code != "empty"]  # the command names the table
            assert not given, block.name


def run(words: list[str]) -> str:
    """What a command prints."""
    if words[0] == "cat":
        return Path(words[1]).read_text(encoding="utf-8")
    assert words[0] == "cep", f"{words[0]} is no command of ours"
    return CliRunner().invoke(command.app, words[1:], prog_name="cep").output


def untimed(printed: str) -> str:
    lines = (re.sub(r"\b\d+\.\d s$", "0.0 s", line.rstrip()) for line in printed.splitlines())
    return "\n".join(lines).strip("\n")


def test_the_query_of_the_page_on_serving(tmp_path: Path) -> None:
    """It finds the place that is near, once, and not that of a warning of before."""
    (query,) = re.findall(r"--data-urlencode 'query=\n(.*?)'\n```", SERVE.read_text(encoding="utf-8"), re.DOTALL)
    store = EventStore(str(tmp_path / "store"), EventVocabulary())
    facts = "".join(
        f'[] gn:name "{name}" ; wgs84:lat {lat} ; wgs84:long {long} .\n'
        for name, lat, long in (("Newark", 40.74, -74.17), ("Albany", 41.9, -73.75), ("Newark upon Trent", 53.07, -0.8))
    )
    facts += '[] om-owl:ID "EWR" ; wgs84:lat 40.69 ; wgs84:long -74.17 .\n'
    facts += '[] om-owl:ID "ALB" ; wgs84:lat 41.9 ; wgs84:long -73.75 .\n'
    prefixes = re.findall(r"^PREFIX.*$", query, re.MULTILINE) + [f"PREFIX {k}: <{v}>" for k, v in PREFIXES.items()]
    store.store.load(("\n".join(prefixes) + "\n" + facts).encode(), ox.RdfFormat.TURTLE)
    schema = Schema("warning", (Attribute("station", "string"),), True, False)
    times = [1_360_447_200_000_000 + hour * 3_600_000_000 for hour in (0, 1, -2)]  # 22, 23 and 20 o'clock
    table = pl.DataFrame({"start": times, "end": times, "station": ["EWR", "EWR", "ALB"]})
    store.add(
        triples.event_triples(
            [triples.Derived(identified(table, schema, "p"), schema, None)], EventVocabulary()
        ).encode()
    )
    known = tuple(PREFIXES.items())
    assert store.ask(Question(query, table="csv", prefixes=known, seconds=600)).body.split() == [b"name", b"Newark"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python(page: Path) -> None:
    found = blocks(page)
    for script, after in zip(found, [*found[1:], Block("", "", "", 0)]):
        if script.kind == "python":
            out = io.StringIO()
            with redirect_stdout(out):
                exec(compile(script.text, f"{page.name}:{script.line}", "exec"), {})
            assert out.getvalue() == (after.text if after.kind == "text" else ""), f"{page.name}:{script.line}"


def test_no_binary_operator_is_called_like_a_function() -> None:
    assert not {name.lower() for name in BINARY_OPERATORS} & FUNCTIONS.keys()


def test_every_word_of_the_language_is_explained() -> None:
    text = LANGUAGE.read_text(encoding="utf-8")
    spoken = set(re.findall(r"\w+", text))
    assert not (FUNCTIONS.keys() | set(AGGREGATES) | UNITS.keys()) - spoken
    assert not {word for word in KEYWORDS if word not in spoken and word.lower() not in spoken}


def test_every_option_of_the_command_line_is_explained() -> None:
    text = CLI.read_text(encoding="utf-8") + LANGUAGE.read_text(encoding="utf-8")
    for name in ("check", "plan", "run"):
        usage = CliRunner().invoke(command.app, [name, "--help"], prog_name="cep").output
        for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", usage, flags=re.MULTILINE):
            assert option in text or option == "--help", f"cep {name} {option}"
            assert f"cep {name}" in text


def test_links_lead_somewhere() -> None:
    for page in (
        *PAGES,
        DOCS / "editors" / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        ROOT / "docs" / "architecture.md",
    ):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)]+)\)", text):
            path, _, part = target.partition("#")
            if "://" in path:
                continue
            found = page.parent / path if path else page
            assert found.exists(), f"{page.name}: {target}"
            if part:
                headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
                anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
                assert part in anchors, f"{page.name}: {target}"


def test_every_file_that_is_named_is_there() -> None:
    """Paths in backticks in the pages for developers."""
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"):
        for path in re.findall(r"`([a-z_]+(?:/[\w.-]+)+/?)`", page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{page.name}: {path}"
