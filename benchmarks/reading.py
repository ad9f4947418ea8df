"""`python -m benchmarks.reading`: the cost of a program's text before the first event, for growing texts of many kinds.

Each kind of text is parsed, checked, planned and built at sizes n, 2n and 4n in its own process. The table has CPU
seconds and peak memory, minus those of an empty program. The exponent tells how the seconds grow with the size: 1 is
linear, 2 is quadratic. For a text that is refused, the seconds until its error message count.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log2

READING = "event e(id: int, x: int, y: float, s: string) TIME t.\n"


def _many(count: int, item: Callable[[int], str], between: str = "\n") -> str:
    return between.join(map(item, range(count)))


def _attributes(n: int) -> str:
    names = _many(n, lambda i: f"a{i}: int", ", ")
    variables = _many(n, lambda i: f"V{i}", ", ")
    return f"event wide({names}) TIME t.\nout({variables}) <- wide({variables}) WHERE V0 > 1.\n"


def _named_attributes(n: int) -> str:
    names = _many(n, lambda i: f"a{i}: int", ", ")
    given = _many(n, lambda i: f"a{i}: V{i}", ", ")
    return f"event wide({names}) TIME t.\nout(V0) <- wide({given}).\n"


def _joined_columns(n: int) -> str:
    names = _many(n, lambda i: f"a{i}: int", ", ")
    variables = _many(n, lambda i: f"V{i}", ", ")
    return f"event wide({names}) TIME t.\nout(V0) <- wide({variables}) SEQ wide({variables}).\n"


def _chain(operator: str, width: int = 150) -> Callable[[int], str]:
    """Return a function from the number of rules to a text of rules whose bodies have the maximum length."""

    def text(n: int) -> str:
        body = _many(width, lambda i: "e(I, X, _, _)", f" {operator} ")
        return READING + _many(max(1, n // width), lambda k: f"c{k}(I) <- {body} WHERE I > {k}.")

    return text


KINDS: dict[str, tuple[int, Callable[[int], str]]] = {
    "letters in the name of a rule": (50_000, lambda n: READING + f"{'a' * n}(I) <- e(I, _, _, _).\n"),
    "letters in the name of an event": (50_000, lambda n: f"event {'a' * n}(x: int) TIME t. b(X) <- {'a' * n}(X).\n"),
    "letters in the name of an attribute": (50_000, lambda n: f"event e({'a' * n}: int). b(X) <- e({'a' * n}: X).\n"),
    "letters in a variable": (50_000, lambda n: READING + f"b(V{'a' * n}) <- e(V{'a' * n}, _, _, _).\n"),
    "letters in an unknown name": (50_000, lambda n: READING + f"b(I) <- e(I, _, _, _) WHERE {'abc' * (n // 3)}(I).\n"),
    "letters in a string": (200_000, lambda n: READING + f'b(I) <- e(I, _, _, S) WHERE S = "{"é" * n}".\n'),
    "letters in a comment": (200_000, lambda n: f"# {'word ' * (n // 5)}\n{READING}b(I) <- e(I, _, _, _).\n"),
    "digits of a number": (50_000, lambda n: READING + f"b(I) <- e(I, X, _, _) WHERE X < 0.{'7' * n}.\n"),
    "letters of a graph pattern": (
        50_000,
        lambda n: READING + f"b(I) <- e(I, _, _, S) WHERE {{ ?s <x:p> ?v . {'# note ' * (n // 7)} \n }}.\n",
    ),
    "lines": (20_000, lambda n: READING + "\n" * n + "b(I) <- e(I, _, _, _).\n"),
    "rules": (500, lambda n: READING + _many(n, lambda i: f"r{i}(I) <- e(I, X, _, _) WHERE X > {i}.")),
    "rules of one event": (500, lambda n: READING + _many(n, lambda i: f"r(I) <- e(I, X, _, _) WHERE X > {i}.")),
    "rules with a join": (
        250,
        lambda n: READING + _many(n, lambda i: f"r{i}(I) <- e(I, X, _, _) SEQ e(I, {i}, _, _) WITHIN {i} s."),
    ),
    "rules in a row, each on the one before": (
        250,
        lambda n: READING + "r0(I) <- e(I, _, _, _).\n" + _many(n, lambda i: f"r{i + 1}(I) <- r{i}(I) WHERE I > {i}."),
    ),
    "rules in a ring": (
        100,
        lambda n: (
            READING
            + "r0(I) <- e(I, _, _, _).\n"
            + _many(n, lambda i: f"r{(i + 1) % n}(I) <- r{i}(I) SEQ e(I, {i}, _, _).")
        ),
    ),
    "events declared": (
        500,
        lambda n: _many(n, lambda i: f"event e{i}(id: int, x: float) TIME t. r{i}(I) <- e{i}(I, X) WHERE X > 1."),
    ),
    "attributes": (250, _attributes),
    "attributes by name": (250, _named_attributes),
    "columns of a join key": (250, _joined_columns),
    "conditions in a WHERE": (
        500,
        lambda n: READING + f"b(I) <- e(I, X, _, _) WHERE {_many(n, lambda i: f'X != {i}', ', ')}.\n",
    ),
    "conditions in a WHERE over a join": (
        250,
        lambda n: (
            READING
            + "b(I) <- e(I, X, _, _) SEQ e(I, Y, _, _) WHERE "
            + _many(n, lambda i: f"X + Y != {i}", ", ")
            + ".\n"
        ),
    ),
    "variables bound in a WHERE": (
        250,
        lambda n: READING + f"b(I) <- e(I, V0, _, _) WHERE {_many(n, lambda i: f'V{i + 1} = V{i} + 1', ', ')}.\n",
    ),
    "variables bound in a WHERE, the last first": (
        250,
        lambda n: (
            READING + "b(I) <- e(I, V0, _, _) WHERE " + _many(n, lambda i: f"V{n - i} = V{n - i - 1} + 1", ", ") + ".\n"
        ),
    ),
    "predicates in a WHERE": (
        100,
        lambda n: (
            READING
            + "p(1, 2). "
            + "b(I) <- e(I, V0, _, _) WHERE "
            + _many(n, lambda i: f"p(V{i}, V{i + 1})", ", ")
            + ".\n"
        ),
    ),
    "arguments of a function": (
        500,
        lambda n: READING + f"b(max({_many(n, lambda i: f'X + {i}', ', ')})) <- e(I, X, _, _).\n",
    ),
    "arguments of a head": (500, lambda n: READING + f"b({_many(n, lambda i: f'X + {i}', ', ')}) <- e(I, X, _, _).\n"),
    "arguments of concat": (500, lambda n: READING + f"b(concat({_many(n, lambda i: 'S', ', ')})) <- e(_, _, _, S).\n"),
    "aggregates of a window": (
        100,
        lambda n: (
            READING
            + f"b({_many(n, lambda i: f'A{i}', ', ')}) <- e(I, X, _, _) AGGREGATE "
            + _many(n, lambda i: f"A{i} = sum(X + {i})", ", ")
            + " OVER LAST 1 h BY I.\n"
        ),
    ),
    "operators in a row": (
        1_500,
        lambda n: READING + _many(max(1, n // 150), lambda k: f"b{k}({' + '.join(['X'] * 150)}) <- e(_, X, _, _)."),
    ),
    "brackets in one another": (
        1_500,
        lambda n: READING + _many(max(1, n // 45), lambda k: f"b{k}({'(X+' * 45}1{')' * 45}) <- e(_, X, _, _)."),
    ),
    "alternatives of OR": (1_500, _chain("OR")),
    "steps of SEQ": (1_500, _chain("SEQ", 50)),
    "steps of AND": (1_500, _chain("AND", 50)),
    "TIMES": (10, lambda n: READING + f"b(I) <- e(I, _, _, _) TIMES {n}.\n"),
    "facts": (
        2_000,
        lambda n: READING + _many(n, lambda i: f'p({i}, "s{i}").') + "\nb(I) <- e(I, _, _, S) WHERE p(I, S).\n",
    ),
    "predicates with a fact": (
        500,
        lambda n: READING + _many(n, lambda i: f"p{i}({i}). b{i}(I) <- e(I, _, _, _) WHERE p{i}(I)."),
    ),
    "static rules": (250, lambda n: READING + "p0(1).\n" + _many(n, lambda i: f"p{i + 1}(X) :- p{i}(X), X > 0.")),
    "static rules in a ring": (250, lambda n: "p0(1).\n" + _many(n, lambda i: f"p{(i + 1) % n}(X) :- p{i}(X).")),
    "static rules of one predicate": (250, lambda n: "q(1).\n" + _many(n, lambda i: f"p(X) :- q(X), X != {i + 2}.")),
    "static rules that are called": (250, lambda n: READING + _many(n, lambda i: f"p{i}(X) :- X > {i}.")),
    "static rules that call each other": (
        12,
        lambda n: (
            READING
            + "p0(X) :- X > 0.\n"
            + _many(n, lambda i: f"p{i + 1}(X) :- p{i}(X), p{i}(X + 1).")
            + f"b(I) <- e(I, _, _, _) WHERE p{n}(I).\n"
        ),
    ),
    "policies": (500, lambda n: READING + _many(n, lambda i: f"policy recent. r{i}(I) <- e(I, _, _, _).")),
    "prefixes": (
        500,
        lambda n: READING + _many(n, lambda i: f"PREFIX p{i}: <http://x/{i}#>") + "\nb(I) <- e(I, _, _, _).\n",
    ),
    "alerts": (
        250,
        lambda n: (
            READING
            + _many(
                n,
                lambda i: (
                    f"r{i}(I) <- e(I, {i}, _, _).\n"
                    f'ALERT w{i} ON r{i}(I) SEVERITY "Severe" TITLE "{i}" FOR 1 h KEYED BY I.'
                ),
            )
        ),
    ),
    "labels": (500, lambda n: READING + _many(n, lambda i: f"l{i}: r(I) <- e(I, {i}, _, _).")),
    "graph patterns": (
        250,
        lambda n: READING + _many(n, lambda i: f"r{i}(I) <- e(I, _, _, S) WHERE {{ ?s <x:p{i}> ?v }}."),
    ),
    "mistakes: unknown predicates": (
        250,
        lambda n: READING + _many(n, lambda i: f"r{i}(I) <- e(I, _, _, _) WHERE nothing{i}(I)."),
    ),
    "mistakes: predicates nearly known": (
        250,
        lambda n: READING + _many(n, lambda i: f"known{i}({i}). r{i}(I) <- e(I, _, _, _) WHERE knwon{i}(I)."),
    ),
    "mistakes: long names": (
        20_000,
        lambda n: READING + f"{'ab' * (n // 2)}(1). b(I) <- e(I, _, _, _) WHERE {'ab' * (n // 2 - 1)}a(I).\n",
    ),
    "mistakes: unbound variables": (500, lambda n: READING + _many(n, lambda i: f"r{i}(Q{i}) <- e(I, _, _, _).")),
    "mistakes: types": (500, lambda n: READING + _many(n, lambda i: f'r{i}(I) <- e(I, _, _, _) WHERE I = "a{i}".')),
    "mistakes: events of another width": (500, lambda n: READING + _many(n, lambda i: f"r{i}(I) <- e(I, {i}).")),
    "mistakes: names of attributes": (250, lambda n: _attributes(n) + _many(n, lambda i: f"r{i}(I) <- wide(b{i}: I).")),
    "mistakes: in one WHERE": (
        250,
        lambda n: READING + f"b(I) <- e(I, X, _, S) WHERE {_many(n, lambda i: f'S > {i}', ', ')}.\n",
    ),
    "warnings: names that are near": (
        250,
        lambda n: READING + _many(n, lambda i: f"warning_of_kind{i}(I) <- e(I, X, _, _) WHERE X > 2, X < 1."),
    ),
}
"""The kinds of text. Each is mapped to its initial n, and to a function that returns the text for a given n."""


@dataclass(frozen=True, slots=True)
class Read:
    """A measurement of a text: the CPU seconds, the peak bytes, and the outcome."""

    seconds: float
    bytes: int
    outcome: str


def read(text: str) -> str:
    """Do what `cep check` does with a text. Return `read`, or the first line of its errors."""
    from cep.core.errors import CepError
    from cep.engine import Engine

    try:
        engine = Engine.from_text(text)
        answer = "\n".join(str(warning) for warning in engine.warnings)
    except CepError as error:
        answer = str(error)
        return answer.split("\n", 1)[0][-110:]
    return "read" + (f", {len(answer):,} characters of warnings" if answer else "")


def _here(kind: str, n: int, limit: int) -> None:
    """Measure one text, subtract the cost of an empty program, and print the result. This runs in the child process."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit + 5, limit + 5))
    _, text = KINDS[kind]
    made = text(n)
    read(READING + "b(I) <- e(I, X, _, _) SEQ e(I, X, _, _) WHERE X > 1.\n")
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    outcome = read(made)
    took = time.process_time() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([took, peak * 1024, outcome]))


