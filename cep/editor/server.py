"""A language server (LSP). It answers an editor's requests over standard input and output."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer

from cep.app.terminal import text_of
from cep.core.errors import CepError
from cep.editor.answers import Place, Program, Proposal
from cep.editor.checking import Checker, Finding, Setup, Understood
from cep.editor.fixes import extent, fixes
from cep.editor.positions import Positions
from cep.editor.prefixed import Prefixed
from cep.editor.symbols import Index, Statement
from cep.language.reading import OWN, dialect_of, formatted

PAUSE = 0.25
"""The number of seconds without a change after which a program is checked."""
_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}
_KINDS = {
    "event": lsp.CompletionItemKind.Event,
    "fluent": lsp.CompletionItemKind.Class,
    "predicate": lsp.CompletionItemKind.Function,
    "attribute": lsp.CompletionItemKind.Field,
    "parameter": lsp.CompletionItemKind.Constant,
    "variable": lsp.CompletionItemKind.Variable,
    "function": lsp.CompletionItemKind.Function,
    "keyword": lsp.CompletionItemKind.Keyword,
    "type": lsp.CompletionItemKind.TypeParameter,
    "prefix": lsp.CompletionItemKind.Module,
    "iri": lsp.CompletionItemKind.Reference,
}
_SYMBOLS = {
    "event": lsp.SymbolKind.Event,
    "fluent": lsp.SymbolKind.Class,
    "fact": lsp.SymbolKind.Struct,
    "parameter": lsp.SymbolKind.Constant,
    "alert": lsp.SymbolKind.Interface,
    "rule": lsp.SymbolKind.Function,
    "static": lsp.SymbolKind.Function,
    "while": lsp.SymbolKind.Function,
    "prefix": lsp.SymbolKind.Namespace,
}


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return False if a log record is about a refused request, such as an invalid name. The editor receives such a
    message anyway."""
    return record.exc_info is None or not isinstance(record.exc_info[1], JsonRpcInvalidParams)


