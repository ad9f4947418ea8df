"""Long tests: each is in one share, whatever the number of shares, and runs where nothing is said."""

from __future__ import annotations

import pytest

from tests.long import Share

NAMES = [f"tests.test_{number}.test_{number % 7}" for number in range(300)]


@pytest.mark.parametrize("of", [1, 2, 3, 4, 7])
def test_each_is_in_one_share(of: int) -> None:
    shares = [Share(number, of) for number in range(1, of + 1)]
    assert sorted(name for share in shares for name in share.dealt(NAMES)) == sorted(NAMES)
    assert all(sum(share.holds(name) for share in shares) == 1 for name in NAMES)
    for share in shares:
        assert abs(len(share.dealt(NAMES)) - len(NAMES) / of) < 1, "they are even"
        assert sum(map(share.holds, NAMES)) > len(NAMES) / of / 2, "and nearly so by name"


def test_all_and_none() -> None:
    whole, none = Share.read("all"), Share.read("none")
    assert list(whole.dealt(NAMES)) == NAMES and all(map(whole.holds, NAMES))
    assert not none.dealt(NAMES) and not any(map(none.holds, NAMES))
    assert [str(Share.read(text)) for text in ("all", "none", "2/3")] == ["all", "none", "2/3"]


@pytest.mark.parametrize("text", ["some", "0/3", "4/3", "1/0", "", "1/2/3", "-1/3"])
def test_what_is_no_share_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"is none of `all`, `none` and shares"):
        Share.read(text)
