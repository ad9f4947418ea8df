"""Notebook cells that contain rules: `%load_ext cep`, then `%%cep`."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from IPython.core.error import UsageError

from cep.api import Engine, detect
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean

if TYPE_CHECKING:
    from cep.derived import Derived


class _Words(ArgumentParser):
    """The parser of the arguments after `%%cep`."""

    def __init__(self) -> None:
        super().__init__("%%cep", add_help=False, allow_abbrev=False)
        self.add_argument("data", nargs="*")
        self.add_argument("-o", "--output")
        self.add_argument("--rules")
        self.add_argument("--param", action="append", default=[])
        self.add_argument("--policy")
        self.add_argument("--knowledge", action="append", default=[])
        self.add_argument("--lateness")

    def error(self, message: str) -> NoReturn:
        raise CepError(f"%%cep: {message}", hint="`%%cep?` lists the arguments that you can write")


@dataclass(frozen=True, slots=True)
class RuleCells:
    """The `%%cep` cells of one shell. `names`: the shell's variables."""

    names: dict[str, Any]

    def run(self, line: str, cell: str) -> Derived | Engine:
        """Run the rules of a cell over data, `%%cep readings -o found`. Without data, check the rules.

        \b
        DATA                    a variable with data for `cep.detect`, or `event=variable`; repeatable
        -o, --output NAME       store the derived events in this variable
        --rules NAME            store the text of the rules in this variable
        --param NAME=VALUE      set a parameter; repeatable
        --policy POLICY         the default policy: unrestricted, recent, chronological
        --knowledge FILE        a file of RDF, or a variable with a graph; repeatable
        --lateness DURATION     process rows in the given order, and reject those later than this: "10 min"
        """
        try:
            return self._run(_Words().parse_args(shlex.split(line)), cell)
        except ValueError as error:  # the quotes are not closed
            raise UsageError(f"%%cep {line}: {error}") from None
        except CepError as error:
            raise UsageError(str(error)) from None

    def _run(self, arguments: Namespace, cell: str) -> Derived | Engine:
        params: dict[str, object] = dict(_pair(param, "--param Hot=8") for param in arguments.param)
        knowledge = self._knowledge(arguments.knowledge)
        if arguments.rules:
            self._keep(arguments.rules, cell, "--rules")
        if not arguments.data:
            if arguments.output:
                raise CepError(
                    "-o: without data the program derives nothing", hint="add the data: `%%cep readings -o found`"
                )
            return Engine.from_text(cell, "<cell>", policy=arguments.policy, knowledge=knowledge, params=params)
        derived = detect(
            cell,
            self._data(arguments.data),
            policy=arguments.policy,
            knowledge=knowledge,
            lateness=arguments.lateness,
            params=params,
        )
        if arguments.output:
            self._keep(arguments.output, derived, "-o")
        return derived

    def _keep(self, name: str, value: object, option: str) -> None:
        if not name.isidentifier():
            raise CepError(f"{option}: `{name}` is not the name of a variable", hint=f"e.g. `{option} found`")
        self.names[name] = value

    def _data(self, named: list[str]) -> Any:
        if len(named) == 1 and "=" not in named[0]:
            return self._variable(named[0])
        pairs = [_pair(pair_text, "%%cep reading=readings door=doors") for pair_text in named]
        return {event: self._variable(name) for event, name in pairs}

    def _variable(self, name: str) -> Any:
        if name not in self.names:
            known = [name for name in self.names if not name.startswith("_")]
            hint = did_you_mean(name, known) or "assign the data to a variable of the notebook first"
            raise CepError(f"there is no variable `{name}`", hint=hint)
        return self.names[name]

    def _knowledge(self, named: list[str]) -> Any:
        if not named:
            return None
        if len(named) == 1 and named[0] in self.names:
            return self.names[named[0]]
        from cep.knowledge.graph import Knowledge

        return Knowledge.load(named, "owlrl")


def _pair(text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise CepError(f"`{text}` is not a name and a value", hint=f"`{example}`")
    return name, value


def load(shell: Any) -> None:
    """Register the magic `%%cep` in an IPython shell."""
    cells = RuleCells(shell.user_ns)

    def cep(line: str, cell: str) -> Derived | Engine:
        return cells.run(line, cell)

    cep.__doc__ = (RuleCells.run.__doc__ or "").replace("\b\n", "")
    shell.register_magic_function(cep, magic_kind="cell", magic_name="cep")
