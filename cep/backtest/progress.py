"""The progress of a backtest on standard error. On a terminal it is a bar, otherwise a line from time to time."""

from __future__ import annotations

import sys
from time import monotonic

import typer

from cep.core.literals import say_duration

OFTEN, SELDOM = 0.2, 30.0
"""The minimum number of seconds between two updates of the bar (OFTEN), and between two lines (SELDOM)."""
WIDTH = 24


class SearchProgress:
    """A display on standard error of the progress in running a grid. `points`: the number of points to run."""

    def __init__(self, points: int) -> None:
        self.points = points
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._began = self._told = monotonic()
        self._shown = False

    def seen(self, part: float) -> None:
        """Show the progress `part`, a number from 0 to 1. Do nothing if the last update was too recent."""
        now = monotonic()
        if now - self._told < (OFTEN if self._terminal else SELDOM):
            return
        self._told = now
        spent = now - self._began
        left = "" if part < 0.01 else f", about {say_duration(round(spent * (1 - part) / part) * 1_000_000)} left"
        text = f"{100 * part:3.0f} % of {self.points:,} points{left}"
        if not self._terminal:
            typer.echo(text, err=True)
            return
        full = round(WIDTH * part)
        typer.echo(f"\r{'█' * full}{'░' * (WIDTH - full)} {text}\x1b[K", err=True, nl=False)
        self._shown = True

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._shown:
            typer.echo("\r\x1b[K", err=True, nl=False)
            self._shown = False
