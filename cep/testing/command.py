"""The command `cep test`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from typer import Argument, Option

from cep.app import completions
from cep.app.cli_help import OUTPUT
from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.app.terminal import CLEAN, REFUSED, announce_compiling, complain, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cep.core.errors import Source
    from cep.testing.checks import Result
    from cep.testing.coverage import CoverageItem
    from cep.testing.mutants import MutantReport
    from cep.testing.rule_files import RuleTest

FAILED_TESTS = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LawOptions:
    PANEL: ClassVar = "Laws"

    law: Annotated[
        tuple[str, ...],
        Option(metavar="LAW", help="Try only this law: cuts, restart, shuffle, late, duplicates, workers. Repeatable."),
    ] = ()
    workers: Annotated[bool, Option(help="Also try the law `workers`, which starts processes.")] = False
    no_laws: Annotated[bool, Option("--no-laws", help="Run each test once, as it stands.")] = False
    seeds: Annotated[int, Option(metavar="N", min=1, help="Number of schedules to try for each law.")] = 3
    seed: Annotated[int | None, Option(metavar="N", help="Try only the schedule of this seed.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    PANEL: ClassVar = OUTPUT

    coverage: Annotated[
        bool, Option(help="List the rules, conditions, absences and bounds that no test has tried both ways.")
    ] = False
    coverage_page: Annotated[
        str | None, Option(metavar="FILE", help="Write the program as an HTML page, coloured by coverage.")
    ] = None
    junit: Annotated[str | None, Option(metavar="FILE", help="Write the results as JUnit XML.")] = None
    json: Annotated[bool, Option("--json", help="Print the results as JSON.")] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOptions:
    paths: Annotated[
        tuple[Path, ...],
        Argument(
            metavar="FILE",
            help="Test files (`*.test.yaml`), and folders that contain such files. Default: the current folder.",
            autocompletion=completions.folders,
        ),
    ] = ()
    named: Annotated[
        str | None, Option("--name", "-k", metavar="TEXT", help="Run the tests whose name contains this text.")
    ] = None
    mutants: Annotated[
        bool, Option(help="If all tests pass, mutate the rules, and list the mutants that no test notices.")
    ] = False
    update: Annotated[bool, Option(help="Rewrite `expect` and `holds` with the actual results; comments are kept.")] = (
        False
    )
    schema: Annotated[bool, Option(help="Print the JSON Schema of test files, for an editor, and exit.")] = False
    laws: LawOptions
    report: ReportOptions


@takes(TestOptions)
def test(options: TestOptions) -> int:
    """Test rules: given input, they must derive the expected events.

    \b
      cep test
      cep test fridge.test.yaml -k milk
      cep test --junit results.xml
      cep test fridge.test.yaml --law restart --seed 2

    Test files are called `*.test.yaml`. Each test also runs under laws: in batches, with restarts, out of order within
    the lateness, and must give the same results. The exit status is 1 if a test fails, 2 if a test file is wrong.
    """
    from contextlib import closing
    from json import dumps

    from cep.connectors.writing.sinks import Sink
    from cep.core.errors import CepError
    from cep.testing.coverage import coverage_lines, coverage_of, coverage_page
    from cep.testing.laws import laws_named
    from cep.testing.mutants import try_mutants
    from cep.testing.report import as_json, as_junit, closing_line, failure_lines, mutant_lines
    from cep.testing.rule_files import find_test_files, read_test_file, schema
    from cep.testing.session import Session

    if options.schema:
        say(dumps(schema(), indent=2))
        return CLEAN
    if options.laws.no_laws and (options.laws.law or options.laws.workers):
        raise refuse("--no-laws cannot be combined with --law or --workers")
    laws = () if options.laws.no_laws else laws_named(options.laws.law, options.laws.workers)
    seeds = tuple(range(options.laws.seeds)) if options.laws.seed is None else (options.laws.seed,)
    refused = False
    tests: list[RuleTest] = []
    for path in find_test_files(options.paths):
        try:
            tests += read_test_file(path).tests
        except CepError as error:
            complain(error)
            refused = True
    tests = [test for test in tests if options.named is None or options.named in test.name]
    if not tests and not refused:
        raise refuse(f"-k: no test has `{options.named}` in its name")
    announce_compiling()
    if options.update:
        return _update(tests)
    session = Session(laws, seeds)
    results: list[Result] = []
    told_errors: set[str] = set()
    for test in tests:
        try:
            result = session.run(test)
        except CepError as error:
            if str(error) not in told_errors:  # an error in a program recurs in each of its tests
                complain(error)
            told_errors.add(str(error))
            refused = True
            continue
        results.append(result)
        if not result.passed and not options.report.json:
            say("\n".join(failure_lines(result)))
    if options.report.junit is not None:
        with closing(Sink(options.report.junit)) as sink:
            sink.write(as_junit(results))
    passed = not refused and all(result.passed for result in results)
    mutants: list[MutantReport] = []
    if options.mutants and passed:
        files = {test.file.path: test.file for test in tests}
        mutants = [try_mutants(file, session.programs) for file in files.values()]
    covered: list[tuple[list[CoverageItem], Source]] = []
    if not refused and (options.report.coverage or options.report.coverage_page is not None):
        for file in {test.file.path: test.file for test in tests}.values():
            source = session.programs.prepare(file.tests[0]).program.plan.source
            covered.append((coverage_of(file, session.programs), source))
    if options.report.coverage_page is not None:
        with closing(Sink(options.report.coverage_page)) as sink:
            sink.write("".join(coverage_page(*coverage) for coverage in covered).encode())
    if options.report.json:
        say(as_json(results, mutants, covered))
    else:
        told = [closing_line(results)]
        told += [line for coverage in covered for line in coverage_lines(*coverage)] if options.report.coverage else []
        say("\n".join([*told, *(line for mutant in mutants for line in mutant_lines(mutant))]))
    if refused:
        return REFUSED
    return CLEAN if passed else FAILED_TESTS


def _update(tests: Sequence[RuleTest]) -> int:
    """Rewrite the expectations in the files of the tests, so that the tests pass. Return the exit status."""
    from cep.core.errors import CepError
    from cep.testing.runs import Programs
    from cep.testing.update import updated

    files, programs, status = {test.file.path: test.file for test in tests}, Programs(), CLEAN
    for path, file in files.items():
        try:
            text = updated(file, programs)
        except CepError as error:
            complain(error)
            status = REFUSED
            continue
        if text == file.root.source.text:
            say(f"{path}: nothing to update")
        else:
            path.write_text(text, encoding="utf-8")
            say(f"{path}: updated")
    return status
