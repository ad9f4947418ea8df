"""A compiled reader of times that have a declared pattern. Times in unusual forms are read by
`cep.connectors.records.times`."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from cep.connectors.records.numbers import (
    BAD,
    GOOD,
    STRING,
    days_before,
    fraction_of_second,
    is_digit,
    trim,
    two_digits,
)
from cep.connectors.records.times import FIRST, LAST, SECOND
from cep.core.kernels import njit
from cep.core.time_pattern import DAYS, MONTHS, beside, parts

_LITERAL, _NUMBER, _YEAR, _BLANK, _SHORT_YEAR, _YEAR_DAY, _HALF_HOUR, _PART = range(8)
_NAME, _FULL_NAME, _WEEKDAY, _FULL_WEEKDAY, _HALF, _OFFSET, _DIGIT, _SLOW = range(8, 16)
_SAID_MONTH, _SAID_DAY, _SAID_HOUR, _SAID_MINUTE, _SAID_SECOND = range(5)
_STEPS = {
    " ": (_BLANK,), "Y": (_YEAR,), "y": (_SHORT_YEAR,), "j": (_YEAR_DAY,), "I": (_HALF_HOUR,), "f": (_PART,),
    "b": (_NAME,), "B": (_FULL_NAME,), "a": (_WEEKDAY,), "A": (_FULL_WEEKDAY,), "p": (_HALF,), "z": (_OFFSET,),
    "m": (_NUMBER, _SAID_MONTH, 1, 12), "d": (_NUMBER, _SAID_DAY, 1, 31), "H": (_NUMBER, _SAID_HOUR, 0, 24),
    "M": (_NUMBER, _SAID_MINUTE, 0, 59), "S": (_NUMBER, _SAID_SECOND, 0, 59), "u": (_DIGIT, 1, 7), "w": (_DIGIT, 0, 6),
    **dict.fromkeys("ZGVUW", (_SLOW,)),
}  # fmt: skip


def _table(words: tuple[str, ...]) -> NDArray[np.uint8]:
    table = np.zeros((len(words), 10), np.uint8)
    for row, word in enumerate(words):
        table[row, : len(word)] = np.frombuffer(word.lower().encode(), np.uint8)
    return table


_MONTHS, _WEEKDAYS = _table(MONTHS), _table(DAYS)


@lru_cache(maxsize=64)
def compiled(pattern: str) -> NDArray[np.int64]:
    """Compile a pattern to a matrix that has one row per step.

    The first column is the kind of the step. If the step is a character, the second column is its byte. If the step is
    a number of one or two digits, the second column is the part of the time that it defines. The next two columns are
    then its minimum and its maximum. The last column is 1 if the number must have all its digits.
    """
    steps: list[tuple[int, ...]] = []
    tokens = parts(pattern)
    whole = beside(tokens)
    for place, (name, text) in enumerate(tokens):
        read = [_STEPS[name]] if name else [(_LITERAL, byte) for byte in text.encode()]
        steps += [(*(*step, 0, 0, 0)[:4], int(place in whole)) for step in read]
    return np.array(steps, np.int64)


@njit(_nrt=False)
def _upto_two(buffer, i, stop, least, most, whole):  # type: ignore[no-untyped-def]
    """Read a number of one or two digits, which must be between `least` and `most`. Return the number and the position
    after it.

    The number is -1 if there is no such number. If `whole` is True, the number must have two digits. Otherwise, the
    second digit is left out if the number would be out of range with it.
    """
    if i >= stop or not is_digit(buffer[i]):
        return np.int64(-1), i
    value = np.int64(buffer[i]) - 48
    if i + 1 < stop and is_digit(buffer[i + 1]):
        both = value * 10 + np.int64(buffer[i + 1]) - 48
        if least <= both <= most:
            return both, i + 2
    if whole:
        return np.int64(-1), i
    return (value if value >= least else np.int64(-1)), i + 1


@njit(_nrt=False)
def _word(buffer, i, stop, words, letters):  # type: ignore[no-untyped-def]
    """Find the word at position i. Return its index and the position after it. The index is -1 if no word matches.

    `letters`: the number of characters by which words are compared, or 0 to compare all characters.
    """
    for word in range(len(words)):
        j = 0
        while j < 10 and words[word, j] != 0 and (letters == 0 or j < letters):
            if i + j >= stop or (buffer[i + j] | 32) != words[word, j]:
                break
            j += 1
        if (letters > 0 and j == letters) or (letters == 0 and (j == 10 or words[word, j] == 0)):
            return np.int64(word), i + j
    return np.int64(-1), i


@njit(_nrt=False)
def read_pattern(buffer, i, stop, steps, said):  # type: ignore[no-untyped-def]
    """Read a time that has a pattern, as `time_pattern` does. `said`: a buffer for five numbers, which this function
    overwrites.

    Return the microseconds, True if the text contains an offset, and the state. Without an offset, the microseconds are
    those of the same clock time in UTC.
    """
    said[_SAID_MONTH] = said[_SAID_DAY] = 1
    said[_SAID_HOUR] = said[_SAID_MINUTE] = said[_SAID_SECOND] = 0
    year = np.int64(1970)
    of_year = np.int64(0)
    micros = np.int64(0)
    rest = -1
    afternoon = np.int64(-1)
    offset = np.int64(0)
    absolute = False
    for k in range(len(steps)):
        step = steps[k, 0]
        number = np.int64(0)
        if step == _LITERAL:
            if i >= stop or buffer[i] != steps[k, 1]:
                return 0, False, BAD
            i += 1
        elif step == _NUMBER:
            number, i = _upto_two(buffer, i, stop, steps[k, 2], steps[k, 3], steps[k, 4])
            said[steps[k, 1]] = number
        elif step == _BLANK:
            first = i
            while i < stop and (buffer[i] == 32 or buffer[i] == 9):
                i += 1
            if i == first:
                return 0, False, BAD
        elif step == _YEAR:
            if stop - i < 4:
                return 0, False, BAD
            century, years = two_digits(buffer, i), two_digits(buffer, i + 2)
            if century < 0 or years < 0:
                return 0, False, BAD
            year = century * 100 + years
            i += 4
        elif step == _SHORT_YEAR:
            if stop - i < 2:
                return 0, False, BAD
            number = two_digits(buffer, i)
            year = number + (1900 if number >= 69 else 2000)
            i += 2
        elif step == _YEAR_DAY:
            if stop - i < 3 or not is_digit(buffer[i]):
                return 0, False, BAD
            number = two_digits(buffer, i + 1)
            of_year = (np.int64(buffer[i]) - 48) * 100 + number
            if of_year < 1:
                return 0, False, BAD
            i += 3
        elif step == _HALF_HOUR:
            number, i = _upto_two(buffer, i, stop, 1, 12, steps[k, 4])
            said[_SAID_HOUR] = number % 12
        elif step == _PART:
            first = i
            micros, rest, i = fraction_of_second(buffer, i, stop)
            number = np.int64(0 if i > first else -1)
        elif step == _NAME or step == _FULL_NAME:
            number, i = _word(buffer, i, stop, _MONTHS, 3 if step == _NAME else 0)
            said[_SAID_MONTH] = number + 1
        elif step == _WEEKDAY or step == _FULL_WEEKDAY:
            number, i = _word(buffer, i, stop, _WEEKDAYS, 3 if step == _WEEKDAY else 0)
        elif step == _HALF:
            if stop - i < 2 or (buffer[i + 1] | 32) != 109:
                return 0, False, BAD
            afternoon = np.int64(1 if (buffer[i] | 32) == 112 else (0 if (buffer[i] | 32) == 97 else -1))
            number = afternoon
            i += 2
        elif step == _DIGIT:
            if i >= stop or not (48 + steps[k, 1] <= buffer[i] <= 48 + steps[k, 2]):
                return 0, False, BAD
            i += 1
        elif step == _SLOW:  # the reader of single times reads weeks and names of zones
            return 0, False, BAD
        else:
            absolute = True
            if i < stop and (buffer[i] | 32) == 122:
                i += 1
            else:
                if stop - i < 5 or not (buffer[i] == 43 or buffer[i] == 45):
                    return 0, False, BAD
                sign = 1 if buffer[i] == 43 else -1
                hours = two_digits(buffer, i + 1)
                i += 3
                if buffer[i] == 58:
                    i += 1
                if stop - i < 2:
                    return 0, False, BAD
                number = two_digits(buffer, i)
                i += 2
                if hours < 0 or hours > 23 or number > 59:
                    return 0, False, BAD
                offset = sign * (hours * 60 + number) * 60
        if number < 0:
            return 0, False, BAD
    if i < stop:
        return 0, False, BAD
    if afternoon == 1:
        said[_SAID_HOUR] += 12
    if afternoon < 0 and said[_SAID_HOUR] == 24 and said[_SAID_MINUTE] + said[_SAID_SECOND] + micros + max(rest, 0) > 0:
        return 0, False, BAD
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if of_year > 365 and not leap:
        return 0, False, BAD
    if of_year > 366:
        return 0, False, BAD
    days, state = days_before(year, said[_SAID_MONTH], said[_SAID_DAY])
    if state != GOOD:
        return 0, False, BAD
    if of_year > 0:
        days += of_year - 1
    seconds = said[_SAID_HOUR] * 3_600 + said[_SAID_MINUTE] * 60 + said[_SAID_SECOND] - offset
    value = (days * 86_400 + seconds) * SECOND + micros
    if rest == 1 or (rest == 0 and value & 1):
        value += 1
    if value < FIRST or value > LAST:
        return 0, False, BAD
    return value, absolute, GOOD


@njit(_nrt=False)
def _has_lost(buffer, i, stop, least, full):  # type: ignore[no-untyped-def]
    """Return True if a cell consists only of digits, and the number of digits is at least `least` but less than
    `full`."""
    if stop - i < least or stop - i >= full:
        return False
    while i < stop:
        if not is_digit(buffer[i]):
            return False
        i += 1
    return True


@njit()
def read_patterns(buffer, offset, length, kind, steps, least, full, textual):  # type: ignore[no-untyped-def]
    """Read cells that contain times with a pattern. Return the microseconds, a mask of the cells that contain an
    offset, and the states. The state of a missing cell is MISSING.

    `least`, `full`: if a number has at least `least` digits, leading zeros are added until it has `full` digits. If
    both are 0, no zeros are added. `textual`: True to add zeros also to texts that consist of digits.
    """
    n = len(kind)
    values = np.zeros(n, np.int64)
    absolute = np.zeros(n, np.bool_)
    states = np.zeros(n, np.uint8)
    said = np.zeros(5, np.int64)
    front = np.full(full, 48, np.uint8)
    for row in range(n):
        if kind[row] <= 1:
            continue
        states[row] = BAD
        if kind[row] == STRING or kind[row] == 2:
            i, stop = trim(buffer, offset[row], offset[row] + length[row])
            if (textual or kind[row] == 2) and _has_lost(buffer, i, stop, least, full):
                front[: full - (stop - i)] = 48
                front[full - (stop - i) :] = buffer[i:stop]
                values[row], absolute[row], states[row] = read_pattern(front, 0, full, steps, said)
            else:
                values[row], absolute[row], states[row] = read_pattern(buffer, i, stop, steps, said)
    return values, absolute, states


@njit()
def join(buffer, offsets, lengths, kinds, digits, textual):  # type: ignore[no-untyped-def]
    """Join the cells of each row with blanks. Return the bytes, the offsets, the lengths and the kinds of the new
    cells.

    If one of the cells is missing, the new cell is missing. If one of them has escapes, the kind of the new cell is
    such that another reader must read it. `digits`: for each column, the arguments `least` and `full` of
    `read_patterns`.
    """
    parts, n = kinds.shape
    size = 0
    for part in range(parts):
        size += n * (digits[part, 1] + 1)
        for row in range(n):
            size += lengths[part, row]
    out = np.empty(size, np.uint8)
    offset = np.zeros(n, np.int32)
    length = np.zeros(n, np.int32)
    kind = np.zeros(n, np.uint8)
    o = 0
    for row in range(n):
        offset[row] = o
        missing = False
        for part in range(parts):
            missing |= kinds[part, row] <= 1
        if missing:
            continue
        kind[row] = STRING
        for part in range(parts):
            if kinds[part, row] != STRING and kinds[part, row] != 2:
                kind[row] = 7
            i, stop = trim(buffer, offsets[part, row], offsets[part, row] + lengths[part, row])
            if textual or kinds[part, row] == 2:
                least, full = digits[part]
                if _has_lost(buffer, i, stop, least, full):
                    for _ in range(full - (stop - i)):
                        out[o] = 48
                        o += 1
            while i < stop:
                out[o] = buffer[i]
                o += 1
                i += 1
            if part < parts - 1:
                out[o] = 32
                o += 1
        length[row] = o - offset[row]
    return out, offset, length, kind
