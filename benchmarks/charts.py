"""`python -m benchmarks.charts`: the charts of `docs/benchmarks.md`, drawn from `benchmarks/results.json`.

`python -m benchmarks --write` draws its chart anew. `--fleet FILE --run TEXT` first takes the output of
`benchmarks.fleet_revision`; the text says where and when it ran. A chart is an SVG with its own background, which is
dark if the reader's colour scheme is.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results.json")
PICTURES = Path(__file__).parent.parent / "docs" / "pictures"

WORKLOADS = {
    "seq2 unrestricted": "a SEQ b, unrestricted",
    "seq2 recent": "a SEQ b, recent",
    "seq2 chronological": "a SEQ b, chronological",
    "seq3": "a SEQ b SEQ c",
    "and": "a AND b",
    "not": "NOT(c).[a, b]",
    "unless": "a UNLESS b",
    "sum of 10 events": "sum of the last 10 events",
    "sum of 10 s": "sum of the last 10 s",
    "blizzard": "the blizzard recursion",
    "text recent": "a SEQ b, recent, text keys",
    "closure in WHERE": "closure in WHERE",
}
"""The workloads in the table of the page, with their names there."""

SPARK = {
    "scan": "reading and writing alone",
    "seq": "semcep on Spark",
    "Flink, match": "Flink MATCH_RECOGNIZE",
    "join": "Spark stream-stream join",
}

PEERS = {"RTEC": {"5": 5300, "40": 6700}, "RTECinc": {"5": 11_800, "40": 10_500}}
"""Rows of a fleet that RTEC and its incremental variant process per second of CPU time, with windows of 3,200 s, by the
percentage of late rows.

