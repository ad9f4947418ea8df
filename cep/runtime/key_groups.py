"""Key groups: a key is in one of 1,024, for good, and each partition of a stage has some of these.

A run begins with as many partitions as it likes: what the partitions before held goes on, cut by group, in those that
have the groups now (`gather_groups`). A partition is one engine, whatever the number of its groups.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.core.values import Ints
from cep.plan.partition import Stage
from cep.runtime.buckets import deal_by
from cep.runtime.key_shares import KeyCounter
from cep.runtime.keyed_stage import HashedKeys
from cep.runtime.state_by_key import Bucket

GROUPS = 1024


@dataclass(frozen=True, slots=True)
class KeyGroups(HashedKeys):
    """The keys of the groups from `first` to before `stop`."""

    first: int
    stop: int

    def chosen(self, hashed: NDArray[np.uint64]) -> NDArray[np.bool_]:
        groups = groups_of(hashed)
        return (groups >= self.first) & (groups < self.stop)

    def __len__(self) -> int:
        return self.stop - self.first


def groups_of(hashed: NDArray[np.uint64]) -> Ints:
    """The group of each hash (`cep.runtime.buckets.hashes`)."""
    groups: Ints = (hashed & np.uint64(GROUPS - 1)).astype(np.int64)
    return groups


def first_group(partition: int, count: int) -> int:
    """The first group of a partition of so many; of the one after the last, the number of groups."""
    return -(-partition * GROUPS // count)


def groups_in(partition: int, count: int) -> KeyGroups:
    """The groups of a partition of so many: neighbours, and of no two partitions does one have two more."""
    check_partitions(count)
    return KeyGroups(first_group(partition, count), first_group(partition + 1, count))


def check_partitions(count: int) -> None:
    """CepError: there are not so many groups."""
    if not 1 <= count <= GROUPS:
        raise CepError(f"{count} partitions", hint=f"keys are in {GROUPS:,} groups: 1 to {GROUPS:,}", code="option")


def partition_of(groups: Ints, count: int) -> Ints:
    """The partition of so many that has each group."""
    return groups * count // GROUPS


def deal_groups(
    stage: Stage,
    tables: Mapping[str, pl.DataFrame],
    schemas: Mapping[str, Schema],
    count: int,
    keys: KeyCounter | None = None,
) -> list[dict[str, pl.DataFrame]]:
    """As `cep.runtime.buckets.deal`: for each of `count` partitions the tables that its engine takes."""
    check_partitions(count)
    return deal_by(stage, tables, schemas, count, lambda hashed: partition_of(groups_of(hashed), count), keys)


def gather_groups(before: Callable[[int], Bucket | None], of: int, into: Bucket, number: int, count: int) -> None:
    """The engine of partition `number` of `count`, which is new, takes over all that the engines of `of` partitions
    hold of its groups. `before` gives such an engine, None where there was none; it keeps what belongs to every key.
    CepError: the program holds what has no key."""
    mine = groups_in(number, count)
    stops = [first_group(place + 1, of) for place in range(of)]
    for place in range(bisect_right(stops, mine.first), of):
        there = groups_in(place, of)
        if there.first >= mine.stop:
            break
        share = KeyGroups(max(mine.first, there.first), min(mine.stop, there.stop))
        if len(share) and (one := before(place)) is not None:
            into.replace(share, one.extract(share))


def redeal(before: Sequence[Bucket], after: Sequence[Bucket]) -> None:
    """All that the engines of a stage's partitions hold goes to the engines, which are new, of as many others as there
    are to be."""
    for number, one in enumerate(after):
        gather_groups(before.__getitem__, len(before), one, number, len(after))
