"""Time zones as tables: against `zoneinfo`, at every change of every zone since 1970, at gaps, folds and far times."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from importlib import resources
from zoneinfo import TZPATH, ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.core.zones import CYCLE, names, zone
from tests.long import examples

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000


def moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def shown(name: str, micros: int) -> int:
    """The clock's time at an instant, by zoneinfo."""
    there = moment(micros).astimezone(ZoneInfo(name)).replace(tzinfo=UTC)
    return (there - EPOCH) // timedelta(microseconds=1)


def changes(name: str) -> list[int]:
    """The seconds at which a zone's file says that something changes (RFC 8536, version 2)."""
    for folder in TZPATH:
        try:
            with open(f"{folder}/{name}", "rb") as file:
                data = file.read()
            break
        except OSError:
            continue
    else:
        data = resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    counts = struct.unpack(">6l", data[20:44])
    utc, std, leap, times, types, letters = counts
    second = 44 + times * 5 + types * 6 + letters + leap * 8 + std + utc
    count = struct.unpack(">6l", data[second + 20 : second + 44])[3]
    return list(struct.unpack(f">{count}q", data[second + 44 : second + 44 + 8 * count]))


MANY = ("Africa", "America", "Asia", "Europe", "Pacific")
"""Each has more zones than most others."""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=[pytest.mark.long] * (first in MANY))
        for first in sorted({name.split("/")[0] for name in names()})
    ],
)
def test_every_change_since_1970(first: str) -> None:
    for name in sorted(each for each in names() if each.split("/")[0] == first):
        assert (np.diff(zone(name).instants) > 0).all()
        at = [second * SECOND for second in changes(name) if second >= 0]
        around = [each + by for each in at for by in (-1, 0, 1, 3600 * SECOND)]
        around += [year * 31_556_952 * SECOND for year in range(130)]
        assert zone(name).local(around).tolist() == [shown(name, each) for each in around], name


@examples(100)
@given(
    st.sampled_from(["Europe/Zurich", "America/Sao_Paulo", "Pacific/Apia", "Africa/Casablanca", "Australia/Lord_Howe"]),
    st.datetimes(datetime(1900, 1, 1), datetime(2490, 1, 1)),
    st.integers(-7200, 7200),
    st.integers(0, 999),
)
def test_local_times_both_ways(name: str, near: datetime, by: int, place: int) -> None:
    table = zone(name)
    random = (near.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    change = int(table.instants[1 + place % (len(table.instants) - 1)]) + int(table.offsets[place % len(table.offsets)])
    for local in (random, change + by * SECOND):
        clock = moment(local).replace(tzinfo=None)
        for later in (False, True):
            there = clock.replace(tzinfo=ZoneInfo(name), fold=int(later))
            instant = (there.astimezone(UTC) - EPOCH) // timedelta(microseconds=1)
            made, found = table.utc([local], later)
            assert bool(found[0]) == (shown(name, instant) == local)
            if found[0]:
                assert int(made[0]) == instant
            else:  # the instant at which the clocks are put on
                assert shown(name, int(made[0]) - 1) < local < shown(name, int(made[0]))


def test_times_that_no_calendar_of_python_has() -> None:
    table = zone("Europe/Zurich")
    summer = (datetime(2024, 7, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    far = summer + 30 * CYCLE
    assert table.local([far]).tolist() == [far + 7200 * SECOND]
    assert [each.tolist() for each in table.utc([far + 7200 * SECOND])] == [[far], [True]]
    assert table.local([-(2**60)]).tolist() == [-(2**60) + 2048 * SECOND]  # Zurich's mean time


def test_a_zone_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no time zone `Europe/Zuerich`"):
        zone("Europe/Zuerich")
