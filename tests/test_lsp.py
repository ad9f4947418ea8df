"""`cep lsp`, asked by a client of the protocol over standard input and output."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient

from cep.compile import compile
from cep.core.errors import NOWHERE, CepError, CepErrors
from cep.editor.checking import Finding
from cep.editor.fixes import fixes
from cep.editor.positions import Positions
from cep.editor.symbols import Index
from tests.cli_runs import cep
from tests.waiting import turn

ROOT = Path(__file__).parent.parent
T = TypeVar("T")
PROGRAM = """\
PREFIX site: <http://example.org/site/>

# Readings of fridges, every ten minutes.
event reading(
    fridge: string FROM id,
    temp: float in -40..60   # degrees Celsius
) TIME time.
event door(fridge: string, open: bool).

# Above it food spoils.
PARAM Hot = 7.0 IN 5..12 STEP 0.5.
PARAM Patience = 15 min IN 5 min..1 h.

warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A > Hot, B > A, keeps(F, Food) WITHIN Patience.
# Nobody says anything.
silent(F) <- reading(F, _) UNLESS reading(fridge: F) WITHIN 30 min.
keeps(F, Food) :- { ?fridge site:id ?F ; site:keeps ?Food }.
ALERT warm ON warming(f: F, b: Temp) WHERE Temp > Hot TITLE "{F} is at {Temp}" FOR 1 h.
"""
TURTLE = """\
@prefix site: <http://example.org/site/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
site:milk site:id "milk" ; site:keeps "milk" .
site:keeps rdfs:label "keeps" ; rdfs:comment "the food that a fridge keeps" .
"""


class Editor:
    """An editor with one server; a call of the protocol is a call of a method."""

    def __init__(self, *options: str) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.told: dict[str, list[lsp.PublishDiagnosticsParams]] = {}
        self.version = 1
        self.client = LanguageClient("editor", "1")

        @self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def told(params: lsp.PublishDiagnosticsParams) -> None:
            self.told.setdefault(params.uri, []).append(params)

        self.wait(self.client.start_io(sys.executable, "-m", "cep", "lsp", *options, cwd=ROOT))
        start = lsp.InitializeParams(lsp.ClientCapabilities(), process_id=None)
        self.capabilities = self.wait(self.client.initialize_async(start)).capabilities
        self.client.initialized(lsp.InitializedParams())

    def wait(self, call: Coroutine[Any, Any, T], seconds: float = 120) -> T:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(seconds)

    def post(self, call: Any, params: Any) -> None:
        self.loop.call_soon_threadsafe(call, params)

    def close(self) -> None:
        self.wait(self.client.shutdown_async(None))
        self.post(self.client.exit, None)
        self.wait(self.client.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)


class Document:
    """A file that is open in an editor."""

    def __init__(self, editor: Editor, path: Path, text: str) -> None:
        self.editor, self.path, self.text = editor, path, text
        path.write_bytes(text.encode())
        self.uri = path.as_uri()
        self.id = lsp.TextDocumentIdentifier(self.uri)
        item = lsp.TextDocumentItem(self.uri, "cep", 1, text)
        editor.post(editor.client.text_document_did_open, lsp.DidOpenTextDocumentParams(item))

    def change(self, text: str) -> None:
        self.editor.version += 1
        self.text = text
        version = lsp.VersionedTextDocumentIdentifier(uri=self.uri, version=self.editor.version)
        changes: list[Any] = [lsp.TextDocumentContentChangeWholeDocument(text)]
        params = lsp.DidChangeTextDocumentParams(version, changes)
        self.editor.post(self.editor.client.text_document_did_change, params)

    def diagnostics(self) -> list[lsp.Diagnostic]:
        """The next that are sent."""
        end = time.monotonic() + 120
        while not self.editor.told.get(self.uri):
            assert time.monotonic() < end, "nothing was said about the program"
            self.editor.wait(turn(0.02))
        return list(self.editor.told.pop(self.uri)[-1].diagnostics)

    def at(self, mark: str, plus: int = 0) -> lsp.Position:
        return Positions(self.text).position(self.text.index(mark) + plus)

    def within(self, range_: lsp.Range) -> str:
        positions = Positions(self.text)
        return self.text[positions.offset(range_.start) : positions.offset(range_.end)]

    def hover(self, mark: str, plus: int = 0) -> str:
        call = self.editor.client.text_document_hover_async(lsp.HoverParams(self.id, self.at(mark, plus)))
        found = self.editor.wait(call)
        return "" if found is None else found.contents.value  # type: ignore[union-attr]

    def complete(self, mark: str, plus: int = 0) -> list[lsp.CompletionItem]:
        params = lsp.CompletionParams(self.id, self.at(mark, plus))
        found = self.editor.wait(self.editor.client.text_document_completion_async(params))
        assert isinstance(found, list)
        return sorted(found, key=lambda item: item.sort_text or "")

    def definition(self, mark: str, plus: int = 0) -> list[str]:
        params = lsp.DefinitionParams(self.id, self.at(mark, plus))
        return self.lines(self.editor.wait(self.editor.client.text_document_definition_async(params)))

    def references(self, mark: str, plus: int = 0, declaration: bool = True) -> list[str]:
        params = lsp.ReferenceParams(lsp.ReferenceContext(declaration), self.id, self.at(mark, plus))
        return self.lines(self.editor.wait(self.editor.client.text_document_references_async(params)))

    def rename(self, mark: str, name: str, plus: int = 0) -> str:
        """The text after it."""
        params = lsp.RenameParams(self.id, self.at(mark, plus), name)
        found = self.editor.wait(self.editor.client.text_document_rename_async(params))
        assert found is not None and found.changes is not None
        return self.edited(found.changes[self.uri])

    def actions(self, range_: lsp.Range) -> list[tuple[str, str]]:
        """Titles, each with the text after it."""
        params = lsp.CodeActionParams(self.id, range_, lsp.CodeActionContext([]))
        found = self.editor.wait(self.editor.client.text_document_code_action_async(params))
        made = []
        for each in found or []:
            assert isinstance(each, lsp.CodeAction) and each.edit is not None and each.edit.changes is not None
            made.append((each.title, self.edited(each.edit.changes[self.uri])))
        return made

    def formatted(self) -> str:
        params = lsp.DocumentFormattingParams(self.id, lsp.FormattingOptions(4, True))
        return self.edited(self.editor.wait(self.editor.client.text_document_formatting_async(params)) or [])

    def edited(self, edits: Any) -> str:
        positions, text = Positions(self.text), self.text
        for each in sorted(edits, key=lambda edit: positions.offset(edit.range.start), reverse=True):
            text = text[: positions.offset(each.range.start)] + each.new_text + text[positions.offset(each.range.end) :]
        return text

    def lines(self, found: Any) -> list[str]:
        """Places as `file:line:text`."""
        positions, made = Positions(self.text), []
        for each in found:
            word = self.text[positions.offset(each.range.start) : positions.offset(each.range.end)]
            made.append(f"{Path(each.uri).name}:{each.range.start.line + 1}:{word}")
        return made


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    editor = Editor()
    yield editor
    editor.close()


@pytest.fixture
def document(editor: Editor, tmp_path: Path) -> Document:
    """The program, with the knowledge that a test file beside it names."""
    (tmp_path / "site.ttl").write_text(TURTLE)
    tests = "program: fridge.cep\nknowledge: [site.ttl]\ntests:\n  - {name: a, given: {door: []}, none: silent}\n"
    (tmp_path / "fridge.test.yaml").write_text(tests)
    return Document(editor, tmp_path / "fridge.cep", PROGRAM)


def test_what_is_wrong_is_what_check_says(editor: Editor, tmp_path: Path) -> None:
    """Also behind characters that UTF-16 counts twice, and behind those that end lines for Python alone."""
    programs = [
        'fire(R) <- smoke(R) SEQ heat(R, C) WHERE C > "🔥🔥", C < Limit.\n',
        "event smoke(room: string).\nfire(R) <- smok(R), heat(R).\n",
        'event smoke(room: string).\n# one\u2028# two 🔥 % three\nx(R) <- smoke(R) WHERE R = "🔥", rom(R), Q = 1.\n',
        "event a(x: int).\nb(X) <- a(X) SEQ a(Y) WHERE X > Y.\nc(X) <- a(X) WHERE X > 5, X < 3.\n",
        "PARAM A = 3.\nb(X) <- a(X)",
        "",
    ]
    for number, text in enumerate(programs):
        document = Document(editor, tmp_path / f"p{number}.cep", text)
        told = document.diagnostics()
        printed = cep("check", str(document.path)).output
        for each in told:
            if each.code == "undeclared":
                assert each.message in printed.replace("\n", " ")
                continue
            message, _, hint = each.message.partition("\nhint: ")
            kind = "warning: " if each.severity == lsp.DiagnosticSeverity.Warning else ""
            begin = Positions(text).offset(each.range.start)
            lines = text[:begin].splitlines(keepends=True) or [""]
            whole = lines[-1] == lines[-1].splitlines()[-1] if lines[-1] else True
            line, column = (len(lines), len(lines[-1]) + 1) if whole else (len(lines) + 1, 1)
            place = f"{document.path}:{line}:{column}: " if each.code != "empty" else ""
            assert f"{place}{kind}{message}" in printed
            assert not hint or f"hint: {hint}" in printed
        counted = printed.count("hint: ") + printed.count(" is not declared: ")
        assert sum("hint: " in each.message or each.code == "undeclared" for each in told) == counted
        assert bool(told) == (number != 5 or "no rules" in printed)


def test_a_mistake_comes_and_goes(document: Document) -> None:
    assert document.diagnostics() == []
    document.change(PROGRAM.replace("A > Hot", "A > Hott"))
    (told,) = document.diagnostics()
    assert told.severity == lsp.DiagnosticSeverity.Error and document.within(told.range) == "Hott"
    document.change(PROGRAM)
    assert document.diagnostics() == []


def test_hover(document: Document) -> None:
    assert document.diagnostics() == []
    said = document.hover("reading(F, A)", 2)
    assert "event reading(" in said and "Readings of fridges, every ten minutes." in said
    assert "temp: float in -40..60" in document.hover("temp:") and "degrees Celsius" in document.hover("temp:")
    said = document.hover("warming(F, A, B)")
    assert "event warming(f: string, a: float, b: float)" in said and "derived by 1 rule" in said
    assert "Nobody says anything." in document.hover("silent(F)")
    assert "A: float" in document.hover("A > Hot") and "`temp` of `reading`" in document.hover("A > Hot")
    said = document.hover("Hot, B")
    assert "PARAM Hot = 7.0 IN 5..12 STEP 0.5." in said and "Above it food spoils." in said and "a float" in said
    assert "a duration" in document.hover("Patience.")
    assert "joins two events" in document.hover("SEQ")
    assert "needs a time limit" in document.hover("UNLESS")
    assert "a text" in document.hover("string")
    assert document.hover("fridge: F") and "of `reading`" in document.hover("fridge: F")
    said = document.hover("site:keeps", 7)
    assert "http://example.org/site/keeps" in said and "the food that a fridge keeps" in said
    assert "PREFIX site: <http://example.org/site/>" in document.hover("site:keeps", 1)
    assert document.hover("# Above", 3) == ""


def test_functions_are_explained(editor: Editor, tmp_path: Path) -> None:
    text = "event a(x: float).\nb(Y) <- a(X) WHERE Y = round(X, 1), D = duration().\n"
    text += "c(M) <- a(X) AGGREGATE M = median(X) OVER LAST 5 EVENTS.\n"
    document = Document(editor, tmp_path / "f.cep", text)
    document.diagnostics()
    assert "round(number, int?): int" in document.hover("round")
    assert "how long it lasted" in document.hover("duration")
    assert "an aggregate" in document.hover("median")
    assert "Y = round(X, 1)" in document.hover("Y)")


def test_completion(document: Document) -> None:
    assert document.diagnostics() == []
    words = [each.label for each in document.complete("reading(F, A)")]
    assert {"reading", "door", "warming", "silent", "SEQ", "Hot", "round", "site:", "sosa:"} <= set(words)
    first = [each.label for each in document.complete("reading(fridge: F)", len("reading("))]
    assert first[:2] == ["fridge: ", "temp: "]
    assert [each.label for each in document.complete("site:keeps", 5)] == ["id", "keeps", "milk"]
    types = [each.label for each in document.complete("temp: float", 6)]
    assert "duration" in types and "reading" not in types
    assert [each.label for each in document.complete("PARAM Hot")][:2] == ["ALERT", "PARAM"]
    assert document.complete("# Above", 4) == []
    in_where = [each.label for each in document.complete("A > Hot")]
    assert in_where.index("A") < in_where.index("reading")
    chosen = next(each for each in document.complete("reading(F, A)", 4) if each.label == "reading")
    assert chosen.text_edit is not None and document.within(chosen.text_edit.range) == "read"  # type: ignore[union-attr]


def test_definitions_and_references(document: Document) -> None:
    assert document.definition("reading(F, A)") == ["fridge.cep:4:reading"]
    assert document.definition("warming(f: F") == ["fridge.cep:14:warming"]
    assert document.definition("Hot, B") == ["fridge.cep:11:Hot"]
    assert document.definition("fridge: F)") == ["fridge.cep:5:fridge"]
    assert document.definition("keeps(F, Food) W") == ["fridge.cep:17:keeps"]
    assert document.definition("site:keeps") == ["fridge.cep:1:site"]
    assert document.references("reading(F, A)") == [f"fridge.cep:{line}:reading" for line in (4, 14, 14, 16, 16)]
    assert len(document.references("reading(F, A)", declaration=False)) == 4
    assert document.references("Temp > Hot") == ["fridge.cep:18:Temp"] * 3
    assert document.references("fridge: string, open") == ["fridge.cep:8:fridge"]


def test_rename(document: Document) -> None:
    made = document.rename("reading(F, A)", "measured")
    assert made == PROGRAM.replace("reading(", "measured(")
    made = document.rename("Hot = 7.0", "TooHot")
    assert made == PROGRAM.replace("Hot", "TooHot")
    made = document.rename("Food) W", "Goods")
    assert made == PROGRAM.replace("keeps(F, Food) W", "keeps(F, Goods) W")
    made = document.rename("Temp > Hot", "Warmth")
    assert made == PROGRAM.replace("b: Temp", "b: Warmth").replace("Temp >", "Warmth >").replace("{Temp}", "{Warmth}")
    made = document.rename("?Food", "Meal", 1)
    assert made == PROGRAM.replace("keeps(F, Food) :-", "keeps(F, Meal) :-").replace("?Food", "?Meal")
    made = document.rename("fridge: F)", "id")
    assert made == PROGRAM.replace("fridge: string FROM id", "id: string FROM id").replace(
        "reading(fridge:", "reading(id:"
    )
    for mark, name, told in (
        ("reading(F, A)", "door", "the name of an event already"),
        ("reading(F, A)", "Reading", "names start with a lower-case letter"),
        ("reading(F, A)", "where", "a keyword"),
        ("Food) W", "A", "a variable here already"),
        ("Food) W", "food", "variables and parameters start with an upper-case letter"),
        ("Food) W", "Hot", "a parameter already"),
        ("SEQ", "x", "can be renamed"),
    ):
        with pytest.raises(JsonRpcException, match=told):
            document.rename(mark, name)


def test_a_refused_name_is_no_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    editor = Editor()
    document = Document(editor, tmp_path / "a.cep", PROGRAM)
    with pytest.raises(JsonRpcException, match="a keyword"):
        document.rename("reading(F, A)", "where")
    editor.close()
    assert "Traceback" not in capfd.readouterr().err


def test_other_files_of_the_program(editor: Editor, tmp_path: Path) -> None:
    """Those that a test file names together, also those that are not open."""
    (tmp_path / "x.test.yaml").write_text("program: [a.cep, b.cep]\ntests: [{name: a, input: [], none: [late]}]\n")
    (tmp_path / "b.cep").write_text("PARAM Wait=5 min.\nlate(X) <- early(X) UNLESS seen(X) WITHIN Wait.\n")
    text = "event seen(x: int).\nearly(X)<-seen(X) SEQ seen(X) WITHIN Wait.\n"
    document = Document(editor, tmp_path / "a.cep", text)
    assert document.diagnostics() == []
    params = lsp.ReferenceParams(lsp.ReferenceContext(True), document.id, document.at("early"))
    found = editor.wait(editor.client.text_document_references_async(params))
    assert sorted(Path(each.uri).name for each in found or []) == ["a.cep", "b.cep"]
    assert "a duration" in document.hover("Wait")
    assert document.formatted() == text.replace("<-", " <- ")
    other = Document(
        editor, tmp_path / "b.cep", "PARAM Wait = 5 min.\nlate(X) <- early(Y) UNLESS seen(X) WITHIN Wait.\n"
    )
    assert any("X" in each.message for each in other.diagnostics())


A = "event a(x: int).\n"
P = "PARAM Many = 3. PARAM Patience = 5 min.\n" + A


@pytest.mark.parametrize(
    ("text", "title", "fixed"),
    [
        (
            "event smoke(room: string).\na(R) <- smoke(rom: R).\n",
            "room",
            "event smoke(room: string).\na(R) <- smoke(room: R).\n",
        ),
        (A + "b(X) <- a(X) WITHIN 3 hours.\n", "3 h", A + "b(X) <- a(X) WITHIN 3 h.\n"),
        (A + "b(X) <- a(X) WITHN 3 s.\n", "WITHIN", A + "b(X) <- a(X) WITHIN 3 s.\n"),
        (A + "b(X) <- a(X) WHERE Y = rond(X).\n", "round", A + "b(X) <- a(X) WHERE Y = round(X).\n"),
        (A + "b(X) <- a(X);\n", ".", A + "b(X) <- a(X).\n"),
        (A + "b(X) <- a(X)\nc(X) <- a(X).\n", ".", A + "b(X) <- a(X).\nc(X) <- a(X).\n"),
        (A + "b(X) <- a(X) WHERE X > 1 AND X < 5.\n", ",", A + "b(X) <- a(X) WHERE X > 1, X < 5.\n"),
        ("# one\nb(X) <- c(x: X).\n", None, "# one\nevent c(x: float).\nb(X) <- c(x: X).\n"),
        ("event a(x: itn).\nb(X) <- a(X).\n", "int", A + "b(X) <- a(X).\n"),
        (P + "b(X) <- a(X) WHERE X > Manny.\n", "Many", P + "b(X) <- a(X) WHERE X > Many.\n"),
        (P + "b(X) <- a(X) TIMES 2 WITHIN Patince.\n", "Patience", P + "b(X) <- a(X) TIMES 2 WITHIN Patience.\n"),
        (
            A + "b(X) <- a(X) AGGREGATE M = averge(X) OVER LAST 3 EVENTS.\n",
            "avg",
            A + "b(X) <- a(X) AGGREGATE M = avg(X) OVER LAST 3 EVENTS.\n",
        ),
    ],
)
def test_quick_fixes(editor: Editor, tmp_path: Path, text: str, title: str | None, fixed: str) -> None:
    """Those that hints propose; none leaves the mistake that it is for."""
    document = Document(editor, tmp_path / "fix.cep", text)
    told = [each for each in document.diagnostics() if each.severity == 1]
    actions = [action for each in told for action in document.actions(each.range)]
    assert fixed in dict(actions).values(), actions
    assert title is None or f"write `{title}`" in dict(actions)
    for _, after in actions:
        document.change(after)
        assert not {each.message for each in document.diagnostics()} & {each.message for each in told}


def test_a_quick_fix_knows_parameters_of_other_files(editor: Editor, tmp_path: Path) -> None:
    (tmp_path / "x.test.yaml").write_text("program: [a.cep, b.cep]\ntests: [{name: a, input: [], none: [b]}]\n")
    (tmp_path / "b.cep").write_text("PARAM Patience = 5 min. PARAM Many = 3.\n")
    text = A + "b(X) <- a(X) TIMES 2 WITHIN Patince.\n"
    document = Document(editor, tmp_path / "a.cep", text)
    (told,) = [each for each in document.diagnostics() if each.severity == 1]
    assert document.actions(told.range) == [("write `Patience`", text.replace("Patince", "Patience"))]
    document.change(text.replace("Patince", "Patience"))
    assert document.diagnostics() == []


def test_every_hint_that_says_what_to_write_is_a_fix() -> None:
    """Of all mistakes that are written down; with the fix the mistake is no longer made."""
    tried = 0
    for path in sorted((ROOT / "tests/mistakes").glob("*.txt")):
        for part in path.read_text(encoding="utf-8").split("====\n"):
            text = part.partition("--\n")[0]
            for wrong in mistakes(text):
                finding = Finding("error", wrong.message, wrong.hint, wrong.code, path, wrong.span or NOWHERE)
                found = fixes(Index(text), finding, "rules.cep", {})
                says = wrong.hint is not None and ("did you mean `" in wrong.hint or wrong.hint.startswith("write `"))
                assert found or not says, (text, wrong.hint)
                for each in found:
                    after = text[: each.start] + each.new + text[each.end :]
                    assert wrong.message not in [one.message for one in mistakes(after)], after
                    tried += 1
    assert tried > 80


def mistakes(text: str) -> tuple[CepError, ...]:
    try:
        compile(text, "rules.cep")
    except CepError as error:
        return error.errors if isinstance(error, CepErrors) else (error,)
    return ()


def test_what_has_no_fix(editor: Editor, tmp_path: Path) -> None:
    document = Document(editor, tmp_path / "fix.cep", A + "b(X, Y) <- a(X).\n")
    (told,) = [each for each in document.diagnostics() if each.severity == 1]
    assert document.actions(told.range) == []
    document.change(A + "b(X) <- a(X).\n")
    assert document.diagnostics() == [] and document.actions(told.range) == []


def test_formatting_and_symbols(document: Document) -> None:
    document.change("event  a( x:int ).\nb(X)<-a(X).\n")
    assert document.formatted() == "event a(x: int).\nb(X) <- a(X).\n"
    found = document.editor.wait(
        document.editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document.id))
    )
    assert [(each.name, each.kind) for each in found or []] == [
        ("a", lsp.SymbolKind.Event),
        ("b", lsp.SymbolKind.Function),
    ]
    document.change("b(X) <- ,")
    assert document.formatted() == "b(X) <- ,"


def test_a_file_that_is_half_written(document: Document) -> None:
    """Whatever is missing, all requests are answered; what is whole is still known."""
    assert document.diagnostics() == []
    document.change(PROGRAM[: PROGRAM.index("SEQ reading")] + "SEQ ")
    assert document.diagnostics()
    assert "event reading(" in document.hover("reading(F, A)")
    assert "reading" in [each.label for each in document.complete("SEQ ", 4)]
    document.change(PROGRAM.replace("{ ?fridge", "{ { ?fridge"))
    assert document.diagnostics()
    assert document.references("warming(F") == ["fridge.cep:14:warming", "fridge.cep:18:warming"]


def test_any_text_is_answered() -> None:
    """Pieces of programs cut at random places never break the index."""
    rng = random.Random(0)
    texts = [path.read_text() for path in sorted((ROOT / "demos").rglob("*.cep"))]
    for _ in range(300):
        text = rng.choice(texts)
        begin, end = sorted(rng.randrange(len(text)) for _ in range(2))
        cut = text[:begin] + rng.choice(("", "{", '"', "(", ".", "<-", "event ", "🔥")) + text[end:]
        index = Index(cut)
        for one in index.occurrences:
            assert cut[one.start : one.end].upper() == one.name.upper()
            assert one in index.same(one)
        for offset in range(0, len(cut), 97):
            index.at(offset)
            index.statement_at(offset)


def test_every_mark_of_a_name_is_found_again() -> None:
    """An event of the demos is renamed, and the program is the same but for its name."""
    for path in sorted((ROOT / "demos").rglob("*.cep")):
        text = path.read_text()
        index = Index(text)
        for name, kind in index.own_names.items():
            one = next(each for each in index.occurrences if each.name == name and each.kind == kind)
            made = text
            for each in reversed(index.same(one)):
                made = made[: each.start] + f"{name}_z" + made[each.end :]
            assert Index(made).own_names.keys() == (index.own_names.keys() - {name}) | {f"{name}_z"}
        if "{" not in text:  # knowledge is elsewhere
            for name in index.own_names:
                one = next(each for each in index.occurrences if each.name == name and each.kind != "variable")
                made = text
                for each in reversed(index.same(one)):
                    made = made[: each.start] + f"{name}_z" + made[each.end :]
                assert compile(made).plan.inputs == {
                    each if each != name else f"{name}_z" for each in compile(text).plan.inputs
                }


@pytest.mark.parametrize(
    "encoding", [lsp.PositionEncodingKind.Utf8, lsp.PositionEncodingKind.Utf16, lsp.PositionEncodingKind.Utf32]
)
def test_positions(encoding: lsp.PositionEncodingKind) -> None:
    text = "a\r\nb🔥c\n\nü\u2028é🔥"
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        if text[offset - 1 : offset + 1] != "\r\n":
            assert positions.offset(positions.position(offset)) == offset
    units = {"utf-8": 5, "utf-16": 3, "utf-32": 2}[encoding.value]
    assert positions.position(text.index("c")) == lsp.Position(1, units)
    assert positions.offset(lsp.Position(9, 9)) == len(text) and positions.offset(lsp.Position(0, 99)) == 1


def test_a_thousand_rules_are_answered_while_they_are_checked(editor: Editor, tmp_path: Path) -> None:
    lines = ["event reading(station: string, wind: float, temp: float) TIME time."]
    for n in range(1_000):
        lines.append(
            f"storm_{n}(S, W) <- (reading(S, W, T) SEQ reading(S, V, _) WHERE W > {n}.5, V > W) WITHIN {n + 1} min."
        )
    text = "\n".join(lines) + "\n"
    document = Document(editor, tmp_path / "big.cep", text)
    document.diagnostics()
    seconds = []
    for n in range(6):
        document.change(text + f"calm_{n}(S) <- storm_{n}(S, _).\n")
        begin = time.monotonic()
        assert "event reading(" in document.hover("reading(S, W, T)")
        assert any(each.label == "storm_999" for each in document.complete("reading(S, W, T)"))
        assert len(document.references("reading(S, W, T)")) == 2_001
        seconds.append(time.monotonic() - begin)
    assert sorted(seconds)[2] < 6, seconds  # 0.3 s where nothing else runs
    assert [each for each in document.diagnostics() if each.severity == 1] == []


def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygls", None)
    monkeypatch.delitem(sys.modules, "cep.editor.server", raising=False)
    result = cep("lsp")
    assert (
        result.exit_code == 2 and "needs a library for the protocol" in result.output and "pip install" in result.output
    )


def test_knowledge_by_option(tmp_path: Path) -> None:
    (tmp_path / "site.ttl").write_text(TURTLE)
    editor = Editor("--knowledge", str(tmp_path / "site.ttl"))
    document = Document(
        editor, tmp_path / "a.cep", "PREFIX site: <http://example.org/site/>\na(X) :- triple(X, site:, _).\n"
    )
    document.diagnostics()
    assert [each.label for each in document.complete("site:,", 5)] == ["id", "keeps", "milk"]
    assert json.loads(json.dumps(editor.capabilities.position_encoding)) == "utf-16"
    editor.close()
