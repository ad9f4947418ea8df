"""Long tests: each is in one share, whatever the number of shares, and runs where nothing is said."""

from __future__ import annotations

import pytest

from tests import long
from tests.long import Share

NAMES = [f"tests.test_{number}.test_{number % 7}" for number in range(300)]


@pytest.mark.parametrize("of", [1, 2, 3, 4, 7])
def test_each_is_in_one_share(of: int) -> None:
    shares = [Share(number, of) for number in range(1, of + 1)]
    assert sorted(name for share in shares for name in share.dealt(NAMES)) == sorted(NAMES)
    for share in shares:
        assert abs(len(share.dealt(NAMES)) - len(NAMES) / of) < 1, "they are even"


def test_all_and_none() -> None:
    whole, none = Share.read("all"), Share.read("none")
    assert list(whole.dealt(NAMES)) == NAMES and not none.dealt(NAMES)
    assert [str(Share.read(text)) for text in ("all", "none", "2/3")] == ["all", "none", "2/3"]


@pytest.mark.parametrize("text", ["some", "0/3", "4/3", "1/0", "", "1/2/3", "-1/3"])
def test_what_is_no_share_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"is none of `all`, `none` and shares"):
        Share.read(text)


@pytest.mark.parametrize(("number", "few"), [(300, None), (20, None), (4, None), (300, 10)])
def test_shares_together_try_all_examples(number: int, few: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "CHECKED", False)
    monkeypatch.setattr(long, "_fuzz", 0)

    def tried(share: str) -> int:
        monkeypatch.setattr(long, "_chosen", Share.read(share))
        return long._count(number, few)

    assert tried("all") == number and 0 < tried("none") <= number
    assert sum(tried(f"{each}/5") for each in range(1, 6)) >= number // 5 * 5
    assert all(tried(f"{each}/50") == tried("none") for each in range(1, 51)), "a share tries no fewer"


def test_all_seeds_and_values_but_few_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "_fuzz", 0)
    marked = [bool(each.marks) for each in long.seeds(60)]
    assert marked == [False] * 5 + [True] * 55
    marked = [bool(each.marks) for each in long.some("abcdefghijklmn")]
    assert [at for at, each in enumerate(marked) if not each] == [0, 12]
    assert [each.values for each in long.seeds(2)] == [(0,), (1,)] and not any(e.marks for e in long.seeds(2))
    monkeypatch.setattr(long, "_fuzz", 20)
    assert len(long.seeds(60)) == 1200


@pytest.mark.xdist_group("one")
def test_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    """Else each process would start Spark, and the browser, and make what is made once for a module."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@one"), "pytest-xdist groups no tests with this version of pytest"
