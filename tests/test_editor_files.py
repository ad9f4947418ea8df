"""The files of the extension for VS Code: its words are those of the language, and its grammar colours programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cep.core.literals import UNITS
from cep.editor.symbols import BUILT_IN
from cep.editor.words import TYPES
from cep.language.syntax.tokens import line_starts, tokenise
from cep.rules.expressions.aggregates import AGGREGATES
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.keywords import KEYWORDS, POSITIONAL, RESERVED, STATEMENT_WORDS
from cep.testing.rule_files import schema

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs/editors/vscode"
COLOURS = FOLDER / "syntaxes/cep.tmLanguage.json"
GRAMMAR = json.loads(COLOURS.read_text(encoding="utf-8"))


class Rules:
    """The rules of a grammar as an editor runs them: at each place the first that matches soonest."""

    def __init__(self, grammar: dict[str, Any]) -> None:
        self.grammar = grammar

    def flat(self, patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for each in patterns:
            if "include" in each:
                found = self.grammar["repository"][each["include"].removeprefix("#")]
                yield from self.flat([found] if "match" in found or "begin" in found else found["patterns"])
            else:
                yield each

    def colours(self, text: str) -> dict[int, str]:
        """The innermost scope of each character that has one, by offset."""
        found: dict[int, str] = {}
        open_: list[dict[str, Any]] = []
        start = 0
        for line in text.splitlines(keepends=True):
            self._line(line.rstrip("\n"), start, open_, found)
            start += len(line)
        return found

    def _line(self, line: str, start: int, open_: list[dict[str, Any]], found: dict[int, str]) -> None:
        at = 0
        while True:
            patterns = list(self.flat(open_[-1]["patterns"] if open_ else self.grammar["patterns"]))
            tried = [(each, re.compile(each.get("match") or each["begin"]).search(line, at)) for each in patterns]
            best = min((m.start() for _, m in tried if m is not None and (m.end() > m.start())), default=len(line) + 1)
            end = re.compile(open_[-1]["end"]).search(line, at) if open_ else None
            if end is not None and end.start() <= best:
                self._paint(found, start, at, end.end(), open_.pop()["name"])
                at = end.end()
            elif best > len(line):
                if open_:
                    self._paint(found, start, at, len(line), open_[-1]["name"])
                return
            else:
                rule, match = next(
                    (each, m) for each, m in tried if m is not None and m.start() == best and m.end() > best
                )
                if open_:
                    self._paint(found, start, at, best, open_[-1]["name"])
                self._paint(found, start, best, match.end(), rule.get("name", ""))
                for group, scope in rule.get("captures", {}).items():
                    self._paint(found, start, *match.span(int(group)), scope["name"])
                if "begin" in rule:
                    open_.append(rule)
                at = match.end()

    def _paint(self, found: dict[int, str], start: int, begin: int, end: int, name: str) -> None:
        for place in range(begin, end):
            found[start + place] = name


def coloured(text: str) -> list[tuple[str, str]]:
    """Stretches of one scope, each with its text."""
    scopes = Rules(GRAMMAR).colours(text)
    made: list[tuple[str, str]] = []
    for place, character in enumerate(text):
        scope = scopes.get(place, "").removesuffix(".cep")
        if made and made[-1][1] == scope:
            made[-1] = made[-1][0] + character, scope
        else:
            made.append((character, scope))
    return [(word.strip(), scope) for word, scope in made if scope and word.strip()]


def words(pattern: str) -> set[str]:
    """The words that a pattern lists."""
    found = re.search(r"\(\?i?:([\w|]+)\)", pattern)
    return set(found[1].split("|")) if found else set()


LISTED = {
    "keyword.other": RESERVED,
    "keyword.other.positional": POSITIONAL | STATEMENT_WORDS,
    "storage.type": TYPES.keys(),
    "support.function": {*FUNCTIONS, *AGGREGATES, *BUILT_IN},
}
"""The words of each scope. The first rule of the scope lists them, the longest first."""


def test_the_words_are_those_of_the_language(pytestconfig: pytest.Config) -> None:
    rules = GRAMMAR["repository"]["word"]["patterns"]
    for scope, expected in LISTED.items():
        rule, *others = (each for each in rules if each["name"] == f"{scope}.cep")
        listed = "|".join(sorted(expected, key=lambda word: (-len(word), word)))
        written = re.sub(r"(?<=:)[\w|]+(?=\))", listed, rule["match"], count=1)
        if pytestconfig.getoption("write"):
            rule["match"] = written
        assert rule["match"] == written, "`python -m pytest tests/test_editor_files.py --write` writes the words anew"
        assert all(word.upper() in KEYWORDS for other in others for word in words(other["match"]))
    if pytestconfig.getoption("write"):
        COLOURS.write_text(json.dumps(GRAMMAR, indent=2) + "\n", encoding="utf-8")
    durations = next(each for each in GRAMMAR["repository"]["value"]["patterns"] if "duration" in each.get("name", ""))
    assert set(re.findall(r"\\s\*\(\?:([\w|]+)\)", durations["match"])[0].split("|")) == UNITS.keys()


def test_colours() -> None:
    text = """\
