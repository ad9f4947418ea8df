"""The event language of ETALIS, lowered: syntax tree in, the plan's algebra out.

Here positional and named arguments become one, policies and WITHIN go down to the goals they govern (M5), CNOT
becomes NOT, TIMES a chain of SEQ (M13), every event gets its attribute names (M10), and what is asked of background
knowledge a predicate for each table that answers it (M14, M15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches

from cep.alert import Alert
from cep.errors import CepError, Source, Span
from cep.events import Iri
from cep.plan import algebra
from cep.plan.alerts import Alerting, alert_variables, alerting
from cep.schema import Attribute, Schema
from cep.syntax import ast
from cep.syntax.variables import condition_variables, expression_variables, rename_condition, rename_expression

RESERVED = ("type", "time", "start", "end", "args")
# Each repetition is a goal of its own.
MOST_TIMES = 100
UNRESTRICTED = ast.PolicyChoice("unrestricted")


def lower(
    program: ast.Program,
    policy: ast.PolicyChoice | None,
    types: Mapping[str, tuple[str, ...]],
    tables: Collection[str] = (),
) -> algebra.Rules:
    """Lower a program. `policy` is the default instead of unrestricted; `types` gives those of undeclared input
    events where they are known; `tables` are the predicates that are given from outside. Mistakes are in the result's
    `errors`; the rules that have them are left out.
    """
    return _Lowering(program, types, tables).lowered(policy or UNRESTRICTED)


class _Lowering:
    def __init__(self, program: ast.Program, types: Mapping[str, tuple[str, ...]], tables: Collection[str]) -> None:
        self.program = program
        self.source: Source = program.source
        self.types = types
        self.asked: dict[str, ast.Graph | algebra.Triples] = {}
        statics = {statement.name for statement in program.statements if isinstance(statement, ast.StaticRule)}
        self.own_triples = "triple" in statics or "triple" in tables
        self.errors: list[CepError] = []
        # Rules that cannot be lowered, and whether the one at hand is one of them.
        self.bad: set[int] = set()
        self.flawed = False
        self.schemas: dict[str, Schema] = {}
        self.fresh = 0

    def lowered(self, policy: ast.PolicyChoice) -> algebra.Rules:
        self.declare()
        self.name_heads()
        self.name_inputs()
        rules: list[algebra.Rule] = []
        statics: list[ast.StaticRule] = []
        alerts: list[Alert] = []
        for statement in self.program.statements:
            match statement:
                case ast.PolicyStatement(choice):
                    policy = choice
                case ast.StaticRule():
                    statics.append(self.static(statement))
                case ast.EventRule():
                    outside = _counted(statement)
                    self.flawed = id(statement) in self.bad
                    body = self.pattern(statement.body, policy, None, outside)
                    if self.flawed:
                        continue
                    rules.append(
                        algebra.Rule(
                            statement.name,
                            statement.arguments,
                            body,
                            statement.label,
                            statement.span,
                            statement.head_span,
                        )
                    )
                case ast.AlertStatement():
                    alert = self.alert(statement, [each.name for each in alerts])
                    rules += [] if alert is None else [alert.rule]
                    alerts += [] if alert is None else [alert.alert]
                case _:
                    pass
        return algebra.Rules(
            self.schemas, tuple(rules), tuple(statics), self.source, tuple(self.errors), self.asked, tuple(alerts)
        )

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "name") -> None:
        self.flawed = True
        self.errors.append(CepError(message, self.source, span, hint, code))

    # --- names ---

    def declare(self) -> None:
        for statement in self.program.statements:
            if not isinstance(statement, ast.EventDeclaration):
                continue
            if statement.name in self.schemas:
                self.error(f"event `{statement.name}` is declared twice", statement.span)
                continue
            names: set[str] = set()
            attributes = []
            for attribute in statement.attributes:
                if attribute.name in RESERVED:
                    self.error(
                        f"`{attribute.name}` cannot be an attribute: records use it for the event itself",
                        attribute.span,
                        f"another name, with the column it comes from: "
                        f"`{attribute.name}_: {attribute.type} FROM {attribute.name}`",
                    )
                elif attribute.name in names:
                    self.error(f"attribute `{attribute.name}` is declared twice", attribute.span)
                names.add(attribute.name)
                attributes.append(
                    Attribute(
                        attribute.name,
                        attribute.type,
                        attribute.optional,
                        attribute.low,
                        attribute.high,
                        attribute.source,
                        attribute.iri,
                    )
                )
            self.schemas[statement.name] = Schema(
                statement.name,
                tuple(attributes),
                True,
                statement.time is not None,
                statement.time,
                statement.start,
                statement.end,
                statement.iri,
            )

    def name_heads(self) -> None:
        """Attribute names of derived events: declared, or after the variables of the heads (M10)."""
        heads: dict[str, list[ast.EventRule]] = {}
        for statement in self.program.statements:
            if isinstance(statement, ast.EventRule):
                heads.setdefault(statement.name, []).append(statement)
        for name, rules in heads.items():
            arity = len(self.schemas[name].attributes) if name in self.schemas else len(rules[0].arguments)
            for rule in rules:
                if len(rule.arguments) != arity:
                    self.bad.add(id(rule))
                    self.error(
                        f"`{name}` has {_count(arity)} elsewhere, here {len(rule.arguments)}",
                        rule.head_span,
                        "an event has one number of arguments; another event needs another name",
                        "arity",
                    )
            if name in self.schemas:
                continue
            names: list[str] = []
            for i in range(arity):
                chosen = f"arg{i + 1}"
                for rule in rules:
                    argument = rule.arguments[i] if i < len(rule.arguments) else None
                    if isinstance(argument, ast.Variable) and argument.name.strip("_"):
                        wanted = argument.name.lower()
                        if wanted not in RESERVED and wanted not in names:
                            chosen = wanted
                        break
                names.append(chosen)
            self.schemas[name] = Schema(name, tuple(Attribute(n, "unknown", True) for n in names), False, False)

    def name_inputs(self) -> None:
        """Undeclared input events: the number of arguments is that of their first positional use."""
        derived = {s.name for s in self.program.statements if isinstance(s, ast.EventRule)}
        for statement in self.program.statements:
            if not isinstance(statement, ast.EventRule):
                continue
            for atom in _events(statement.body):
                if atom.name in self.schemas or atom.name in derived:
                    continue
                if atom.names is not None:
                    self.error(
                        f"`{atom.name}` has no attribute names: it is not declared",
                        atom.span,
                        f"declare it, `event {atom.name}({', '.join(n + ': float' for n in atom.names)}).`, "
                        "or write its arguments in order",
                    )
                    continue
                types = self.types.get(atom.name, ("any",) * len(atom.arguments))
                if len(types) != len(atom.arguments):
                    types = ("any",) * len(atom.arguments)
                self.schemas[atom.name] = Schema(
                    atom.name,
                    tuple(Attribute(f"arg{i + 1}", t, True) for i, t in enumerate(types)),
                    False,
                    False,
                )

    # --- patterns ---

    def pattern(
        self, pattern: ast.Pattern, policy: ast.PolicyChoice, within: int | None, outside: Mapping[str, int]
    ) -> algebra.Pattern:
        match pattern:
            case ast.EventPattern():
                return self.atom(pattern, within)
            case ast.TimePoint(ticks, span):
                return algebra.Point(ticks, within, span)
            case ast.Within(inner, duration, _):
                return self.pattern(inner, policy, duration if within is None else min(within, duration), outside)
            case ast.Policy(inner, choice, _):
                return self.pattern(inner, choice, within, outside)
            case ast.Where(inner, conditions, span):
                lowered = tuple(self.condition(condition, outside) for condition in conditions)
                return algebra.Given(self.pattern(inner, policy, within, outside), lowered, within, span)
            case ast.Binary("OR", left, right, span):
                return algebra.Either(
                    self.pattern(left, policy, within, outside),
                    self.pattern(right, policy, within, outside),
                    within,
                    span,
                )
            case ast.Binary("CNOT", left, right, span):
                return self.cnot(left, right, span, policy, within, outside)
            case ast.Binary(operator, left, right, span):
                return algebra.Pair(
                    operator,
                    self.pattern(left, policy, within, outside),
                    self.pattern(right, policy, within, outside),
                    policy,
                    within,
                    None,
                    span,
                )
            case ast.Not(absent, left, right, span):
                return algebra.Pair(
                    "SEQ",
                    self.pattern(left, policy, within, outside),
                    self.pattern(right, policy, within, outside),
                    policy,
                    within,
                    self.pattern(absent, policy, within, outside),
                    span,
                )
            case ast.Unless(left, absent, duration, span):
                return algebra.Unless(
                    self.pattern(left, policy, within, outside),
                    self.pattern(absent, policy, within, outside),
                    duration,
                    within,
                    span,
                )
            case ast.Times():
                return self.times(pattern, policy, within, outside)
            case ast.Aggregate(inner, results, events, duration, by, span):
                return algebra.Window(
                    self.pattern(inner, policy, within, outside), results, events, duration, by, within, span
                )

    def cnot(
        self,
        left: ast.Pattern,
        absent: ast.Pattern,
        span: Span,
        policy: ast.PolicyChoice,
        within: int | None,
        outside: Mapping[str, int],
    ) -> algebra.Pattern:
        inner = left
        inner_policy, inner_within = policy, within
        while isinstance(inner, ast.Within | ast.Policy):
            if isinstance(inner, ast.Within):
                inner_within = inner.duration if inner_within is None else min(inner_within, inner.duration)
            else:
                inner_policy = inner.choice
            inner = inner.pattern
        if not (isinstance(inner, ast.Binary) and inner.operator == "SEQ"):
            self.error(
                "CNOT stands after a SEQ only: it says what does not occur between the two",
                inner.span,
                "`(a(X) SEQ b(X)) CNOT c(X)`, the same as `NOT(c(X)).[a(X), b(X)]`",
                "cnot",
            )
            return self.pattern(left, policy, within, outside)
        return algebra.Pair(
            "SEQ",
            self.pattern(inner.left, inner_policy, inner_within, outside),
            self.pattern(inner.right, inner_policy, inner_within, outside),
            inner_policy,
            inner_within,
            self.pattern(absent, policy, within, outside),
            span,
        )

    def times(
        self, times: ast.Times, policy: ast.PolicyChoice, within: int | None, outside: Mapping[str, int]
    ) -> algebra.Pattern:
        if times.count > MOST_TIMES:
            self.error(
                f"TIMES goes up to {MOST_TIMES}",
                times.span,
                f"count them: `... AGGREGATE N = count() OVER LAST {times.count} EVENTS WHERE N = {times.count}`",
                "times",
            )
            return self.pattern(times.pattern, policy, within, outside)
        mine = _variables(times.pattern)
        inside: dict[str, int] = {}
        for name in mine:
            inside[name] = inside.get(name, 0) + 1
        local = {name for name, count in inside.items() if outside.get(name, 0) <= count}
        first = self.pattern(times.pattern, policy, within, outside)
        # Inside, an inner TIMES may have made names of its own: they are as local as the rest.
        local |= {name for name in _lowered_variables(first) if "'" in name}
        links = [first]
        for _ in range(times.count - 1):
            self.fresh += 1
            names = {name: f"{name}'{self.fresh}" for name in local}
            links.append(_rename_pattern(first, names))
        chain = links[0]
        for link in links[1:]:
            chain = algebra.Pair("SEQ", chain, link, policy, within, None, times.span)
        return algebra.Repeat(tuple(links), chain, within, times.span)

    def atom(self, atom: ast.EventPattern, within: int | None) -> algebra.Pattern:
        schema = self.schemas.get(atom.name)
        arguments: tuple[ast.Expression, ...] = atom.arguments
        if schema is None:
            self.flawed = True  # its names were refused before
            return algebra.Atom(atom.name, (), within, atom.span)
        if atom.names is not None:
            positions = {a.name: i for i, a in enumerate(schema.attributes)}
            placed: list[ast.Expression] = [ast.Variable("_", atom.span) for _ in schema.attributes]
            for i, (name, argument) in enumerate(zip(atom.names, atom.arguments, strict=True)):
                if name not in positions:
                    close = get_close_matches(name, list(positions), 1)
                    hint = f"did you mean `{close[0]}`?" if close else _attributes(schema)
                    self.error(f"event `{atom.name}` has no attribute `{name}`", argument.span, hint)
                elif name in atom.names[:i]:
                    self.error(f"attribute `{name}` is given twice", argument.span)
                else:
                    placed[positions[name]] = argument
            arguments = tuple(placed)
        elif len(arguments) != len(schema.attributes):
            self.error(
                f"event `{atom.name}` has {_count(len(schema.attributes))}, here {len(arguments)}",
                atom.span,
                _attributes(schema) if schema.attributes else f"write `{atom.name}` alone",
                "arity",
            )
            return algebra.Atom(atom.name, (), within, atom.span)
        plain: list[ast.Variable | ast.Constant] = []
        for argument in arguments:
            if isinstance(argument, ast.Call):
                self.error(
                    "an event pattern holds variables and constants only",
                    argument.span,
                    f"a variable here, and the arithmetic in a WHERE: `{atom.name}(X) WHERE X = ...`",
                    "pattern",
                )
                argument = ast.Variable("_", argument.span)
            plain.append(argument)
        return algebra.Atom(atom.name, tuple(plain), within, atom.span)

    def alert(self, statement: ast.AlertStatement, known: list[str]) -> Alerting | None:
        """The rule that makes what an alert tells of, None where something is wrong."""
        self.flawed = False
        event = statement.event.name
        if statement.name in known:
            self.error(f"alert `{statement.name}` is there twice", statement.name_span, "another name for one of them")
        if event not in self.schemas:
            close = get_close_matches(event, list(self.schemas), 1)
            hint = f"did you mean `{close[0]}`?" if close else "an alert is on an event that is declared or derived"
            self.error(f"there is no event `{event}`", statement.event.span, hint)
            return None
        atom = self.atom(statement.event, None)
        uses = Counter([*_variables(statement.event), *alert_variables(statement)])
        conditions = tuple(self.condition(condition, uses) for condition in statement.conditions)
        assert isinstance(atom, algebra.Atom), "an event was written"
        if self.flawed:
            return None
        made, errors = alerting(statement, atom, conditions, self.schemas[event], self.source)
        self.errors += errors
        self.schemas[made.schema.name] = made.schema
        return None if errors else made

    # --- background knowledge ---

    def static(self, rule: ast.StaticRule) -> ast.StaticRule:
        if not rule.conditions:
            return rule
        counts = Counter(name for argument in rule.arguments for name in expression_variables(argument))
        counts.update(name for condition in rule.conditions for name in condition_variables(condition))
        return replace(rule, conditions=tuple(self.condition(condition, counts) for condition in rule.conditions))

    def condition(self, condition: ast.Condition, uses: Mapping[str, int]) -> ast.Condition:
        """What asks the knowledge under the name of the table that answers it; `uses` counts the rule's variables."""
        if not isinstance(condition, ast.Predicate):
            return condition
        if condition.graph is not None:
            return self.graph(condition, condition.graph, uses)
        if condition.name == "triple" and len(condition.arguments) == 3 and not self.own_triples:
            return self.triple(condition)
        return condition

    def graph(self, predicate: ast.Predicate, graph: ast.Graph, uses: Mapping[str, int]) -> ast.Condition:
        name = graph.text
        while (known := self.asked.setdefault(name, graph)) is not graph and not _alike(known, graph):
            name += "'"  # the same text under other prefixes
        arguments = predicate.arguments
        if predicate.negated:  # "there is none" needs no value for what nothing else speaks of
            arguments = tuple(
                ast.Variable("_", each.span) if isinstance(each, ast.Variable) and uses[each.name] == 1 else each
                for each in arguments
            )
        return replace(predicate, name=name, arguments=arguments)

    def triple(self, predicate: ast.Predicate) -> ast.Condition:
        subject, verb, thing = (
            each.value if isinstance(each, ast.Constant) and isinstance(each.value, Iri) else None
            for each in predicate.arguments
        )
        fixed = (subject, verb, thing)
        name = f"triple({', '.join('_' if each is None else f'<{each}>' for each in fixed)})"
        self.asked.setdefault(name, algebra.Triples(fixed, predicate.span))
        return replace(predicate, name=name)


