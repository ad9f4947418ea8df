"""Every two features go together: random programs, most of them with ties and without keys, give what one engine gives
over the input in order. A pair that cannot be is refused by name; `docs/limits.md` lists the same ones."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from cep.core.errors import CepError
from tests.cli_runs import cep
from tests.feature_programs import LANGUAGE, feature_case
from tests.feature_runs import RUNNING, Run
from tests.long import seeds, some

Pair = frozenset[str]
FEATURES = (*RUNNING, *LANGUAGE)
LIMITS = Path(__file__).parent.parent / "docs" / "limits.md"


def pair(one: str, other: str) -> Pair:
    return frozenset((one, other))


REFUSED: dict[Pair, str] = {
    pair("changes", "serve"): "use either `changes`, which returns when fluents begin and end",
    pair("explain", "Spark"): "--explain does not work on Spark",
    pair("workers", "Spark"): "--workers has no effect on Spark",
    pair("workers", "serve"): "workers: remembering events for explanations needs one process",
    pair("workers", "before"): "workers: taking over the state of another program needs one process",
    frozenset(("workers", "explain", "revise")): "workers: these rules",
}
"""What is refused together, at least in some programs, and how the error begins."""

ELSEWHERE = {
    pair("Spark", "serve"): "tests/test_serve.py",
    pair("Spark", "before"): "tests/test_spark_migration.py",
}
"""Pairs that are other commands: a server follows the folder of a job, and `--migrate` goes on with other rules."""

NAMED = {
    "workers": "`--workers`",
    "Spark": "`--on spark`",
    "explain": "`--explain`",
    "by key": "`--lateness-by`",
    "revise": "`--revise`",
    "final": "`--final`",
    "serve": "`cep serve`",
    "before": "the parameter [`before`](python.md#the-engine-itself) of an engine in Python",
    "changes": "`--changes`",
}
"""How the page calls them."""

COMMANDS = {
    pair("explain", "Spark"): ("--on", "spark", "--explain"),
    pair("workers", "Spark"): ("--on", "spark", "--workers", "2"),
}
"""Options that are refused before there is a program."""

PAIRS = [pair(*each) for each in combinations(FEATURES, 2)]
TRIED = [each for each in PAIRS if each not in ELSEWHERE and each not in COMMANDS]


def named(each: object) -> str:
    return "+".join(sorted(each)) if isinstance(each, frozenset) else str(each)


def outcome(features: Pair, seed: int, folder: Path) -> str | None:
    """Check a random program with these features; how its refusal is told, if it is refused."""
    rng = Random(f"{named(features)} {seed}")
    try:
        run = Run(feature_case(rng, sorted(features)), features, rng, folder)
        found = run.run()
    except CepError as error:
        return error.message
    except ValueError as error:
        return str(error)
    assert found == run.expected(), run.case
    return None


@pytest.mark.parametrize("seed", some(range(12)))
@pytest.mark.parametrize("features", TRIED, ids=named)
def test_a_pair_gives_what_one_engine_gives(features: Pair, seed: int, tmp_path: Path) -> None:
    why = outcome(features, seed, tmp_path)
    assert why is None or why.startswith(REFUSED.get(features, "this pair is not refused")), why


@pytest.mark.parametrize("seed", seeds(480))
def test_more_features_give_what_one_engine_gives(seed: int, tmp_path: Path) -> None:
    """Three to five of them, whose pairs go together or are refused by what they say."""
    rng = Random(f"features {seed}")
    features = rng.sample(FEATURES, rng.choice((3, 3, 4, 5)))
    apart = [each for each in (*ELSEWHERE, *COMMANDS) if each <= set(features)]
    chosen = frozenset(features) - {min(each) for each in apart}
    why = outcome(chosen, seed, tmp_path)
    assert why is None or any(each <= chosen and why.startswith(text) for each, text in REFUSED.items()), why


@pytest.mark.parametrize("features", [each for each in REFUSED if each not in COMMANDS], ids=named)
def test_a_pair_that_is_refused_says_why(features: Pair, tmp_path: Path) -> None:
    told = (outcome(features, 100 + seed, tmp_path / str(seed)) for seed in range(20))
    assert any(why is not None and why.startswith(REFUSED[features]) for why in told)


@pytest.mark.parametrize("features", COMMANDS, ids=named)
def test_options_that_are_refused_say_why(features: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.cep").write_text("event a(k: int). x(K) <- a(K).")
    places = ("--input", "in", "--output", "out", "--checkpoint", "state")
    made = cep("run", "rules.cep", *places, *COMMANDS[features])
    assert made.exit_code == 2 and REFUSED[features] in made.stderr


def test_the_limits_list_the_pairs_that_are_refused() -> None:
    section = LIMITS.read_text().split("## Features that do not go together\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| `+ ?(.+?)`+ \|", section, re.M)
    names = {text: feature for feature, text in NAMED.items()}
    listed = {frozenset(map(names.__getitem__, (one, *other.split(" and ")))): text for one, other, text in rows}
    assert listed == REFUSED