def measured(kind: str, n: int, limit: float) -> Read:
    """Measure one kind at one size. A text that exceeds `limit` CPU seconds, or crashes, is reported as such."""
    command = [sys.executable, "-m", "benchmarks.reading", "--here", kind, "--n", str(n), "--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return Read(limit, 0, "not in time")
    if done.returncode:
        return Read(0.0, 0, f"died: {done.stderr.strip().splitlines()[-1:]} status {done.returncode}")
    return Read(*json.loads(done.stdout))


def lines(kinds: list[str], scale: float, limit: float) -> Iterator[str]:
    """Yield the lines of a table, one for each kind."""
    yield "| kind | n | CPU s at n | 2n | 4n | MB at n | 2n | 4n | exponent | outcome |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"
    for kind in kinds:
        n = max(1, int(KINDS[kind][0] * scale))
        runs = [measured(kind, n * times, limit) for times in (1, 2, 4)]
        seconds = " | ".join(f"{run.seconds:.2f}" for run in runs)
        memory = " | ".join(f"{run.bytes / 1e6:.0f}" for run in runs)
        first, _, last = (max(run.seconds, 0.02) for run in runs)
        yield f"| {kind} | {n:,} | {seconds} | {memory} | {log2(last / first) / 2:.1f} | {runs[-1].outcome} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading", description=__doc__)
    parser.add_argument("--only", metavar="WORD", default="", help="kinds whose name holds this")
    parser.add_argument("--scale", type=float, default=1.0, help="times the sizes to begin with")
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds that one text may take")
    parser.add_argument("--here", metavar="KIND", choices=list(KINDS), help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.here:
        _here(asked.here, asked.n, int(asked.limit))
        return
    for line in lines([kind for kind in KINDS if asked.only in kind], asked.scale, asked.limit):
        print(line, flush=True)


if __name__ == "__main__":
    main()
