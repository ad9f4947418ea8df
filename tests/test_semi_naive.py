"""The loop of semi-naive evaluation: every row is new in one round alone, and the last round finds none."""

from __future__ import annotations

from cep.rules.static.semi_naive import rounds

Pairs = frozenset[tuple[int, int]]


def test_each_round_has_what_the_last_one_found() -> None:
    steps = frozenset((i, i + 1) for i in range(5)) | {(5, 0)}
    known = set(steps)

    def follows(new: Pairs) -> Pairs:
        found = {(a, d) for a, b in new for c, d in steps if b == c} - known
        known.update(found)
        return frozenset(found)

    each = list(rounds(frozenset(steps), follows))
    assert [len(new) for new in each] == [6] * 6
    assert known == {(a, b) for a in range(6) for b in range(6)} == {pair for new in each for pair in new}
    assert list(rounds(frozenset(), follows)) == []


def test_a_round_runs_when_it_is_asked_for() -> None:
    asked: list[int] = []

    def follows(new: int) -> int:
        asked.append(new)
        return new - 1

    found = rounds(3, follows)
    assert next(found) == 3 and asked == []
    assert next(found) == 2 and asked == [3]
