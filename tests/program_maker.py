"""Random valid patterns and rules, with small domains, so that joins and ties are frequent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.condition_maker import NUMBERS, VARIABLES, ConditionMaker, Kind

SECOND = 1_000_000
LAST_SECOND = 12
VALUES: dict[str, tuple[Any, ...]] = {"int": (0, 1, 2, 1), "float": (0.0, 1.0, 0.5, 1.0, 2.0), "string": ("u", "v")}
TIES = ("", "", "(longest)", "(shortest)")
WINDOWS = (
    "LAST 3 EVENTS", "LAST 2 EVENTS", "LAST 1 EVENTS", "LAST 4 s", "LAST 2500 ms", "EACH 3 s", "SESSION 1 s",
    "LAST 3 s EVERY 2 s",
)  # fmt: skip
LATER = ("median", "percentile", "mode", "slope", "rate", "ewma")
FORMS = (
    "{h}(K, V) <- {e}(K, V) SEQ {f}(K, W) WITHIN 3 s.",
    "{h}(K, W) <- {e}(K, V) SEQ {f}(K, W).",
    "{h}(V, W) <- {e}(_, V) SEQ {f}(_, W) WITHIN 2 s.",
    "{h}(K, V) <- {e}(K, V) AND {f}(K, V) WITHIN 4 s.",
    "{h}(K, V) <- {e}(K, V) UNLESS {f}(K, _) WITHIN 2 s.",
    "{h}(V, V) <- {e}(_, V) UNLESS {f}(_, V) WITHIN 1 s.",
    "{h}(N, N) <- {e}(_, _) AGGREGATE N = count() OVER LAST 3 s.",
    "{h}(K, M) <- {e}(K, V) AGGREGATE M = sum(V) OVER LAST 2 EVENTS BY K.",
    "{h}(K, W) <- NOT({f}(K, _)).[{e}(K, V), {e}(K, W)].",
    "{h}(K, V) <- {e}(K, V) OR {f}(K, V).",
    "{h}(V, K) <- {e}(K, V) WHERE V != 1.",
    "{h}(K, V) <- {e}(K, V) WHERE V > 0.",
)
"""Forms of rules, one at least for each operator with state. The programs of `tests/feature_programs.py` have them, and
those of `tests/state_programs.py` all whose results begin with K."""
PARAMETERS = {"percentile": ", 70", "ewma": ", 1500 ms"}


@dataclass
class Maker(ConditionMaker):
    """Draws a program. Patterns are (text, variables it binds with their types), fit to stand after an operator."""

    # --- patterns

    def pattern(self, depth: int, pool: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
        """Any pattern. With a `pool` (what is absent) variables come from it, or are the pattern's own."""
        if depth == 0 or self.rule.leaves <= 1 or self.chance(15):
            text, bound = self.atom(pool)
        else:
            make = self.pick((self.pair, self.pair, self.pair, self.either, self.absence, self.unless, self.repeat))
            text, bound = make(depth, pool)
        if depth and self.chance(30):
            text, bound = self.postfix(text, bound)
        return text, bound

    def atom(self, pool: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
        self.rule.leaves -= 1
        if "point" in self.rule.allow and self.chance(4):
            return str(self.pick((3, 6, 4.5))), {}
        kind = self.pick(self.kinds)
        arguments: list[str] = []
        bound: dict[str, str] = {}
        for wanted in kind.types:
            argument = self.argument(wanted, bound, pool)
            arguments.append(argument)
        if kind.declared and self.chance(20):
            named = [f"{kind.name}{i}: {a}" for i, a in enumerate(arguments) if a != "_"]
            return f"{kind.name}({', '.join(named)})" if named else f"{kind.name}{self.anonymous(kind)}", bound
        return f"{kind.name}({', '.join(arguments)})" if arguments else kind.name, bound

    def anonymous(self, kind: Kind) -> str:
        return f"({', '.join('_' for _ in kind.types)})" if kind.types else ""

    def argument(self, wanted: str, bound: dict[str, str], pool: dict[str, str] | None) -> str:
        if wanted not in VARIABLES:  # what may be off by a rounding is never looked at
            return "_"
        way = self.random.randint(0, 11)
        if way >= 10:
            return "_"
        if way == 9:
            return literal(self.pick(VALUES[wanted]))
        if pool is None:
            name = self.pick(VARIABLES[wanted])
        else:
            fitting = [v for v, t in pool.items() if t == wanted or (t in NUMBERS and wanted in NUMBERS)]
            name = self.pick([*fitting, *fitting, self.fresh("L")])
        bound.setdefault(name, wanted)
        return str(name)

    def pair(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        operator = self.pick(
            (
                "SEQ",
                "SEQ",
                "SEQ",
                "SEQ",
                "AND",
                "AND",
                "PAR",
                "EQUALS",
                "MEETS",
                "OVERLAPS",
                "DURING",
                "STARTS",
                "FINISHES",
                "SEQ[0, 2]",
                "SEQ[1, 3]",
            )
        )
        left, bound = self.pattern(depth - 1, pool)
        right, others = self.pattern(depth - 1, pool)
        return f"({left} {operator} {right})", others | bound

    def either(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        left, bound = self.pattern(depth - 1, pool)
        right = self.binding(bound)
        if right is None:
            return left, bound
        return f"({left} OR {right})", bound

    def binding(self, wanted: dict[str, str]) -> str | None:
        """A pattern that binds exactly these variables."""
        places = [(kind, i, t) for kind in self.kinds for i, t in enumerate(kind.types)]
        atoms = []
        for name, type in wanted.items():
            fitting = [(kind, i) for kind, i, t in places if t == type or (t in NUMBERS and type in NUMBERS)]
            if not fitting:
                return None
            kind, i = self.pick(fitting)
            arguments = [name if j == i else "_" for j in range(len(kind.types))]
            atoms.append(f"{kind.name}({', '.join(arguments)})")
        if not atoms:
            kind = self.pick(self.kinds)
            atoms.append(kind.name + self.anonymous(kind))
        self.rule.leaves -= len(atoms)
        return atoms[0] if len(atoms) == 1 else f"({self.pick((' AND ', ' SEQ ')).join(atoms)})"

    def absence(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        self.negative = True
        left, bound = self.pattern(depth - 1, pool)
        right, others = self.pattern(depth - 1, pool)
        bound = others | bound
        absent = self.absent(depth, bound)
        if self.chance(40):
            within = f" WITHIN {self.pick((3, 6))}" if self.chance(30) else ""
            return f"(({left} SEQ {right}{within}) CNOT {absent})", bound
        return f"NOT({absent}).[{left}, {right}]", bound

    def absent(self, depth: int, bound: dict[str, str]) -> str:
        """What is to be absent; it shares only variables of what stands around it."""
        self.rule.absent += 1
        text, _ = self.pattern(min(depth - 1, 1), bound)
        self.rule.absent -= 1
        return text

    def unless(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        if "unless" not in self.rule.allow:
            return self.pair(depth, pool)
        self.negative = True
        left, bound = self.pattern(depth - 1, pool)
        absent = self.absent(depth, bound)
        return f"({left} UNLESS {absent} WITHIN {self.pick((1, 2, 2.5, 4))})", bound

    def repeat(self, depth: int, pool: dict[str, str] | None) -> tuple[str, dict[str, str]]:
        count = self.pick((2, 2, 3, 1))
        text, bound = self.pattern(min(depth - 1, 1), pool)
        self.rule.leaves -= count - 1
        return f"({text} TIMES {count})", bound

    # --- postfixes

    def postfix(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        ways: list[Callable[[str, dict[str, str]], tuple[str, dict[str, str]]]] = [self.within, self.where, self.where]
        if self.policies:
            ways.append(self.policy)
        if "aggregate" in self.rule.allow:
            ways.append(self.aggregate)
        return self.pick(ways)(text, bound)

    def within(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        if self.chance(20):
            return f"({text}).{self.pick((2, 3, 5))}", bound
        return f"({text} WITHIN {self.pick(('3', '1', '2', '4500 ms', '6 s'))})", bound

    def policy(self, text: str, bound: dict[str, str]) -> tuple[str, dict[str, str]]:
        return f"({text} POLICY {self.choice(bound)})", bound

    def choice(self, bound: dict[str, str]) -> str:
        name = self.pick(("recent", "chronological", "unrestricted"))
        if name == "unrestricted":
            return str(name)
        self.restricted = True
        numbers = [v for v, t in bound.items() if t in NUMBERS]
        ties = [*TIES, *(f"(by {v})" for v in numbers)]
        return f"{name}{self.pick(ties)}"

    def aggregate(
        self,
        text: str,
        bound: dict[str, str],
        windows: Sequence[str] = WINDOWS,
    ) -> tuple[str, dict[str, str]]:
        self.aggregates = True
        numbers = [v for v, t in bound.items() if t in NUMBERS]
        by = [v for v in bound if self.chance(40)]
        results: dict[str, str] = {}
        written = []
        for _ in range(self.random.randint(1, 2)):
            name = self.fresh("A")
            function = self.pick(("count", "sum", "max", "min", "first", "last", "avg", "distinct", "stddev", *LATER))
            if function == "count" or not bound:
                call, type = "count()", "int"
            elif function == "distinct":
                call, type = f"count(distinct {self.pick(list(bound))})", "int"
            elif function in ("first", "last", "mode"):
                argument = self.pick(list(bound))
                call, type = f"{function}({argument})", bound[argument]
            elif not numbers:
                call, type = "count()", "int"
            else:
                argument = self.pick(numbers)
                type = bound[argument]
                if self.chance(20):
                    argument, type = f"{argument} * 2 + 1", type
                call = f"{function}({argument}{PARAMETERS.get(function, '')})"
                if function in ("stddev", "percentile", "slope", "rate", "ewma"):
                    by, type = [], "rounded"  # one result an instant: no two that should be equal
                elif function in ("avg", "median"):
                    type = "rounded"
            results[name] = type
            written.append(f"{name} = {call}")
        window = self.pick(windows)
        grouped = f" BY {', '.join(by)}" if by else ""
        kept = {v: bound[v] for v in by} | results
        return f"({text} AGGREGATE {', '.join(written)} OVER {window}{grouped})", kept

    # --- rules

    def head(self, bound: dict[str, str], wanted: tuple[str, ...] | None, bounded: bool) -> tuple[str, tuple[str, ...]]:
        """Arguments of a head, of the `wanted` types if given. `bounded`: numbers stay few, for recursive rules."""
        if wanted is None:
            wanted = tuple(bound[v] for v in sorted(bound) if self.chance(60))[:2]
            if bounded:
                wanted = tuple("int" for _ in wanted)
        arguments = []
        for type in wanted:
            fitting = [v for v, t in bound.items() if t == type]
            if bounded:
                argument = f"({self.pick(fitting)} + {self.pick((1, 0))}) mod 3" if fitting else "1"
            elif type in NUMBERS:
                ways = [*fitting, *fitting, *(f"{v} + 1" for v in fitting), literal(self.pick(VALUES[type]))]
                argument = self.pick(ways)
            elif type == "string":
                argument = self.pick([*fitting, '"u"'])
            elif fitting:
                argument = self.pick(fitting)
            else:
                argument = {"duration": "2 s", "rounded": "0.5", "iri": "<http://example.org/k#s1>"}[type]
            arguments.append(argument)
        return f"({', '.join(arguments)})" if arguments else "", wanted

    def statement(self, name: str, depth: int, wanted: tuple[str, ...] | None, bounded: bool = False) -> Kind:
        """A rule for an event; its text is appended."""
        body, bound = self.pattern(depth)
        if self.knowledge:
            body, bound = self.where(body, bound, 1)
        if body.startswith("(") and self.chance(50) and closes_at_end(body):
            body = body[1:-1]  # the same without parentheses
        head, types = self.head(bound, wanted, bounded)
        self.lines.append(f"{name}{head} <- {body}.")
        return Kind(name, types, tuple(False for _ in types), False, False)


def closes_at_end(text: str) -> bool:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False


def literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
