"""A state in segments: parts that stay as they are from one snapshot to the next have a name, and are given once.

What is written for each snapshot is then by what changed. A segment's name is a hash of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from cep.core import checksum
from cep.runtime import snapshot

Fetch = Callable[[str], bytes]
"""The bytes of the segment of a name. CepError: there is none, or it is damaged."""


@dataclass(frozen=True, slots=True)
class SegmentedState:
    """`head`: a snapshot without what is in segments; their `names`, in order; `new`: the bytes of those that the state
    before had not."""

    head: bytes
    names: Sequence[str] = ()
    new: Mapping[str, bytes] = field(default_factory=dict)


class SegmentBook:
    """The segments of the last state, by what they were made of, and so of those of the next one those that are new.
    Whoever does not keep what is new goes on with another book."""

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[object, str]] = {}
        self._now: dict[Hashable, tuple[object, str]] = {}
        self._new: dict[str, bytes] = {}

    def name(self, key: Hashable, of: object, batch: Callable[[], pa.RecordBatch]) -> str:
        """The name of a segment. `key`: equal while it is the same, as `of` is kept; `batch`: what is in it."""
        known = self._now.get(key) or self._last.get(key)
        if known is None:
            data = snapshot.stream(batch())
            name = checksum.digest(data).hex()
            self._new[name] = data
            known = of, name
        self._now[key] = known
        return known[1]

    def know(self, key: Hashable, of: object, name: str) -> None:
        """The segment of this name was read, and is that."""
        self._now[key] = of, name

    def taken(self) -> dict[str, bytes]:
        """The new segments of the state that was made; the next one begins."""
        before = {name for _, name in self._last.values()}
        new = {name: data for name, data in self._new.items() if name not in before}
        self._last, self._now, self._new = self._now, {}, {}
        return new
