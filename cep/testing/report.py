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
    for each in result.failures:
        lines += _failure(each)
    return lines


def _failure(failure: Failure) -> Iterable[str]:
    yield from _wrapped(f"line {failure.place.line}: {failure.message}", "  ")
    for detail in failure.details:
        yield from _wrapped(detail, "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    """Wrap a line, with continuation lines indented further."""
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
    """Return a line with the numbers of passed and failed tests, and of runs under laws with the same result."""
    failed = sum(not each.passed for each in results)
    passed = len(results) - failed
    laws = sum(each.laws for each in results)
    texts = [f"{passed} passed"] + ([f"{failed} failed"] if failed else [])
    texts += [f"{count(laws, 'run')} under laws gave the same"] if laws else []
    return ", ".join(texts)


def mutant_lines(report: MutantReport) -> Iterator[str]:
    """Yield a line with the number of mutants, then a line per survivor."""
    survived = len(report.survivors)
    yield f"{count(report.made, 'mutant')}, {report.made - survived} killed, {survived} survived"
    for each in report.survivors:
        why = "what it derives is not expected otherwise" if each.seen else "no record shows it"
        yield from _wrapped(f"{each.file}:{each.line}: {each.change} ({why})", "  ")


def as_json(
    results: Sequence[Result], mutants: Sequence[MutantReport], covered: Sequence[tuple[Sequence[CoverageItem], Source]]
) -> str:
    """Return the results as JSON: `tests` with their failures, the surviving `mutants`, and `coverage`."""
    survivors = [asdict(each) for report in mutants for each in report.survivors]
    found: dict[str, Any] = {"tests": [_test(each) for each in results]}
    found |= {"mutants": {"made": sum(each.made for each in mutants), "survivors": survivors}} if mutants else {}
    if covered:
        found["coverage"] = [_item(each, source) for items, source in covered for each in items]
    return json.dumps(found, ensure_ascii=False, indent=2)


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
            {"line": each.place.line, "message": each.message, "details": list(each.details)}
            for each in result.failures
        ],
    }


def as_junit(results: Sequence[Result]) -> bytes:
    """Return the results as JUnit XML, with one suite per file."""
    root = ElementTree.Element("testsuites")
    suites: dict[str, list[Result]] = {}
    for each in results:
        suites.setdefault(str(each.test.file.path), []).append(each)
    for name, own in suites.items():
        failed = sum(not each.passed for each in own)
        suite = ElementTree.SubElement(
            root, "testsuite", name=name, tests=str(len(own)), failures=str(failed), errors="0", skipped="0"
        )
        for each in own:
            line = str(each.test.place.line)
            case = ElementTree.SubElement(suite, "testcase", classname=name, name=each.test.name, file=name, line=line)
            if not each.passed:
                details = "\n".join(failure_lines(each))
                failure = ElementTree.SubElement(case, "failure", message=_clean(each.failures[0].message))
                failure.text = _clean(details)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _clean(text: str) -> str:
    """Replace the control characters that XML does not allow."""
    return "".join(each if each in "\n\t" or ord(each) >= 32 else "?" for each in text)