PREFIX site: <http://example.org/site/>   # short
event reading(fridge: string FROM id, temp: float in -40..60) TIME time.  % so
PARAM Hot = 7.0 IN 5..12.
warming(F, round(B, 1)) <- reading(F, A) SEQ reading(temp: B) WHERE A > Hot, F != "x # {F}", { ?F site:id ?id }
    WITHIN 15 min.
ALERT warm ON warming(f: F) TITLE "{F} is warm" FOR 1 h.
"""
    found = coloured(text)
    for expected in (
        ("PREFIX", "keyword.declaration"),
        ("site:", "entity.name.namespace"),
        ("<http://example.org/site/>", "constant.other.iri"),
        ("# short", "comment.line"),
        ("event", "keyword.declaration"),
        ("reading", "entity.name.type"),
        ("fridge", "variable.other.property"),
        ("string", "storage.type"),
        ("FROM", "keyword.other.positional"),
        ("in", "keyword.other.positional"),
        ("TIME", "keyword.other.positional"),
        ("% so", "comment.line"),
        ("Hot", "variable.other.constant"),
        ("7.0", "constant.numeric"),
        ("warming", "entity.name.function"),
        ("round", "support.function"),
        ("<-", "keyword.operator.arrow"),
        ("SEQ", "keyword.other"),
        ("WHERE", "keyword.other"),
        ("?F", "variable.parameter"),
        ("15 min", "constant.numeric.duration"),
        ("ALERT", "keyword.declaration"),
        ("{F}", "variable.parameter"),
    ):
        assert expected in found, expected
    assert ('"x #', "string.quoted.double") in found, "a string has no comments"


@pytest.mark.parametrize("path", sorted((ROOT / "demos").rglob("*.cep")), ids=lambda path: path.stem)
def test_programs_are_coloured_as_they_are_read(path: Path) -> None:
    """Comments, strings, graph patterns, variables and reserved words, by the tokens of the language itself."""
    text = path.read_text(encoding="utf-8")
    scopes = Rules(GRAMMAR).colours(text)
    kinds = {"variable": ("variable", "keyword"), "string": ("string", "variable"), "iri": ("constant.other.iri",)}
    kinds |= {"number": ("constant.numeric",), "graph": ("meta.graph",), "time": ("constant.other.time",)}
    end = 0
    for token in tokenise(text, line_starts(text)):
        for at in range(end, token.start):
            assert text[at].isspace() or scopes[at] == "comment.line.cep"
        end = token.end
        wanted = ("keyword",) if token.key in RESERVED else kinds.get(token.kind)
        if wanted is not None:
            assert scopes[token.start].startswith(wanted), token


def test_the_extension_is_whole() -> None:
    package = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))
    assert lock["packages"][""]["dependencies"] == package["dependencies"]
    assert lock["packages"][""]["devDependencies"] == package["devDependencies"]
    given = package["contributes"]
    for path in (
        *(each["path"] for each in given["grammars"]),
        *(each["configuration"] for each in given["languages"] if "configuration" in each),
        *(each["url"] for each in given["yamlValidation"]),
    ):
        json.loads((FOLDER / path).read_text(encoding="utf-8"))
    source = (FOLDER / "src/extension.ts").read_text(encoding="utf-8")
    for each in given["commands"]:
        assert f'registerCommand("{each["command"]}"' in source
    for name in given["configuration"]["properties"]:
        assert f'"{name.removeprefix("semcep.")}"' in source
    word = json.loads((FOLDER / "language-configuration.json").read_text(encoding="utf-8"))["wordPattern"]
    assert re.findall(word, "storm_1(Ab, -3.5)") == ["storm_1", "Ab", "-3.5"]


def test_the_schema_of_test_files_is_that_of_the_command() -> None:
    written = json.loads((FOLDER / "schemas/test.schema.json").read_text(encoding="utf-8"))
    assert written == schema(), "cep test --schema > docs/editors/vscode/schemas/test.schema.json"


def test_the_tests_of_a_file_are_found() -> None:
    """The pattern by which the extension finds tests, in the project's own files."""
    source = (FOLDER / "src/extension.ts").read_text(encoding="utf-8")
    pattern = re.search(r"^const NAME = /(.*)/;$", source, re.MULTILINE)
    assert pattern is not None
    from cep.testing.rule_files import read_test_file

    for path in sorted((ROOT / "demos").rglob("*.test.yaml")):
        lines = path.read_text(encoding="utf-8").splitlines()
        matches = [re.match(pattern[1], line) for line in lines]
        found = [next(filter(None, each.groups())) for each in matches if each is not None]
        assert found == [each.name for each in read_test_file(path).tests]
