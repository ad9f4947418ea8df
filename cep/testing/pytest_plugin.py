"""The pytest plugin: `pytest --cep` runs the tests of `*.test.yaml` files as pytest items."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cep.testing.checks import Result
    from cep.testing.rule_files import RuleTest
    from cep.testing.session import Session

SUFFIX = ".test.yaml"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option `--cep`, and the setting `cep` of the configuration file, which has the same effect."""
    group = parser.getgroup("cep", "tests of event rules")
    group.addoption("--cep", action="store_true", help="Run the tests of event rules in *.test.yaml files.")
    parser.addini("cep", "Run the tests of event rules in *.test.yaml files.", type="bool", default=False)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a `*.test.yaml` file, if the option `--cep` or the setting `cep` is on."""
    asked = parent.config.getoption("--cep") or parent.config.getini("cep")
    if not asked or not file_path.name.endswith(SUFFIX):
        return None
    collected: pytest.Collector = RuleTestModule.from_parent(parent, path=file_path)
    return collected


class RuleTestModule(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        """Yield the tests of the file. Raises CollectError if the file is not valid."""
        from cep.core.errors import CepError
        from cep.testing.rule_files import read_test_file
        from cep.testing.session import Session

        session = Session()
        try:
            file = read_test_file(self.path)
        except CepError as error:
            raise self.CollectError(str(error)) from None
        for test in file.tests:
            yield RuleTestItem.from_parent(self, name=test.name, test=test, session_of_rules=session)


class RuleTestItem(pytest.Item):
    """A test of event rules."""

    def __init__(self, *, test: RuleTest, session_of_rules: Session, **more: Any) -> None:
        super().__init__(**more)
        self.test = test
        self.rules = session_of_rules

    def runtest(self) -> None:
        """Run the test. Raises RuleTestFailed if the test fails, and CepError if its program or an expectation is
        invalid."""
        result = self.rules.run(self.test)
        if not result.passed:
            raise RuleTestFailed(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the message of a failure, as `cep test` prints it."""
        from cep.core.errors import CepError
        from cep.testing.report import failure_lines

        if isinstance(excinfo.value, RuleTestFailed):
            return "\n".join(failure_lines(excinfo.value.result))
        if isinstance(excinfo.value, CepError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, the line counted from 0, and the name of the test."""
        return self.path, self.test.place.line - 1, self.name


class RuleTestFailed(Exception):
    """The exception of a failed test. `result`: the test's result, with all differences."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.test.name)
        self.result = result
