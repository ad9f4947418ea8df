"""Reports of test results: text for a terminal of 80 columns, JSON, and JUnit XML."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from cep.core.errors import Source
from cep.runtime.run_stats import count
from cep.testing.checks import Failure, Result
from cep.testing.coverage import CoverageItem
from cep.testing.mutants import MutantReport

WIDTH = 80


def failure_lines(result: Result) -> list[str]:
    """Return the failures of a test as lines of text."""
    place = result.test.place
    lines = _wrapped(f"FAIL {result.test.file.path}:{place.line}: {result.test.name}", "")
    for failure in result.failures:
        lines += _failure(failure)
    return lines


def _failure(failure: Failure) -> Iterable[str]:
    yield from _wrapped(f"line {failure.place.line}: {failure.message}", "  ")
    for detail in failure.details:
        yield from _wrapped(detail, "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    own = text[: len(text) - len(text.lstrip())]
    begin = indent + own
    return textwrap.wrap(
        text.strip(),
        WIDTH,
        initial_indent=begin,
        subsequent_indent=begin + "    ",
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def closing_line(results: Sequence[Result]) -> str:
    """Return the last line of a report. It contains the number of passed tests, the number of failed tests, and the
    number of runs under laws that had the same result as the run without laws."""
    failed = sum(not result.passed for result in results)
    passed = len(results) - failed
    laws = sum(result.laws for result in results)
    texts = [f"{passed} passed"] + ([f"{failed} failed"] if failed else [])
    texts += [f"{count(laws, 'repeated run')} (laws) gave the same results"] if laws else []
    return ", ".join(texts)


def mutant_lines(report: MutantReport) -> Iterator[str]:
    """Yield a line with the number of mutants, then one line per surviving mutant."""
    survived = len(report.survivors)
    yield f"{count(report.count, 'mutant')}, {report.count - survived} killed, {survived} survived"
    for survivor in report.survivors:
        why = "no expectation checks the difference" if survivor.seen else "no record tells them apart"
        yield from _wrapped(f"{survivor.file}:{survivor.line}: {survivor.change} ({why})", "  ")


def as_json(
    results: Sequence[Result], mutants: Sequence[MutantReport], covered: Sequence[tuple[Sequence[CoverageItem], Source]]
) -> str:
    """Return the results as JSON: the `tests` and their failures, the surviving `mutants`, and the `coverage`."""
    survivors = [asdict(survivor) for report in mutants for survivor in report.survivors]
    document: dict[str, Any] = {"tests": [_test(result) for result in results]}
    document |= (
        {"mutants": {"made": sum(mutant.count for mutant in mutants), "survivors": survivors}} if mutants else {}
    )
    if covered:
        document["coverage"] = [_item(item, source) for items, source in covered for item in items]
    return json.dumps(document, ensure_ascii=False, indent=2)


def _item(item: CoverageItem, source: Source) -> dict[str, Any]:
    file, line = source.place(item.span.line)
    return {"kind": item.kind, "text": item.text, "file": file, "line": line, "lacking": item.lacking}


def _test(result: Result) -> dict[str, Any]:
    return {
        "file": str(result.test.file.path),
        "line": result.test.place.line,
        "name": result.test.name,
        "passed": result.passed,
        "laws": result.laws,
        "failures": [
            {"line": failure.place.line, "message": failure.message, "details": list(failure.details)}
            for failure in result.failures
        ],
    }


def as_junit(results: Sequence[Result]) -> bytes:
    """Return the results as JUnit XML. Each test file is a suite."""
    root = ElementTree.Element("testsuites")
    suites: dict[str, list[Result]] = {}
    for entry in results:
        suites.setdefault(str(entry.test.file.path), []).append(entry)
    for name, own in suites.items():
        failed = sum(not test.passed for test in own)
        suite = ElementTree.SubElement(
            root, "testsuite", name=name, tests=str(len(own)), failures=str(failed), errors="0", skipped="0"
        )
        for entry in own:
            line = str(entry.test.place.line)
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=entry.test.name, file=name, line=line)
            if not entry.passed:
                details = "\n".join(failure_lines(entry))
                failure = ElementTree.SubElement(case, "failure", message=_clean(entry.failures[0].message))
                failure.text = _clean(details)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _clean(text: str) -> str:
    return "".join(letter if letter in "\n\t" or ord(letter) >= 32 else "?" for letter in text)
