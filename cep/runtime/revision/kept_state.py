"""The states of all goals at one time, as they were kept, and what late changes made of those of some keys since."""

from __future__ import annotations

from dataclasses import dataclass, field

from cep.operators.goals.contract import Arrays, Bools

States = list[Arrays]


@dataclass(slots=True)
class Overlay:
    """The states of a stage's goals for these keys, by number (`cep.runtime.revision.key_numbers`); None: for all."""

    keys: Bools | None
    states: States


@dataclass(slots=True)
class KeptState:
    """`base`: the states of all goals; `overlays`, by the number of a stage: what is to be in their place. Stages may
    share goals: each sees what it has made of them itself."""

    base: States
    overlays: dict[int, Overlay] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        held = [self.base, *(overlay.states for overlay in self.overlays.values())]
        return sum(array.nbytes for states in held for state in states for array in state.values())


def copied(states: States) -> States:
    """States of goals that go on, as copies: goals change the arrays in place."""
    return [{name: array.copy() for name, array in state.items()} for state in states]
