"""Checks of `cep check` that only apply to LARS programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from cep.app.opening import ProgramSource
from cep.app.terminal import complain, say
from cep.core.errors import CepError, Source, Warning
from cep.plan.advice import parameters_meant

if TYPE_CHECKING:
    from cep.language.dialects.lars.ast import LarsProgram


@dataclass(frozen=True, slots=True)
class LarsCheck:
    """A LARS program as its author wrote it.

    - `undeclared`: the input atoms, if the program has no event declarations.
    - `others`: the number of rules that are in files of other dialects.
    """

    program: LarsProgram
    source: Source
    undeclared: tuple[str, ...]
    others: int = 0

    @classmethod
    def of(cls, source: ProgramSource) -> LarsCheck | None:
        """Read a program. Returns None if none of its files is LARS. Raises CepError, which lists all mistakes."""
        from cep.compile import Written
        from cep.language.reading import LARS, dialects_of, lars_program, parameters_of, together

        asked, text, name = source.options, source.text, source.name
        others = 0
        if asked.files:
            if not any(dialect in LARS for dialect in dialects_of(name, asked.dialect, asked.files)):
                return None
            parameters = parameters_of(text, name, asked.files, asked.dialect, asked.params)
            try:
                parsed = together(text, name, asked.files, asked.dialect, asked.tick, parameters=parameters)
            except CepError as error:
                raise parameters_meant(error, parameters.by_name) from None
            program = None if parsed.lars is None else parsed.asking({})
            others = Written.of(parsed.others, parameters).rules
        else:
            program = lars_program(text, name, asked.dialect, asked.tick)
        if program is None:
            return None
        from cep.language.dialects.lars.account import comes_in

        return cls(program, Source(text, name, asked.files), tuple(comes_in(program)), others)

    @property
    def rules(self) -> int:
        """The number of rules in all files of the program."""
        return len(self.program.rules) + self.others

    def show_circles(self) -> None:
        """Print, for each component that is not stratified, the reason."""
        from cep.language.dialects.lars.account import circles

        for circle in circles(self.program, self.source):
            complain(circle)
            typer.echo(err=True)

    def _called(self, name: str) -> str:
        from cep.language.dialects.lars.undeclared import argument_types

        types = argument_types(self.program, name)
        return f"{name}({', '.join(types)})" if types else name

    def warnings(self, compiled: Sequence[Warning]) -> list[Warning]:
        """Return the compiler's warnings, followed by the warnings that only apply to LARS. Only the compiler's warning
        is returned if both concern the same place."""
        from cep.language.dialects.lars.advice import advice

        known = {warning.span for warning in compiled}
        return [*compiled, *(warning for warning in advice(self.program, self.source) if warning.span not in known)]

    def conclude(self, path: str, compiled: Sequence[Warning]) -> None:
        """Print all warnings, the undeclared inputs, and how many statements of each kind the program has."""
        from cep.language.dialects.lars.account import counted
        from cep.runtime.run_stats import count

        warnings = self.warnings(compiled)
        for number, warning in enumerate(warnings):
            if number:
                typer.echo(err=True)
            complain(warning)
        if self.undeclared:
            names = ", ".join(f"`{self._called(predicate)}`" for predicate in self.undeclared[:5])
            names += ", ..." if len(self.undeclared) > 5 else ""
            hint = f"`event {self.undeclared[0]}(...).` declares what its records hold"
            typer.echo(f"{path}: not declared, so typed by the rules: {names}; {hint}", err=True)
        beside = [f"{count(self.others, 'rule')} beside LARS"] if self.others else []
        counts = (*counted(self.program), *beside, count(0, "error"), count(len(warnings), "warning"))
        say(f"{path}: {', '.join(counts)}")
