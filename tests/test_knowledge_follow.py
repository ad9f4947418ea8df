"""What rules ask follows each change of the knowledge: by difference where it can be, and as if all were asked anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.errors import CepError
from cep.core.values import Pool
from cep.engine import Engine
from cep.events import Event, Iri
from cep.knowledge.graph import Knowledge
from cep.knowledge.query import refreshed
from cep.knowledge.query.locality import locality
from cep.plan.algebra import Triples
from cep.rules.expressions.value_order import sorting
from cep.rules.static.materialized import MaterializedRelation
from cep.rules.static.table_views import PreviousTable
from cep.rules.terms import Graph
from cep.runtime.knowledge_source import Answers
from tests import knowledge_maker as maker
from tests.cases_format import write_event
from tests.test_equivalence import examples, rows
from tests.test_knowledge_change import EX, Steps, after, by_difference, changes, knowledge_of, quads
from tests.test_knowledge_patterns import graph as pattern
from tests.test_knowledge_patterns import shown, source

VARIABLES = ["?A", "?B", "?C", "?D", "?e"]
TESTS = ["?A != ?B", "bound(?C)", "?B = ?C", "isNumeric(?B) && ?B > 1", "isIRI(?D)", "!bound(?D)"]
TRIPLES = [Triples((None, Iri(EX + "p"), None)), Triples((None, None, None))]


@contextmanager
def always() -> Iterator[None]:
    """No change is so large, beside what there is, that all is asked anew."""
    with by_difference(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(refreshed, "_LARGE", 0)
        yield


@st.composite
def groups(draw: Callable[..., str], depth: int = 2) -> str:
    """A group of triples, and what SPARQL puts around and beside them."""
    made = [triple(draw) for _ in range(int(draw(st.integers(1, 2))))]
    for _ in range(int(draw(st.integers(0, 2 if depth else 0)))):
        inner = groups(depth=depth - 1)  # type: ignore[call-arg]
        kind = draw(st.sampled_from(["optional", "optional", "minus", "exists", "union", "group", "filter", "bind"]))
        match kind:
            case "optional" | "minus":
                made.append(f"{kind.upper()} {draw(inner)}")
            case "exists":
                made.append(f"FILTER {draw(st.sampled_from(['', 'NOT ']))}EXISTS {draw(inner)}")
            case "union":
                made.append(f"{draw(inner)} UNION {draw(inner)}")
            case "group":
                made.append(str(draw(inner)))
            case "filter":
                made.append(f"FILTER({draw(st.sampled_from(TESTS))})")
            case _:
                made.append(f"BIND(isLiteral(?B) AS ?F{draw(st.integers(0, 10**6))})")
        if draw(st.booleans()):
            made.append(triple(draw))
    return "{ " + " ".join(made) + " }"


def triple(draw: Callable[..., str]) -> str:
    terms = st.sampled_from(VARIABLES)
    verb = draw(st.sampled_from(maker.VERBS))
    return f"{draw(terms)} {verb} {draw(st.one_of(terms, terms, terms, st.sampled_from(['ex:a', '1'])))} ."


@st.composite
def joined(draw: Callable[..., str]) -> str:
    """A pattern that begins with its key, so that it mostly can follow."""
    return "{ ?A ex:p ?B . " + str(draw(groups()))[1:]


def asked_of(knowledge: Knowledge, asked: Graph | Triples, pool: Pool) -> Counter[tuple[Any, ...]]:
    if isinstance(asked, Triples):
        return Counter(shown(knowledge.triples(asked.fixed, pool), pool))
    return Counter(shown(knowledge.answers(asked, pool, source(asked.text)), pool))


def can_be_asked(knowledge: Knowledge, asked: Graph | Triples, pool: Pool) -> bool:
    """A variable may have no place that binds it, or parts share none."""
    try:
        asked_of(knowledge, asked, pool)
    except CepError:
        return False
    return True


def one(answers: Answers, pool: Pool) -> list[tuple[Any, ...]]:
    found = [
        shown(Answers(answers.types, tuple(c[i : i + 1] for c in answers.columns), 1), pool)
        for i in range(answers.rows)
    ]
    return [row for rows in found for row in rows]


@examples(60)
@given(
    lines=st.lists(quads, min_size=4, max_size=15),
    steps=changes,
    texts=st.lists(st.one_of(joined(), joined(), groups(), maker.patterns(), maker.basic()), min_size=1, max_size=3),
    reasoning=st.sampled_from(["none", "none", "owlrl"]),
    forgetful=st.booleans(),
)
def test_answers_that_follow_are_those_asked_anew(
    lines: list[str], steps: Steps, texts: list[str], reasoning: str, forgetful: bool
) -> None:
    if reasoning == "owlrl":  # to which a literal that is ill-formed is a contradiction
        lines = [line for line in lines if '"no"' not in line]
        steps = [([line for line in add if '"no"' not in line], remove) for add, remove in steps]
    state, pool = set(lines), Pool()
    asked: list[Graph | Triples] = [*map(pattern, texts), *TRIPLES]
    with always():
        knowledge = knowledge_of(state, reasoning).fork(apart=True)
        asked = [each for each in asked if can_be_asked(knowledge, each, pool)]
        held = [asked_of(knowledge, each, pool) for each in asked]
        for add, chosen in steps:
            there = sorted(state)
            remove = [there[one % len(there)] if isinstance(one, int) else one for one in chosen if there]
            state = after(state, add, remove)
            knowledge.apply(knowledge.change("\n".join(add), "\n".join(remove)))
            fresh = knowledge_of(state, reasoning)
            for i, each in enumerate(asked):
                found = knowledge.difference(each, pool)
                expected = asked_of(fresh, each, pool)
                if found is None:
                    held[i] = asked_of(knowledge, each, pool)
                else:
                    held[i].subtract(one(found[0], pool))
                    held[i].update(one(found[1], pool))
                assert min(held[i].values(), default=0) >= 0, each
                assert {row for row, times in held[i].items() if times} == set(expected), each
                assert set(asked_of(knowledge, each, pool)) == set(expected), each
            if forgetful:
                knowledge.forget(always=True)


def test_patterns_that_follow() -> None:
    for text in (
        "{ ?A ex:p ?B OPTIONAL { ?A ex:q ?C } FILTER(?B > 1) }",
        "{ ?A ex:p ?B OPTIONAL { ?B ex:q ?C OPTIONAL { ?C ex:r ?D } } }",
        "{ ?A ex:p ?B MINUS { ?A ex:q ?c } }",
        "{ ?A ex:p ?B FILTER NOT EXISTS { ?B ex:q ?c FILTER(?c > 3) } }",
        "{ ?A ex:p ?B { ?B ex:q ?C } UNION { ?B ex:r ?D } }",
        "{ { ?A ex:p ?B } UNION { ?A ex:q ?B } ?A ex:r ?C }",
        "{ ?A ex:p ?B BIND(?B + 1 AS ?C) VALUES ?B { 1 2 } }",
    ):
        assert locality(text, dict(maker.PREFIXES)), text


def test_patterns_of_which_any_triple_may_matter() -> None:
    for text in (
        "{ OPTIONAL { ?A ex:q ?B } ?A ex:p ?B }",  # an optional that stands first is answered by itself
        "{ ?A ex:p ?B MINUS { ?c ex:q ?d } }",
        "{ ?A ex:p ?B FILTER EXISTS { ex:a ex:q ?c } }",
        "{ ?A ex:p ?B OPTIONAL { ?A ex:q ?C } OPTIONAL { ?C ex:r ?D } }",
        "{ ?A ex:p+ ?B }",
        "{ ?A ex:p ?B GRAPH ex:g { ?A ex:q ?C } }",
        "{ ?A ex:p ?B { SELECT ?A (COUNT(?x) AS ?N) { ?A ex:q ?x } GROUP BY ?A } }",
        "{ { ?A ex:p ?B } UNION { ?A ex:q ?B } }",
    ):
        assert locality(text, dict(maker.PREFIXES)) is None, text


def test_only_what_a_change_touches_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(f"<{EX}s{i}> <{EX}p> {i} .\n" for i in range(2000))
    knowledge, pool = Knowledge.of([], "none"), Pool()
    knowledge.apply(knowledge.change(lines))
    asked = pattern("{ ?A ex:p ?B OPTIONAL { ?A ex:q ?C } FILTER(?B != 7) }")
    assert asked_of(knowledge, asked, pool).total() == 1999
    seen: list[int] = []
    solved = refreshed.Refreshed._solved
    monkeypatch.setattr(
        refreshed.Refreshed,
        "_solved",
        lambda self, text, few, keys: seen.append(len(few)) or solved(self, text, few, keys),
    )
    knowledge.apply(knowledge.change(f"<{EX}s3> <{EX}q> 5 . <{EX}s7> <{EX}q> 5 . <{EX}else> <{EX}q> 5 ."))
    assert seen == [4]  # of s3 and s7; the third has no `p`
    found = knowledge.difference(asked, pool)
    assert found is not None
    assert [one(each, pool) for each in found] == [[(("Iri", EX + "s3"), 3, None)], [(("Iri", EX + "s3"), 3, 5)]]


# --- tables whose rows come and go ---

edits = st.lists(
    st.tuples(st.lists(st.integers(0, 11), max_size=6), st.lists(st.integers(0, 100), max_size=6)), max_size=12
)


@examples(100)
@given(first=st.sets(st.integers(0, 11)), steps=edits, settled=st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_table_that_is_edited_is_one_of_its_rows(
    first: set[int], steps: list[tuple[list[int], list[int]]], settled: list[bool]
) -> None:
    pool = Pool()
    values = [(a, b) for a in (None, "x", 2, 1.5) for b in ("q", "p", "r")]

    def table(some: list[int]) -> tuple[list[Any], int]:
        return [pool.encode_values([values[i][j] for i in some]) for j in range(2)], len(some)

    def rows_of(columns: list[Any]) -> list[tuple[Any, ...]]:
        return list(zip(*(pool.decode_values(column) for column in columns)))

    edited, times = MaterializedRelation("t", ("any", "any")), Counter(first)
    edited.add(*table(sorted(first)))
    probes = [edited.probe({}, (0, 1)), edited.probe({1: "any"}, (0,)), edited.probe({1: "any"}, ())]
    before = PreviousTable(edited).probe({1: "any"}, (0,))
    was = sorted(+times)
    for now, ((new, chosen), settle) in enumerate(zip(steps, settled)):
        there = sorted(times.elements())
        gone = list((Counter(there[one % len(there)] for one in chosen) & times).elements()) if there else []
        if not gone and not new:  # the table keeps its order until it is edited
            continue
        times.update(new)
        times.subtract(gone)
        edited.edit(table(gone), table(new), pool, now)
        columns, count = table(sorted(+times))
        order = sorting(columns, edited.types, count, pool)
        columns = [column[order] for column in columns]
        assert edited.count == count and rows_of(edited.all()[0]) == rows_of(columns)  # type: ignore[arg-type]
        assert rows_of(probes[0].answers([], 1)[1]) == rows_of(columns)
        key = pool.encode_values(["p", "none", "q"])
        index, found = probes[1].answers([key], 3)
        expected = [[row[0] for row in rows_of(columns) if row[1] == each] for each in ("p", "none", "q")]
        assert [[v for i, v in zip(index, pool.decode_values(found[0])) if i == n] for n in range(3)] == expected
        assert probes[2].holds([key], 3).tolist() == [bool(each) for each in expected]
        found = before.answers([key], 3)[1]
        assert Counter(pool.decode_values(found[0])) == Counter(values[i][0] for i in was if values[i][1] in "pq")
        if settle:
            edited.settle()
            was = sorted(+times)


@examples(100)
@given(first=st.sets(st.integers(0, 11)), steps=edits, data=st.data())
def test_an_edited_table_answers_at_each_time(
    first: set[int], steps: list[tuple[list[int], list[int]]], data: st.DataObject
) -> None:
    pool = Pool()
    values = [(a, b) for a in (None, "x", 2, 1.5) for b in ("q", "p", "r")]

    def table(some: list[int]) -> tuple[list[Any], int]:
        return [pool.encode_values([values[i][j] for i in some]) for j in range(2)], len(some)

    edited = MaterializedRelation("t", ("any", "any"))
    edited.add(*table(sorted(first)))
    probes = [edited.probe({}, (0, 1)), edited.probe({1: "any"}, (0,)), edited.probe({1: "any"}, ())]
    versions, floor = [(-1, Counter(first))], -1
    for now, (new, chosen) in enumerate(steps):
        action = data.draw(st.sampled_from(["edit", "edit", "undo", "forget", "codes"]))
        times = versions[-1][1]
        if action == "edit":
            there = sorted(times.elements())
            gone = list((Counter(there[one % len(there)] for one in chosen) & times).elements()) if there else []
            edited.edit(table(gone), table(new), pool, now)
            versions.append((now, times + Counter(new) - Counter(gone)))
        elif action == "undo":
            after = data.draw(st.integers(floor, now))
            edited.undo(after)
            versions = [version for version in versions if version[0] <= after]
        elif action == "forget":
            floor = data.draw(st.integers(floor, now))
            edited.forget(floor)
            last = max(time for time, _ in versions if time <= floor)
            versions = [version for version in versions if version[0] >= last]
        else:  # removed rows go
            pool.sweep(edited.codes())
        ends = np.arange(floor, now + 2)
        expected = [sorted(next(rows for time, rows in reversed(versions) if time <= end)) for end in ends.tolist()]
        keys = pool.encode_values(["p"] * len(ends))
        index, (found,) = probes[1].answers([keys], len(ends), ends)
        answers = list(zip(index.tolist(), pool.decode_values(found)))
        own = [(n, values[i][0]) for n, rows in enumerate(expected) for i in rows if values[i][1] == "p"]
        assert Counter(answers) == Counter(own)
        assert probes[2].holds([keys], len(ends), ends).tolist() == [n in dict(own) for n in range(len(ends))]
        assert len(probes[0].answers([], len(ends), ends)[0]) == sum(map(len, expected))
        assert [edited.count_at(end) for end in ends.tolist()] == list(map(len, expected))
        assert edited.count == len(expected[-1])


# --- engines ---

P = f"PREFIX ex: <{EX}>\n"
STATICS = [
    "big(A) :- { ?A ex:p ?B }, B = 1.",
    "both(A, B) :- { ?A ex:p ?B }, { ?A ex:q ?c }.",
    "none(A) :- { ?A ex:p ?b }, not both(A, _).",
    "pair(A, C) :- both(A, B), both(C, B), A != C.",
    "pair(A, A) :- none(A).",
    'label(A, "none") :- none(A), not triple(A, ex:r, ex:a).',
    "step(A, B) :- { ?A ex:r ?B FILTER(isIRI(?B)) }.",
    "reach(A, B) :- step(A, B).",
    "reach(A, C) :- reach(A, B), step(B, C).",
    "end(A) :- reach(_, A), not step(A, _).",
    "value(A, V) :- { ?A ex:p ?V }, big(A).",
    "value(A, 0) :- end(A).",
    "value(ex:z, 2.5) :- end(ex:a).",
    "fixed(ex:a). fixed(A) :- end(A), not none(A).",
    "test(X) :- big(X), X != ex:c.",
    "only(A, S) :- big(A), S = string(A), not fixed(A).",
    "maybe(A, C) :- { ?A ex:p ?b OPTIONAL { ?A ex:q ?C } }.",
    "same(X) :- maybe(X, X).",
]
HEADS = ["big(X)", "both(X, Y)", "none(X)", "pair(X, Y)", "label(X, Y)", "reach(X, Y)", "end(X)", "value(X, Y)"]
HEADS += [
    "fixed(X)",
    "test(X), end(X)",
    "only(X, Y)",
    "maybe(X, Y)",
    "same(X)",
    "not big(ex:a)",
    "{ ?X ex:q ?Y MINUS { ?X ex:r ?y } }",
]
PROGRAM = P + "event e(n: int).\n" + "\n".join(STATICS)
for number, body in enumerate(HEADS):
    outputs = ", ".join(name for name in ("X", "Y") if name in body)
    PROGRAM += f"\no{number}(N{', ' * bool(outputs)}{outputs}) <- e(N) WHERE {body}."


@examples(60)
@given(
    lines=st.lists(quads, min_size=4, max_size=15),
    steps=changes,
    snapshots=st.lists(st.booleans(), min_size=5, max_size=5),
    way=st.sampled_from(["as they come", "at once", "in another order"]),
    data=st.data(),
)
def test_rules_see_what_they_would_in_knowledge_loaded_afresh(
    lines: list[str], steps: Steps, snapshots: list[bool], way: str, data: st.DataObject
) -> None:
    def program() -> Engine:
        return Engine.from_text(PROGRAM, knowledge=known_of(loaded), lateness=None)

    def known_of(state: set[str]) -> Knowledge:
        return knowledge_of({*state, *SOME}, "none")

    loaded = {line for line in lines if "<x:" not in line and f" <{EX}g> ." not in line}
    state, rows_of, expected, found = set(loaded), [], [], []
    for n, (more, chosen) in enumerate(steps, 1):
        add = [line for line in more if f" <{EX}g> ." not in line and "XMLSchema" not in line]
        there = sorted(state)
        remove = [there[one % len(there)] if isinstance(one, int) else one for one in chosen if there]
        remove = [line for line in remove if line not in SOME]
        state = after(state, add, remove)
        rows_of.append((n * 10, "\n".join(add), "\n".join(remove)))
        fresh = Engine.from_text(PROGRAM, knowledge=known_of(state), lateness=None)
        expected += rows(fresh.push([Event("e", (n,), n * 10 + 5, n * 10 + 5)])) + rows(fresh.close())
    with always():
        engine = program()
        if way == "at once":
            engine.updates(rows_of)
        for each in data.draw(st.permutations(rows_of)) if way == "in another order" else ():
            engine.update(*each)
        for i, each in enumerate(rows_of):
            if way == "as they come":
                engine.update(*each)
            engine.receive([Event("e", (i + 1,), each[0] + 5, each[0] + 5)])
            engine._parts.sweep_at = 0  # every push sweeps
            found += rows(engine.advance(each[0] + 5))
            if snapshots[i % 5]:
                engine = program().restore(engine.snapshot())
        found += rows(engine.close())
    assert Counter(map(write_event, found)) == Counter(map(write_event, expected))


SOME = [
    f'<{EX}y> <{EX}p> "y"@en .',
    f"<{EX}y> <{EX}p> <{EX}y> .",
    f"<{EX}y> <{EX}q> <{EX}y> .",
    f'<{EX}y> <{EX}q> "y"@en .',
]
SOME += [f'<{EX}w> <{EX}q> "w"@en .', f"<{EX}w> <{EX}q> <{EX}w> ."]
SOME += [f"<{EX}y> <{EX}r> <{EX}y> .", f'<{EX}y> <{EX}p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .']
