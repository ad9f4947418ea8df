"""The report of `cep knowledge verify`: the input, the size of both closures, and the reason of each difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.knowledge.graph import Knowledge
from cep.knowledge.rdf.prefixed_names import PrefixedNames
from cep.knowledge.verification.comparison import DIFFERENCES, ClosureComparison, Side, compare_closures
from cep.knowledge.verification.sample import TripleSample, sample

Regime = Literal["rdfs", "owlrl"]
REGIMES: tuple[Regime, ...] = ("rdfs", "owlrl")
MOST_SHOWN = 10
"""The maximum number of unexplained triples in the report."""


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification: the knowledge, the reasoning, the sample of triples, and the comparison."""

    knowledge: Knowledge
    regime: Regime
    sample: TripleSample
    comparison: ClosureComparison


def regime(reasoning: str | None) -> Regime:
    """Return the reasoning to verify, by default OWL 2 RL. Raises CepError if owlrl does not support it."""
    for known_regime in REGIMES:
        if known_regime == (reasoning or "owlrl"):
            return known_regime
    assert reasoning is not None, "without a name it is owlrl"
    reason = "`none` infers nothing" if reasoning == "none" else "only owlrl implements it"
    if reasoning != "none" and ":" not in reasoning:
        reason = "there is no such kind of reasoning"
    hint = did_you_mean(reasoning, REGIMES) or "use `--reasoning rdfs` or `--reasoning owlrl`, the default"
    raise CepError(f"--reasoning: `{reasoning}` cannot be verified: {reason}", hint=hint, code="option")


def verify_closure(knowledge: Knowledge, regime: Regime, subjects: int) -> Verification:
    """Compare the closures of the knowledge, or of a sample of it, by our rules and by owlrl.

    `subjects`: the maximum number of subjects in the sample. Raises CepError if both find a contradiction.
    """
    taken = sample(knowledge.terms, knowledge.asserted, subjects)
    return Verification(knowledge, regime, taken, compare_closures(knowledge.terms, taken.triples, regime))


def report_lines(verification: Verification, prefixes: Mapping[str, str]) -> list[str]:
    taken, compared = verification.sample, verification.comparison
    size = f"{len(taken.triples):,} triples"
    if not taken.whole:
        size = f"a sample of {size} of {len(verification.knowledge.asserted):,}"
    lines = [f"{size}: {taken.schema:,} of the schema, {taken.subjects:,} of {taken.among:,} subjects"]
    rows = [("both", compared.both), ("only semcep", compared.only("semcep")), ("only owlrl", compared.only("owlrl"))]
    lines += ["", f"closed under {verification.regime}", *(f"  {name:<12}{count:>10,}" for name, count in rows)]
    sides: tuple[Side, ...] = ("semcep", "owlrl")
    for side in sides:
        known = [(name, compared.explained[side, name]) for name in DIFFERENCES if (side, name) in compared.explained]
        if known:
            lines += ["", f"only {side}, for known reasons"]
            lines += [f"  {name:<3}{DIFFERENCES[name]:<60}{count:>10,}" for name, count in known]
    return [*lines, "", *_unexplained(verification, prefixes)]


def _unexplained(verification: Verification, prefixes: Mapping[str, str]) -> list[str]:
    compared = verification.comparison
    if compared.agrees:
        return ["no difference is unexplained"]
    lines = [f"a contradiction that only {side} finds: {text}" for side, text in compared.contradictions[:MOST_SHOWN]]
    names = PrefixedNames(verification.knowledge.terms, prefixes)
    if compared.unexplained:
        lines.append(f"unexplained: {len(compared.unexplained):,}")
    for side, triple in compared.unexplained[:MOST_SHOWN]:
        written = " ".join(names.of(id) for id in verification.knowledge.terms.ids(triple).tolist())
        lines.append(f"  only {side + ':':<8}{written}")
    if len(compared.unexplained) > MOST_SHOWN:
        lines.append(f"  and {len(compared.unexplained) - MOST_SHOWN:,} more")
    return [*lines, "hint: one of the two is wrong; please report it with the triples behind it"]