def _alike(known: ast.Graph | algebra.Triples, graph: ast.Graph) -> bool:
    """Whether two patterns of one text mean the same: they agree in the prefixes that may be in it."""
    assert isinstance(known, ast.Graph), "the name of triples is in no braces"
    one, other = ({(name, iri) for name, iri in g.prefixes if f"{name}:" in g.text} for g in (known, graph))
    return one == other


def _count(arguments: int) -> str:
    return {0: "no arguments", 1: "1 argument"}.get(arguments, f"{arguments} arguments")


def _attributes(schema: Schema) -> str:
    inner = ", ".join(a.name if a.type in ("any", "unknown") else f"{a.name}: {a.type}" for a in schema.attributes)
    return f"it is `{schema.name}({inner})`"


def _events(pattern: ast.Pattern) -> list[ast.EventPattern]:
    match pattern:
        case ast.EventPattern():
            return [pattern]
        case ast.TimePoint():
            return []
        case ast.Binary():
            return _events(pattern.left) + _events(pattern.right)
        case ast.Not():
            return _events(pattern.absent) + _events(pattern.left) + _events(pattern.right)
        case ast.Unless():
            return _events(pattern.left) + _events(pattern.absent)
        case _:
            return _events(pattern.pattern)


def _variables(pattern: ast.Pattern) -> list[str]:
    match pattern:
        case ast.EventPattern():
            return [n for a in pattern.arguments for n in expression_variables(a)]
        case ast.TimePoint():
            return []
        case ast.Binary():
            return _variables(pattern.left) + _variables(pattern.right)
        case ast.Not():
            return _variables(pattern.absent) + _variables(pattern.left) + _variables(pattern.right)
        case ast.Unless():
            return _variables(pattern.left) + _variables(pattern.absent)
        case ast.Where():
            return _variables(pattern.pattern) + [n for c in pattern.conditions for n in condition_variables(c)]
        case ast.Aggregate():
            inner = _variables(pattern.pattern) + [v.name for v in pattern.by]
            for result in pattern.results:
                inner.append(result.variable)
                inner += [] if result.argument is None else expression_variables(result.argument)
            return inner
        case ast.Policy():
            return _variables(pattern.pattern) + ([pattern.choice.by] if pattern.choice.by else [])
        case _:
            return _variables(pattern.pattern)


