"""Tables in pages of the documentation. Each is between two comments with its name, and a benchmark replaces it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"


def parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the option `--write`, for `python -m MODULE`."""
    options = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    options.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    return options


def publish(table: str, command: str, lines: Iterable[str], write: bool) -> None:
    """Print the lines of a table as they are measured. With `write`, put them into the page."""
    before = os.getloadavg()[0]
    measured = []
    for line in lines:
        print(line, flush=True)
        measured.append(line)
    if write:
        replace(PAGE, {table: "\n".join([f"`{command}`, {circumstances(before)}:", "", *measured])})


def circumstances(before: float) -> str:
    """Return the date, the machine and its load. `before`: the load when the measurement began."""
    loads = sorted((before, os.getloadavg()[0]))
    load = " to ".join(dict.fromkeys(f"{load:.0f}" for load in loads))
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{date.today():%-d %B %Y}, {model}, {os.cpu_count()} cores, load {load}"


def replace(page: Path, tables: Mapping[str, str]) -> None:
    """Replace the tables of a page, each between two comments with its name. `tables`: the new texts, by name."""
    page_text = page.read_text(encoding="utf-8")
    for name, text in tables.items():
        first, last = f"<!-- {name} -->\n", f"\n<!-- /{name} -->"
        before, _, rest = page_text.partition(first)
        _, found, after = rest.partition(last)
        if not found:
            raise SystemExit(f"{page} has no table {name!r}: add the lines {first.strip()} and {last.strip()}")
        page_text = f"{before}{first}{text}{last}{after}"
    page.write_text(page_text, encoding="utf-8")
