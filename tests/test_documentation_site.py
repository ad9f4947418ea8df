"""The navigation of the documentation site, and the lexer that colours programs. `make docs` builds the site."""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, String, Token

from cep.editor.pygments_lexer import CepLexer

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
PROGRAMS = sorted((ROOT / "demos").rglob("*.cep"))


def coloured(text: str) -> list[tuple[object, str]]:
    return [(kind, part) for kind, part in CepLexer().get_tokens(text) if part.strip()]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_program_has_no_errors_and_loses_no_character(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tokens = list(CepLexer().get_tokens_unprocessed(text))
    assert "".join(part for _, _, part in tokens) == text
    assert all(text.startswith(part, offset) for offset, _, part in tokens)
    assert not [part for _, kind, part in tokens if kind in Error]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_programs_of_a_page_lose_no_character(page: Path) -> None:
    for text in re.findall(r"^```cep.*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        tokens = CepLexer().get_tokens_unprocessed(text)
        assert "".join(part for _, _, part in tokens) == text


def test_colours() -> None:
    text = (
        "event reading(fridge: string, temp: float) TIME time. # hourly\n"
        'hot(F, max(T)) <- reading(F, T) WHERE T > 7, F != "x".'
    )
    assert coloured(text) == [
        (Keyword, "event"), (Name.Function, "reading"), (Token.Punctuation, "("), (Name, "fridge"),
        (Token.Punctuation, ":"), (Keyword.Type, "string"), (Token.Punctuation, ","), (Name, "temp"),
        (Token.Punctuation, ":"), (Keyword.Type, "float"), (Token.Punctuation, ")"), (Keyword, "TIME"), (Name, "time"),
        (Token.Punctuation, "."), (Comment, "# hourly\n"), (Name.Function, "hot"), (Token.Punctuation, "("),
        (Name.Variable, "F"), (Token.Punctuation, ","), (Name.Builtin, "max"), (Token.Punctuation, "("),
        (Name.Variable, "T"), (Token.Punctuation, ")"), (Token.Punctuation, ")"), (Operator, "<-"),
        (Name.Function, "reading"), (Token.Punctuation, "("), (Name.Variable, "F"), (Token.Punctuation, ","),
        (Name.Variable, "T"), (Token.Punctuation, ")"), (Keyword, "WHERE"), (Name.Variable, "T"), (Operator, ">"),
        (Number, "7"), (Token.Punctuation, ","), (Name.Variable, "F"), (Operator, "!="), (String, '"x"'),
        (Token.Punctuation, "."),
    ]  # fmt: skip


def test_a_graph_pattern_is_coloured_as_sparql() -> None:
    kinds = {part: kind for kind, part in coloured("a(S) <- b(S) WHERE { ?s a <http://x#Fridge> }.")}
    assert kinds["?s"] in Name.Variable and kinds["<http://x#Fridge>"] in Name.Label and kinds["WHERE"] is Keyword


@pytest.mark.parametrize("text", ["", "a(", 'a("', "a { ?x", "'", "\x00", "event a(b: in) <- %"])
def test_a_broken_program_is_coloured_too(text: str) -> None:
    assert "".join(part for _, _, part in CepLexer().get_tokens_unprocessed(text)) == text


def test_pygments_knows_the_lexer_by_the_name_of_the_suffix() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    module, _, name = declared["pygments.lexers"]["cep"].partition(":")
    assert getattr(import_module(module), name) is CepLexer and CepLexer.aliases == ("cep",)


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "docs/site/mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    assert len(named) == len(set(named)) and all((ROOT / name).is_file() for name in named)
    pages = {path.relative_to(ROOT).as_posix() for path in PAGES}
    assert pages | {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/editors/README.md"} <= set(named)