They were measured on a machine like that of our own measurements.
"""

WIDTH, MARGIN, NAMES, BAR, GAP, HEAD = 880, 16, 190, 12, 9, 80
STYLE = """\
.back { fill: #ffffff } text { fill: #1f2328; font: 12px system-ui, sans-serif }
.title { font-size: 15px; font-weight: 600 } .note, .value { fill: #59636e; font-size: 11px }
.line { stroke: #d1d9e0 } .ours { fill: #0969da } .other { fill: #9198a1 }
@media (prefers-color-scheme: dark) {
  .back { fill: #0d1117 } text { fill: #f0f6fc } .note, .value { fill: #9198a1 }
  .line { stroke: #3d444d } .ours { fill: #4493f8 } .other { fill: #656c76 }
}"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of `value` events per second, with a text at its end."""

    value: float
    text: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups of bars with a common scale, under a title."""

    title: str
    groups: Mapping[str, Sequence[Bar]]

    @property
    def most(self) -> float:
        """The value of the longest bar."""
        return max(bar.value for bars in self.groups.values() for bar in bars)


def millions(value: float) -> str:
    """Write a number of at least a million in millions, and a smaller one in thousands."""
    return f"{value / 1e6:.1f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"


def engine_panels(lines: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Return panels for few and for many keys, with two bars per workload: the engine and the loop."""
    panels = []
    for title, many in (("100 keys", False), ("100,000 keys (closure: 1,000)", True)):
        groups = {}
        for name, shown in WORKLOADS.items():
            of = [line for line in lines if line["workload"] == name and (line["keys"] > 100) == many]
            if of:
                line = max(of, key=lambda one: (one.get("events") or 0, one["keys"]))
                loop = line["value"] / line["ratio"]
                ours = Bar(line["value"], f"{millions(line['value'])}, {line['ratio']:.1f} times", True)
                groups[shown] = (ours, Bar(loop, millions(loop), False))
        panels.append(Panel(title, groups))
    return panels


def spark_panels(lines: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Return a panel for each number of keys, with a bar for each system."""
    panels = []
    for keys in sorted({line["keys"] for line in lines}):
        found = {line["workload"]: line["value"] for line in lines if line["keys"] == keys}
        groups = {
            shown: (Bar(found[name], millions(found[name]), name == "seq"),)
            for name, shown in SPARK.items()
            if name in found
        }
        panels.append(Panel(f"{keys:,} keys", groups))
    return panels


def svg(title: str, note: str, panels: Sequence[Panel], ours: str, other: str) -> str:
    """Draw panels side by side. Groups of the same name are in the same row, and all panels have the same scale."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.groups))
    bars = max(len(group) for panel in panels for group in panel.groups.values())
    row = bars * BAR + GAP
    height = HEAD + len(names) * row + MARGIN + 22
    wide = (WIDTH - MARGIN - NAMES) / len(panels)
    most = max(panel.most for panel in panels)
    scale = (wide - 115) / most
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="28">{escape(title)}</text>',
        f'<rect class="ours" x="{MARGIN}" y="40" width="10" height="10"/>',
        f'<text class="note" x="{MARGIN + 16}" y="49">{escape(ours)}</text>',
        f'<rect class="other" x="{NAMES + 40}" y="40" width="10" height="10"/>',
        f'<text class="note" x="{NAMES + 56}" y="49">{escape(other)}</text>',
    ]
    for number, name in enumerate(names):
        y = HEAD + number * row + bars * BAR / 2 + 4
        out.append(f'<text x="{NAMES - 10}" y="{y:.1f}" text-anchor="end">{escape(name)}</text>')
    for column, panel in enumerate(panels):
        left = NAMES + column * wide
        bottom = HEAD + len(names) * row - GAP / 2
        out.append(f'<text x="{left:.1f}" y="{HEAD - 8}">{escape(panel.title)}</text>')
        out.append(f'<line class="line" x1="{left:.1f}" x2="{left:.1f}" y1="{HEAD - 3}" y2="{bottom:.1f}"/>')
        for number, name in enumerate(names):
            if name not in panel.groups:
                y = HEAD + number * row + BAR - 2.5
                out.append(f'<text class="value" x="{left + 6:.1f}" y="{y}">not measured</text>')
            for place, bar in enumerate(panel.groups.get(name, ())):
                y, width = HEAD + number * row + place * BAR, max(1.0, bar.value * scale)
                kind = "ours" if bar.ours else "other"
                out.append(
                    f'<rect class="{kind}" x="{left:.1f}" y="{y}" width="{width:.1f}" height="{BAR - 2}"/>'
                    f'<text class="value" x="{left + width + 4:.1f}" y="{y + BAR - 2.5}">{escape(bar.text)}</text>'
                )
    out.append(f'<text class="note" x="{MARGIN}" y="{height - 14}">{escape(note)}</text>')
    return "\n".join([*out, "</svg>", ""])


def fleet_svg(fleet: Mapping[str, Any]) -> str:
    """Draw curves over the percentage of late events, with a logarithmic axis of rows per second.

    One curve is for revision, and one is for recomputation of each window from its rows. Published measurements of
    other systems are added.
    """
    title, left, top, bottom, wide = "A fleet whose events come late", 76, 60, 320, 560
    lines = fleet["lines"]
    shares = sorted({line["late"] for line in lines})
    lowest, highest = 3.0, 6.2  # powers of ten

    def at(share: int, value: float) -> tuple[float, float]:
        across = left + wide * shares.index(share) / (len(shares) - 1)
        return across, bottom - (bottom - top) * (log10(value) - lowest) / (highest - lowest)

    height = bottom + 76
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}\n.ours-line {{ stroke: #0969da; fill: none; stroke-width: 2 }} "
        ".other-line { stroke: #9198a1; fill: none; stroke-width: 2; stroke-dasharray: 5 4 }</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="28">{escape(title)}: rows a second of CPU time</text>',
    ]
    for value in (1e3, 1e4, 1e5, 1e6):
        _, y = at(shares[0], value)
        out.append(f'<line class="line" x1="{left}" x2="{left + wide}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="note" x="{left - 10}" y="{y + 4:.1f}" text-anchor="end">{millions(value)}</text>')
    for share in shares:
        x, _ = at(share, 1e3)
        out.append(f'<text class="note" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{share} %</text>')
    below = f'x="{left + wide / 2}" y="{bottom + 38}" text-anchor="middle"'
    out.append(f'<text class="note" {below}>of the events come late</text>')
    ends = []
    for vehicles in sorted({line["vehicles"] for line in lines}):
        mine = sorted((line for line in lines if line["vehicles"] == vehicles), key=lambda line: int(line["late"]))
        for way, name in (("revised", "revised"), ("anew", "each window anew")):
            points = [at(line["late"], line[way]) for line in mine]
            kind = "ours" if way == "revised" else "other"
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            out.append(f'<polyline class="{kind}-line" points="{path}"/>')
            out += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>' for x, y in points]
            ends.append((points[-1][1], f"{name}, {vehicles:,} vehicles"))
    for name, values in fleet["peers"].items():
        for share, value in ((share, value) for share, value in values.items() if int(share) in shares):
            x, y = at(int(share), value)
            anchor = "end" if int(share) == shares[-1] else "start"
            up = -8 if name == "RTECinc" else 16
            out.append(f'<circle class="other" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
            out.append(f'<text class="note" x="{x:.1f}" y="{y + up:.1f}" text-anchor="{anchor}">{name}</text>')
    y = 0.0
    for place, name in sorted(ends):
        y = max(y + 14, place + 4)
        out.append(f'<text class="note" x="{left + wide + 12}" y="{y:.1f}">{escape(name)}</text>')
    out.append(f'<text class="note" x="{MARGIN}" y="{height - 14}">{escape(fleet["run"])}</text>')
    return "\n".join([*out, "</svg>", ""])


def charts(results: Mapping[str, Any]) -> dict[str, str]:
    """Return the charts by file name."""
    engine, spark = results["engine"], results["spark"]
    return {
        "benchmarks-fleet.svg": fleet_svg(results["fleet"]),
        "benchmarks-engine.svg": svg(
            "Millions of events a second of CPU time",
            f"{engine['run']}. Longer is better.",
            engine_panels(engine["lines"]),
            "semcep, and how many times",
            "a Python loop for that one rule",
        ),
        "benchmarks-spark.svg": svg(
            "a SEQ b by key, events a second",
            f"{spark['run']}. Longer is better.",
            spark_panels(spark["lines"]),
            "semcep",
            "others; Flink reads CSV and does not write",
        ),
    }


def renew(part: str, lines: str, run: str) -> None:
    """Put measured lines into `benchmarks/results.json`, and draw the charts.

    `part`: `engine` or `fleet`. `lines`: JSON Lines. `run`: when and where they were measured.
    """
    results = json.loads(RESULTS.read_text())
    if part == "engine":
        results[part] = {"run": run, "lines": taken(lines)}
    else:
        results[part] = {"run": run, "lines": [json.loads(line) for line in lines.splitlines()], "peers": PEERS}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    draw()


def draw() -> None:
    """Draw the charts from `benchmarks/results.json`."""
    for name, text in charts(json.loads(RESULTS.read_text())).items():
        (PICTURES / name).write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.charts", description=__doc__)
    parser.add_argument(
        "--fleet", metavar="FILE", type=Path, nargs="*", help="take the lines of `python -m benchmarks.fleet_revision`"
    )
    parser.add_argument("--run", metavar="TEXT", help="when and where that ran")
    options = parser.parse_args()
    if (not options.fleet) != (options.run is None):
        parser.error("`--fleet` and `--run` go together")
    if options.fleet:
        renew("fleet", "".join(path.read_text() for path in options.fleet), options.run)
    else:
        draw()


def taken(text: str) -> list[dict[str, Any]]:
    """Return the lines of a run that a chart shows: for each workload, those with the most events. Each has only the
    fields that the chart needs."""
    lines = [line for line in map(json.loads, text.splitlines()) if line["workload"] in WORKLOADS and line["ratio"]]
    most = {
        name: max(line["events"] for line in lines if line["workload"] == name)
        for name in {line["workload"] for line in lines}
    }
    keep = ("workload", "events", "keys", "value", "ratio")
    return [{key: line[key] for key in keep} for line in lines if line["events"] == most[line["workload"]]]


if __name__ == "__main__":
    main()
