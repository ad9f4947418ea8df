"""`python -m benchmarks.charts`: the charts of `docs/benchmarks.md`, from the figures in `benchmarks/results.json`.

`--engine FILE --run TEXT` first takes over the lines of a run (`python -m benchmarks --json FILE`), and what is to be
said of where and when it ran. A chart is an SVG that brings its own background, dark where the reader's colours are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
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
"""The workloads of the table of the document, and their names in it."""

SPARK = {
    "scan": "reading and writing alone",
    "seq": "semcep on Spark",
    "Flink, match": "Flink MATCH_RECOGNIZE",
    "join": "Spark stream-stream join",
}

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
    """A bar of so many events a second, and what stands at its end."""

    value: float
    text: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """Groups of bars with one scale, under a title."""

    title: str
    groups: Mapping[str, Sequence[Bar]]

    @property
    def most(self) -> float:
        """The longest bar's value."""
        return max(bar.value for bars in self.groups.values() for bar in bars)


def millions(value: float) -> str:
    """A million and more in millions, less in thousands."""
    return f"{value / 1e6:.1f} M" if value >= 1e6 else f"{value / 1e3:.0f} k"


def engine_panels(lines: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Few keys and many keys: a group of two for each workload, the engine's and the loop's."""
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
    """For each number of keys a bar for each system."""
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
    """Panels side by side with the same groups in the same rows; the scale is the same in all."""
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


def charts(results: Mapping[str, Any]) -> dict[str, str]:
    """The charts by the names of their files."""
    engine, spark = results["engine"], results["spark"]
    return {
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.charts", description=__doc__)
    parser.add_argument("--engine", metavar="FILE", type=Path, help="take the lines of `python -m benchmarks --json`")
    parser.add_argument("--run", metavar="TEXT", help="when and where that ran")
    parser.add_argument("--to", metavar="FOLDER", type=Path, default=PICTURES)
    options = parser.parse_args()
    if (options.engine is None) != (options.run is None):
        parser.error("`--engine` and `--run` go together")
    results = json.loads(RESULTS.read_text())
    if options.engine is not None:
        results["engine"] = {"run": options.run, "lines": taken(options.engine.read_text())}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    options.to.mkdir(parents=True, exist_ok=True)
    for name, text in charts(results).items():
        (options.to / name).write_text(text)


def taken(text: str) -> list[dict[str, Any]]:
    """Of the lines of a run those that a chart shows."""
    lines = [json.loads(line) for line in text.splitlines()]
    keep = ("workload", "events", "keys", "value", "ratio")
    return [{key: line[key] for key in keep} for line in lines if line["workload"] in WORKLOADS and line["ratio"]]


if __name__ == "__main__":
    main()