class RuleServer(LanguageServer):
    """A language server, and the programs that are open in the editor."""

    def __init__(self, checker: Checker) -> None:
        try:
            number = version("semcep")
        except PackageNotFoundError:
            number = "0"
        # Editors send whole texts, because editors and Python split lines differently at unusual line breaks.
        super().__init__("semcep", number, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        logging.getLogger("pygls.protocol.json_rpc").addFilter(_is_unexpected)
        self.checker = checker
        self.prefixed = Prefixed()
        self.opened: dict[Path, str] = {}
        """The address (URI) of each open document, by path."""
        self.setups: dict[Path, Setup] = {}
        self.understood: dict[tuple[Path, ...], Understood] = {}
        self._indexes: dict[Path, tuple[tuple[str, ...], Index]] = {}
        self._positions: dict[str, Positions] = {}
        """The line and column converters of recently used texts, by text."""
        self._waiting: dict[tuple[Path, ...], asyncio.Task[None]] = {}
        self._checks = ThreadPoolExecutor(1, "check")

    # -- documents

    def path(self, uri: str) -> Path:
        """Return the path of a document. If the document is not saved yet, the path is made from its address."""
        file = uris.to_fs_path(uri)
        return Path(file) if file and uri.startswith("file:") else Path(re.sub(r"^\w+:", "", uri) + OWN)

    def open(self, uri: str) -> None:
        path = self.path(uri)
        self.opened[path] = uri
        self.setups[path] = self.checker.setup(path)
        self.check_later(path)

    def close(self, uri: str) -> None:
        path = self.path(uri)
        self.opened.pop(path, None)
        self.setups.pop(path, None)
        self._indexes.pop(path, None)
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def text(self, path: Path) -> str:
        """Return the current text of a file. Raises CepError if the file cannot be read."""
        uri = self.opened.get(path)
        return text_of(path) if uri is None else self.workspace.get_text_document(uri).source

    def setup(self, path: Path) -> Setup:
        return self.setups.get(path) or Setup((path,))

    def is_own(self, path: Path) -> bool:
        """Return True if a file is in the language of events and fluents, not in another dialect."""
        try:
            return dialect_of(str(path), self.setup(path).dialect) is None
        except CepError:
            return False

    def program(self, path: Path) -> Program:
        """Return the program to which a file belongs, with the current texts of its files."""
        setup = self.setup(path)
        texts: dict[Path, str] = {}
        for file in dict.fromkeys((path, *setup.files)):
            try:
                if self.is_own(file):
                    texts[file] = self.text(file)
            except CepError:
                continue  # the file does not exist yet
        every = tuple(texts.values())
        plain = {file: Index(text) for file, text in texts.items() if self._indexes.get(file, ((),))[0] != every}
        for file, index in plain.items():
            index.others = [plain[other] for other in plain if other != file]
            self._indexes[file] = every, index
        indexes = {text: self._indexes[text][1] for text in texts}
        return Program(indexes, self.understood.get(setup.files, Understood()), self.prefixed)

    def positions(self, text: str) -> Positions:
        if text not in self._positions:
            self._positions = {**dict(list(self._positions.items())[-8:]), text: Positions(text, self.encoding)}
        return self._positions[text]

    @property
    def encoding(self) -> lsp.PositionEncodingKind | str | None:
        """Return the encoding in whose units the editor counts columns."""
        return self.workspace.position_encoding

    def location(self, place: Place) -> lsp.Location:
        text = self.text(place.path)
        uri = self.opened.get(place.path) or uris.from_fs_path(str(place.path)) or ""
        return lsp.Location(uri, self.positions(text).range(place.start, place.end))

    # -- what is wrong

    def check_later(self, path: Path) -> None:
        """Check the program of a file when it has not changed for a moment."""
        setup = self.setup(path)
        if (before := self._waiting.pop(setup.files, None)) is not None:
            before.cancel()
        self._waiting[setup.files] = asyncio.get_running_loop().create_task(self._check(setup))

    async def _check(self, setup: Setup) -> None:
        await asyncio.sleep(PAUSE)
        texts = {path: self.text(path) for path in setup.files if path in self.opened}

        def text(path: Path) -> str:
            return texts[path] if path in texts else text_of(path)

        loop = asyncio.get_running_loop()
        self.understood[setup.files] = understood = await loop.run_in_executor(
            self._checks, self.checker.check, setup, text
        )
        for path in setup.files:
            if path in self.opened and self.text(path) == texts.get(path):
                self.publish(path, understood)

    def publish(self, path: Path, understood: Understood) -> None:
        """Send the findings in an open file to the editor."""
        index = Index(self.text(path))
        sent = [self._diagnostic(index, finding) for finding in understood.findings if finding.path == path]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(self.opened[path], sent))

    def _diagnostic(self, index: Index, finding: Finding) -> lsp.Diagnostic:
        message = finding.message if finding.hint is None else f"{finding.message}\nhint: {finding.hint}"
        start, end = extent(index, finding)
        if finding.code == "undeclared" and (name := re.match(r"`(\w+)`", message)) is not None:
            first = next(
                (
                    occurrence
                    for occurrence in index.occurrences
                    if occurrence.name == name[1] and occurrence.kind == "name"
                ),
                None,
            )
            start, end = (start, end) if first is None else (first.start, first.end)
        return lsp.Diagnostic(
            self.positions(index.text).range(start, end),
            message,
            severity=_SEVERITIES[finding.severity],
            code=finding.code,
            source="cep",
        )

    def fixes(self, path: Path, range: lsp.Range) -> list[lsp.CodeAction]:
        """Return the quick fixes for the findings that are in a range of a file."""
        text = self.text(path)
        index, positions, uri = Index(text), self.positions(text), self.opened[path]
        begin, end = positions.offset(range.start), positions.offset(range.end)
        beside = {str(file): other.text for file, other in self.program(path).indexes.items()}
        actions = []
        for finding in self.understood.get(self.setup(path).files, Understood()).findings:
            start, stop = extent(index, finding)
            if finding.path != path or stop < begin or end < start:
                continue
            for fix in fixes(index, finding, str(path), beside):
                edit = lsp.TextEdit(positions.range(fix.start, fix.end), fix.new)
                actions.append(
                    lsp.CodeAction(
                        fix.title,
                        lsp.CodeActionKind.QuickFix,
                        [self._diagnostic(index, finding)],
                        is_preferred=True,
                        edit=lsp.WorkspaceEdit({uri: [edit]}),
                    )
                )
        return actions