def _counted(rule: ast.EventRule) -> dict[str, int]:
    counts: dict[str, int] = {}
    for argument in rule.arguments:
        for name in expression_variables(argument):
            counts[name] = counts.get(name, 0) + 1
    for name in _variables(rule.body):
        counts[name] = counts.get(name, 0) + 1
    return counts


def _lowered_variables(pattern: algebra.Pattern) -> set[str]:
    match pattern:
        case algebra.Atom():
            return {a.name for a in pattern.arguments if isinstance(a, ast.Variable)}
        case algebra.Point():
            return set()
        case algebra.Pair():
            inner = [pattern.left, pattern.right, *([] if pattern.absent is None else [pattern.absent])]
        case algebra.Either():
            inner = [pattern.left, pattern.right]
        case algebra.Unless():
            inner = [pattern.left, pattern.absent]
        case algebra.Repeat():
            inner = [pattern.chain]
        case algebra.Window():
            names = {v.name for v in pattern.by} | {r.variable for r in pattern.results}
            return names | _lowered_variables(pattern.pattern)
        case algebra.Given():
            names = {n for c in pattern.conditions for n in condition_variables(c)}
            return names | _lowered_variables(pattern.pattern)
    return {name for p in inner for name in _lowered_variables(p)}


def _rename_pattern(pattern: algebra.Pattern, names: Mapping[str, str]) -> algebra.Pattern:
    def variable(v: ast.Variable) -> ast.Variable:
        return ast.Variable(names.get(v.name, v.name), v.span)

    def choice(policy: ast.PolicyChoice) -> ast.PolicyChoice:
        return replace(policy, by=names.get(policy.by, policy.by)) if policy.by else policy

    def go(p: algebra.Pattern) -> algebra.Pattern:
        match p:
            case algebra.Atom():
                return replace(
                    p, arguments=tuple(variable(a) if isinstance(a, ast.Variable) else a for a in p.arguments)
                )
            case algebra.Point():
                return p
            case algebra.Pair():
                return replace(
                    p,
                    left=go(p.left),
                    right=go(p.right),
                    absent=None if p.absent is None else go(p.absent),
                    policy=choice(p.policy),
                )
            case algebra.Either():
                return replace(p, left=go(p.left), right=go(p.right))
            case algebra.Unless():
                return replace(p, left=go(p.left), absent=go(p.absent))
            case algebra.Repeat():
                return replace(p, links=tuple(go(link) for link in p.links), chain=go(p.chain))
            case algebra.Window():
                return replace(
                    p,
                    pattern=go(p.pattern),
                    by=tuple(variable(v) for v in p.by),
                    results=tuple(
                        replace(
                            r,
                            variable=names.get(r.variable, r.variable),
                            argument=None if r.argument is None else rename_expression(r.argument, names),
                        )
                        for r in p.results
                    ),
                )
            case algebra.Given():
                return replace(
                    p, pattern=go(p.pattern), conditions=tuple(rename_condition(c, names) for c in p.conditions)
                )

    return go(pattern)
