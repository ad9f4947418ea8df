"""Near names: which of the known words was probably intended."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from cep.core.suggest import SURE, beside, did_you_mean, nearest

KNOWN = ("reading", "warning", "Fridge", "T", "Temp")


def test_the_nearest_word_is_meant_whatever_is_a_capital() -> None:
    words = {"readng": "reading", "WARNING": "warning", "fridge": "Fridge", "tmep": "Temp", "t": "T"}
    assert {word: nearest(word, KNOWN) for word in words} == words
    assert [nearest(word, KNOWN) for word in ("x", "storm", "", "Te.", "latest")] == [None] * 5
    assert nearest("latest", ("longest", "latitude")) is None, "it is no more like one than other words are"
    assert nearest("redig", KNOWN) == "reading" and nearest("redig", KNOWN, SURE) is None
    assert did_you_mean("readng", KNOWN) == "did you mean `reading`?" and did_you_mean("storm", KNOWN) is None


def test_a_file_beside_is_meant(tmp_path: Path) -> None:
    (tmp_path / "rules.cep").touch()
    assert beside(tmp_path / "rulse.cep") == tmp_path / "rules.cep"
    assert beside(tmp_path / "storms.csv") is None and beside(tmp_path / "none" / "rules.cep") is None


@given(st.text(max_size=8), st.lists(st.text(max_size=8), max_size=5))
def test_what_is_meant_is_known_and_a_known_word_means_itself(word: str, words: list[str]) -> None:
    assert nearest(word, words) in (None, *words)
    for each in words:
        meant = nearest(each, words)
        assert meant is not None and meant.casefold() == each.casefold()
