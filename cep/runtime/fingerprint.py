"""Fingerprints: names of goals and events. Two programs use the same name for goals and events of the same meaning."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from cep.plan.identity import identities, meanings
from cep.plan.order import PlanUnit
from cep.plan.plan import Plan
from cep.runtime import snapshot
from cep.runtime.machine import Machine


class Fingerprints:
    """The fingerprints of the goals and events of a whole program, not of a stage. They depend on the program's plan,
    its facts and the name of its `knowledge`.

    Each fingerprint is computed once, when it is first needed.
    """

    def __init__(self, plan: Plan, facts: Mapping[str, pl.DataFrame], knowledge: str | None) -> None:
        self.plan, self._facts, self._knowledge = plan, facts, knowledge
        self._units: dict[PlanUnit, str] = {}
        self._events: dict[bool, dict[str, str]] = {}

    def units(self, plan: Plan, machine: Machine) -> dict[PlanUnit, str]:
        """Return the fingerprints of goals and events. Goals with equal fingerprints have equal states after equal
        input.

        `plan`: the plan that the machine runs. It is the plan of the program or of one stage.
        """
        if not self._units:
            names = self._found(self._knowledge)
            if plan.origin is not None:
                whole, names = names, {unit: name for unit, name in names.items() if isinstance(unit, str)}
                names |= {new: whole[old] for new, old in enumerate(plan.origin)}
            self._units = machine.named(names)
        return self._units

    def events(self, known: bool) -> dict[str, str]:
        """Return the fingerprints of derived events.

        `known`: True if the fingerprint of an event also depends on the knowledge that the event's rules query.
        """
        if known not in self._events:
            fingerprints = self._found(self._knowledge if known else None)
            derived = self.plan.derived
            self._events[known] = {u: name for u, name in fingerprints.items() if isinstance(u, str) and u in derived}
        return self._events[known]

    def _found(self, knowledge: str | None) -> dict[PlanUnit, str]:
        facts = {name: snapshot.table_name(table) for name, table in self._facts.items()}
        return identities(self.plan, meanings(self.plan.rules, facts, knowledge))
