"""Runner of tests. Each test runs in one batch first, with the records in their own order. If it passes, it runs again
under each law that applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.errors import mistakes_together
from cep.testing.checks import Checker, Result
from cep.testing.laws import LAWS, SEEDS, Law, broken
from cep.testing.rule_files import RuleTest
from cep.testing.runs import Programs


@dataclass(slots=True)
class Session:
    """A session that runs tests one after the other. `laws`: the laws to check, each with every seed in `seeds`."""

    laws: Sequence[Law] = LAWS
    seeds: Sequence[int] = tuple(range(SEEDS))
    programs: Programs = field(default_factory=Programs)

    def run(self, test: RuleTest) -> Result:
        """Run a test. Raises CepError if the test's program, a record or an expectation is not valid."""
        with mistakes_together() as wrong:
            prepared = self.programs.prepare(test, wrong)
            with wrong.kept():
                checker = Checker(prepared)
        plain = prepared.run()
        result = Result(test, checker.check(plain))
        if result.passed and self.laws:
            result.laws, result.failures = broken(prepared, plain, self.laws, self.seeds)
        return result
