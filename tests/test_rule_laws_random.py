"""Laws of `cep test` on random programs: neither disorder within the lateness, batches, stops nor records that come
twice make a difference. `SEMCEP_LAWS=42` tries so many programs for each seed, ten thousand in all."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from cep.core.errors import CepError
from cep.testing.laws import LAWS, broken
from cep.testing.rule_files import parse_test_file
from cep.testing.runs import Programs
from tests.cli_runs import jsonl
from tests.feature_programs import LANGUAGE, feature_case
from tests.long import seeds
from tests.program_maker import SECOND

EACH = int(os.environ.get("SEMCEP_LAWS", "10"))
FEATURES = sorted(set(LANGUAGE) - {"knowledge", "knowledge updates", "fluent records"})
"""Those of which all is in the files of rules, and in records of events."""


def check(rng: Random, folder: Path) -> int:
    """Try a random program; return how many runs under laws gave the same results."""
    case = feature_case(rng, rng.sample(FEATURES, rng.choice((0, 1, 1, 2, 3))))
    folder.mkdir()
    for name, text in case.files.items():
        (folder / name).write_text(text)
    records = [
        {"type": each.type, "time": each.end / SECOND, "k": each.args[0], "v": each.args[1]} for each in case.events
    ]
    (folder / "events.jsonl").write_text(jsonl(records))
    last = case.events[-1].end // SECOND
    until = rng.choice(("", "    until: end\n", "    until: end\n", f"    until: {last + rng.randrange(4)}\n"))
    text = f"program: [{', '.join(case.files)}]\nlateness: {rng.choice((1, 2, 5, 60))} s\n"
    text += f"tests:\n  - name: t\n    input: events.jsonl\n{until}    dead: 0\n"
    file = parse_test_file(text, folder / "t.test.yaml")
    prepared = Programs().prepare(file.tests[0])
    passed, failures = broken(prepared, prepared.run(), LAWS, (rng.randrange(1 << 30),))
    assert not failures, (case.files, [(each.message, *each.details) for each in failures])
    return passed


@pytest.mark.parametrize("seed", seeds(240))
def test_no_law_is_broken(seed: int, tmp_path: Path) -> None:
    rng, passed, refused = Random(f"laws {seed}"), 0, 0
    for number in range(EACH):
        try:
            passed += check(rng, tmp_path / str(number))
        except CepError:
            refused += 1
    assert passed >= EACH and refused <= EACH // 2
