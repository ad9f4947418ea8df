"""Reader of programs in any dialect. An option, or the suffix of the file's name, selects the dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from cep.core.errors import CepError, CepErrors, Files, Mistakes, Source
from cep.core.literals import SECOND
from cep.core.suggest import did_you_mean
from cep.language.files import apart, blended
from cep.language.merging import FileTree, MergedFiles, one_program
from cep.language.spelled_names import spelled
from cep.language.syntax import ast
from cep.language.syntax.formatter import formatted as _formatted
from cep.language.syntax.parameters import collect
from cep.language.syntax.parser import LONGEST as LONGEST
from cep.language.syntax.parser import parse
from cep.language.syntax.parser import too_long as too_long
from cep.language.syntax.printer import print_program
from cep.language.syntax.recovery import Recovery
from cep.rules.parameters import Parameters

if TYPE_CHECKING:
    from cep.language.dialects.lars.answer_set_options import AnswerSetOptions
    from cep.language.dialects.lars.ast import LarsProgram
    from cep.language.link import Together

SUFFIXES = {".dmtl": "datalogmtl", ".prolog": "rtec", ".rtec": "rtec", ".lars": "lars", ".laser": "laser"}
"""The dialect of each file suffix. All other files are in our own language."""
OWN = ".cep"
"""The suffix of files in our own language."""
LARS = ("lars", "laser", "lars/n", "laser/n")
"""The two notations of LARS. With `/n`, a window `[n]` has n ticks instead of n + 1."""


def _read_datalogmtl(source: Source, tick: int, parameters: Parameters) -> ast.SyntaxTree:
    from cep.language.dialects.datalogmtl.reader import read

    return read(source, tick, parameters)


def _read_rtec(source: Source, tick: int, parameters: Parameters) -> ast.SyntaxTree:
    from cep.language.dialects.rtec.reader import read

    return read(source, tick, parameters)


_READERS: Mapping[str, Callable[[Source, int, Parameters], ast.SyntaxTree]] = {
    "datalogmtl": _read_datalogmtl,
    "rtec": _read_rtec,
}
DIALECTS = (*_READERS, *(name for name in LARS if not name.endswith("/n")))


def dialect_of(name: str, dialect: str | None = None) -> str | None:
    """Return the dialect of a program, or None for our own language. Raises CepError for an unknown dialect.

    `dialect` takes precedence over the suffix of the file name. If `dialect` is only `/n`, the suffix selects the
    dialect.
    """
    asked = (dialect or "").removesuffix("/n")
    counted = "/n" if dialect is not None and dialect.endswith("/n") else ""
    language = asked or next(
        (suffix_language for suffix, suffix_language in SUFFIXES.items() if name.endswith(suffix)), None
    )
    if language is not None and language not in DIALECTS:
        hint = did_you_mean(language, DIALECTS) or f"the dialects are {', '.join(DIALECTS)}"
        raise CepError(f"--dialect: `{language}` is not a dialect", hint=hint, code="option")
    if counted and f"{language}/n" not in LARS:
        hint = "it sets how windows of LARS count, so it needs `.lars` files or `--dialect laser`"
        raise CepError("--window: this is not a program of LARS", hint=hint, code="option")
    return None if language is None else language + counted


def dialect_of_file(name: str, dialect: str | None = None) -> str | None:
    """Return the dialect of a program's file, or None for our own language. Raises CepError for an unknown dialect.

    A known suffix of the file name takes precedence over `dialect`.
    """
    if name.endswith(OWN):
        return None
    of_suffix = next((language for suffix, language in SUFFIXES.items() if name.endswith(suffix)), None)
    counted = "/n" if dialect is not None and dialect.endswith("/n") else ""
    if of_suffix is None:
        return dialect_of(name, (dialect or "").removesuffix("/n") or None)
    return dialect_of(name, of_suffix + (counted if of_suffix in LARS else ""))


def dialects_of(name: str, dialect: str | None, files: Files) -> tuple[str | None, ...]:
    """Return the dialect of each file of a program, or of the program if `files` is empty. Raises CepError for an
    unknown dialect."""
    return tuple(dialect_of_file(file, dialect) for file, _ in files) if files else (dialect_of(name, dialect),)


def lars_program(
    text: str, name: str = "<program>", dialect: str | None = None, tick: int | None = None
) -> LarsProgram | None:
    """Read a LARS program. Return None if the text is in another dialect. Raises CepError with all mistakes."""
    language = dialect_of(name, dialect)
    if language not in LARS:
        return None
    if len(text) > LONGEST:
        raise too_long(name)
    from cep.language.dialects.lars.programs import program_of

    return program_of(Source(text, name), language, SECOND if tick is None else tick)


def converted(text: str, name: str = "<program>", dialect: str | None = None, tick: int | None = None) -> str:
    """Translate a program to our own language, or a LARS program to Ticker's syntax. Raises CepError with all
    mistakes."""
    lars = lars_program(text, name, dialect, tick)
    if lars is not None:
        from cep.language.dialects.lars.printer import print_program as print_lars

        return print_lars(lars)
    return print_program(spelled(read(text, name, dialect, tick)))


def formatted(text: str, name: str = "<program>", beside: Mapping[str, str] | None = None) -> str:
    """Return a program in its usual layout. Raises CepError if it has mistakes or is in another dialect.

    `beside`: the texts of files that may declare the program's parameters, by file name.
    """
    language = dialect_of(name)
    if language is not None:
        hint = "`cep convert` prints it in the language of events and fluents, without its comments"
        message = f"{name}: this is a program in {language}; `cep fmt` lays out only `.cep` programs"
        raise CepError(message, hint=None if language in LARS else hint, code="option")
    source = Source(text, name)
    try:
        return _formatted(source)
    except CepError:
        with suppress(CepError):
            return _formatted(source, parameters_with(source, beside or {}))
        raise


def parameters_with(source: Source, beside: Mapping[str, str]) -> Parameters:
    """Return the parameters that the files of a program declare. Statements that have mistakes are ignored.

    `source`: one of the files. `beside`: the texts of the other files, by file name. The text of `source` in it is
    ignored.
    """
    parameters = Parameters()
    for file, text in {**beside, source.name: source.text}.items():
        with suppress(CepError):
            if dialect_of(file) is None:
                collect(Source(text, file), parameters)
    return parameters


def together(
    text: str,
    name: str,
    files: Files,
    dialect: str | None = None,
    tick: int | None = None,
    answer_sets: AnswerSetOptions | None = None,
    parameters: Parameters | None = None,
    recovery: Recovery | None = None,
) -> Together:
    """Read a program that consists of several files. Raises CepError with all mistakes.

    - `text`: the joined texts of the files.
    - `parameters`: the parameters of the program.
    - `recovery`: a collector of mistakes. It already contains the mistakes in PARAM statements.
    """
    from cep.language.link import Together

    ticks = SECOND if tick is None else tick
    asked = dialects_of(name, dialect, files)
    some_lars = any(language in LARS for language in asked)
    if dialect is not None:  # checked even if the suffixes decide every dialect
        dialect_of("", dialect.removesuffix("/n") if some_lars else dialect)
    if answer_sets is not None and not some_lars:
        raise _no_answer_streams()
    if tick is not None and not any(asked):
        raise _no_ticks()
    own: list[FileTree] = []
    lars: list[LarsProgram] = []
    dialects: dict[str, list[Source]] = {}
    errors = Mistakes()
    source = Source(text, name, files)
    if len(text) > LONGEST:
        raise too_long(name)
    recovery = recovery or Recovery()
    if parameters is None:
        parameters = parameters_of(text, name, files, dialect, recovery=recovery)
    for language, (file, part) in zip(asked, apart(source), strict=True):
        try:
            if language is None:
                own.append(FileTree(parse(part.text, file, files, parameters, recovery)))
            elif language in LARS:
                from cep.language.dialects.lars.programs import parsed_of

                lars.append(parsed_of(part, language, ticks, parameters))
            else:
                dialects.setdefault(language, []).append(part)
        except CepError as error:
            errors.add(error)
    for language, parts in dialects.items():
        try:
            own.append(FileTree(_READERS[language](blended(parts), ticks, parameters).as_facts(), weak=True))
        except CepError as error:
            errors.add(error)
    if recovery.errors and not errors and not lars and not dialects:
        raise recovery.refused(MergedFiles(source, own, None).tree())
    if errors or recovery.errors:
        raise CepErrors([*recovery.errors, *errors])
    program = one_program(source, lars, ticks) if lars else None
    return Together.of(source, own, program, answer_sets)


def read(
    text: str,
    name: str = "<program>",
    dialect: str | None = None,
    tick: int | None = None,
    answer_sets: AnswerSetOptions | None = None,
    parameters: Parameters | None = None,
    recovery: Recovery | None = None,
) -> ast.SyntaxTree:
    """Read the statements of a program. Raises CepError with all mistakes.

    - `tick`: the length of a tick in microseconds, for dialects that have ticks. None means a second.
    - `answer_sets`: the options of the answer set solver, for LARS.
    - `parameters`: the parameters of the program.
    - `recovery`: a collector of mistakes. It already contains the mistakes in PARAM statements.
    """
    language = dialect_of(name, dialect)
    if answer_sets is not None and language not in LARS:
        raise _no_answer_streams()
    if language is None:
        if tick is not None:
            raise _no_ticks()
        tree = parse(text, name, parameters=parameters, recovery=recovery)
        if recovery is not None and recovery.errors:
            raise recovery.refused(tree)
        return tree
    if len(text) > LONGEST:
        raise too_long(name)
    source, ticks = Source(text, name), SECOND if tick is None else tick
    if language in LARS:
        from cep.language.dialects.lars.programs import lars_tree

        return lars_tree(language, source, ticks, answer_sets).as_facts()
    return _READERS[language](source, ticks, Parameters()).as_facts()


def parameters_of(
    text: str,
    name: str = "<program>",
    files: Files = (),
    dialect: str | None = None,
    values: Mapping[str, object] | None = None,
    recovery: Recovery | None = None,
) -> Parameters:
    """Return the parameters that a program declares. `values`: maps names of parameters to the values that they get.

    Raises CepError if a declaration has a mistake, or if `values` contains a parameter that is not declared. If
    `recovery` is set, mistakes in declarations are added to `recovery` instead.
    """
    parameters = Parameters()
    source = Source(text, name, files)
    parts = apart(source) if files else [(name, source)]
    for of, (file, part) in zip(dialects_of(name, dialect, files), parts, strict=True):
        if of is None:
            collect(Source(part.text, file, files), parameters, recovery)
    if recovery is None or not recovery.errors:
        parameters.set(values or {})
    return parameters


def _no_answer_streams() -> CepError:
    hint = "only LARS has them: use `--dialect lars`, or a `.lars` file"
    return CepError("--models, --solve-limit, --first: this program has no answer streams", hint=hint, code="option")


def _no_ticks() -> CepError:
    hint = f"`10 s`, `5 min`; a dialect has ticks: `--dialect {DIALECTS[0]}`"
    return CepError("--tick: times of this program have units", hint=hint, code="option")
