"""A source for load tests that creates a fixed number of records per second: `{"timestamp": ..., "value": n, "key": n
mod keys}`."""

from __future__ import annotations

import time

from cep.connectors.addresses import Address
from cep.connectors.brokers.messages import Messages
from cep.connectors.records.times import SECOND, iso, of_iso


class Rate:
    """A source of numbered records. Record n becomes available at its time: `start` + n / rate (in microseconds)."""

    lost = None

    def __init__(self, address: Address, start: int) -> None:
        """Check an address. Raises CepError if it has no number of records per second, or a wrong option."""
        try:
            self._each = int(address.hosts[0][0])
        except ValueError:
            self._each = 0
        if self._each < 1 or address.path:
            raise address.refused("the address does not say how many records a second", "e.g. `rate://1000`")
        start_text = address.options.get("start")
        try:
            self.start = start if start_text is None else of_iso(start_text)
        except ValueError as error:
            raise address.refused(f"`start`: {error}") from None
        self._keys = int(address.number("keys", 1, 1))
        until = address.options.get("until")
        self._last = None if until is None else int(address.number("until", 0))
        self._address = address
        self._done = self._taken = 0

    def end(self, now: int) -> int:
        """Return the number of records that are available at the time `now` (in microseconds)."""
        count = max(0, (now - self.start) * self._each // SECOND + 1)
        return count if self._last is None else min(count, self._last)

    def read(self, start: int, end: int) -> Messages:
        """Return the records from the number `start` to the number `end` (exclusive)."""
        lines = [
            f'{{"timestamp": "{iso(self.start + n * SECOND // self._each)}", "value": {n}, "key": {n % self._keys}}}'
            for n in range(start, end)
        ]
        return Messages([self._address.text] * len(lines), range(start, end), [line.encode() for line in lines])

    def poll(self, most: int, seconds: float) -> Messages | None:
        if self._last is not None and self._done >= self._last:
            return None
        end = self.end(time.time_ns() // 1000)
        if end <= self._done:
            time.sleep(min(seconds, 1 / self._each))
        self._taken = max(self._done, min(end, self._done + most))
        return self.read(self._done, self._taken)

    def done(self) -> None:
        self._done = self._taken

    def kept(self) -> None:
        """Do nothing: the source takes no acknowledgements."""

    def close(self) -> None:
        pass