def rule_server(knowledge: Sequence[str] = (), reasoning: str | None = None) -> RuleServer:
    """Create a language server. `knowledge`: the files of knowledge for every program."""
    server = RuleServer(Checker(knowledge, reasoning))
    trigger = [".", ":", "(", ",", " "]

    @server.feature(lsp.INITIALIZE)
    def initialise(params: lsp.InitializeParams) -> None:
        options = params.initialization_options
        more = options.get("knowledge", ()) if isinstance(options, dict) else ()
        root = uris.to_fs_path(params.root_uri) if params.root_uri else None
        base = Path(root or ".")
        server.checker.knowledge += tuple(str(base / file) if (base / file).exists() else str(file) for file in more)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.open(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.check_later(server.path(params.text_document.uri))

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        server.open(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        server.close(params.text_document.uri)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def files_changed(params: lsp.DidChangeWatchedFilesParams) -> None:
        for uri in list(server.opened.values()):
            server.open(uri)

    def where(document: lsp.TextDocumentIdentifier, position: lsp.Position) -> tuple[Program, Path, int, Positions]:
        path = server.path(document.uri)
        positions = server.positions(server.text(path))
        return server.program(path), path, positions.offset(position), positions

    def own(document: lsp.TextDocumentIdentifier) -> bool:
        path = server.path(document.uri)
        return path in server.opened and server.is_own(path)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        if not own(params.text_document):
            return None
        program, path, offset, positions = where(params.text_document, params.position)
        hovered = program.hover(path, offset)
        if hovered is None:
            return None
        said, occurrence = hovered
        return lsp.Hover(
            lsp.MarkupContent(lsp.MarkupKind.Markdown, said), positions.range(occurrence.start, occurrence.end)
        )

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=trigger))
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        if not own(params.text_document):
            return []
        program, path, offset, positions = where(params.text_document, params.position)
        text = program.indexes[path].text
        typed = re.search(r"[\w-]*$" if re.search(r":[\w-]*$", text[:offset]) else r"\w*$", text[:offset])
        place = positions.range(offset - len(typed[0] if typed else ""), offset)
        return [_item(proposal, place) for proposal in program.complete(path, offset)]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def definition(params: lsp.DefinitionParams) -> list[lsp.Location]:
        if not own(params.text_document):
            return []
        program, path, offset, _ = where(params.text_document, params.position)
        return [server.location(definition) for definition in program.definitions(path, offset)]

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def references(params: lsp.ReferenceParams) -> list[lsp.Location]:
        if not own(params.text_document):
            return []
        program, path, offset, _ = where(params.text_document, params.position)
        declared = [] if params.context.include_declaration else program.definitions(path, offset)
        return [server.location(place) for place in program.places(path, offset) if place not in declared]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlight(params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
        if not own(params.text_document):
            return []
        program, path, offset, positions = where(params.text_document, params.position)
        places = [place for place in program.places(path, offset) if place.path == path]
        return [lsp.DocumentHighlight(positions.range(place.start, place.end)) for place in places]

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
        if not own(params.text_document):
            return None
        program, path, offset, positions = where(params.text_document, params.position)
        occurrence = program.indexes[path].at(offset)
        if occurrence is None:
            return None
        try:
            program.rename(path, offset, occurrence.name)
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return lsp.PrepareRenamePlaceholder(positions.range(occurrence.start, occurrence.end), occurrence.name)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        if not own(params.text_document):
            return None
        program, path, offset, _ = where(params.text_document, params.position)
        changes: dict[str, list[lsp.TextEdit]] = {}
        try:
            for renamed in program.rename(path, offset, params.new_name):
                location = server.location(renamed)
                changes.setdefault(location.uri, []).append(lsp.TextEdit(location.range, params.new_name))
        except ValueError as error:
            raise JsonRpcInvalidParams(str(error)) from None
        return lsp.WorkspaceEdit(changes)

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix]))
    def actions(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        return server.fixes(server.path(params.text_document.uri), params.range) if own(params.text_document) else []

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def layout(params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
        if not own(params.text_document):
            return []
        path = server.path(params.text_document.uri)
        text = server.text(path)
        beside = {str(file): index.text for file, index in server.program(path).indexes.items()}
        try:
            laid_out = formatted(text, str(path), beside)
        except CepError:
            return []  # the error is already shown
        return [] if laid_out == text else [lsp.TextEdit(server.positions(text).whole, laid_out)]

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def symbols(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        if not own(params.text_document):
            return []
        text = server.text(server.path(params.text_document.uri))
        positions = server.positions(text)
        return [_symbol(statement, positions) for statement in Index(text).statements if statement.name is not None]

    return server


def _item(proposal: Proposal, place: lsp.Range) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        proposal.word,
        kind=_KINDS.get(proposal.kind),
        detail=proposal.detail or None,
        documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, proposal.says) if proposal.says else None,
        sort_text=f"{proposal.rank}{proposal.word}",
        filter_text=proposal.word,
        text_edit=lsp.TextEdit(place, proposal.word),
    )


def _symbol(statement: Statement, positions: Positions) -> lsp.DocumentSymbol:
    assert statement.name is not None, "only named statements are listed"
    return lsp.DocumentSymbol(
        statement.name.text,
        _SYMBOLS.get(statement.kind, lsp.SymbolKind.Function),
        positions.range(statement.start, statement.end),
        positions.range(statement.name.start, statement.name.end),
        statement.kind,
    )
