"""Completion of the command line, by a bash that is asked as a Tab asks it, and by what zsh and fish are given."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.formats.known import NAMES

ANSWER = r"""
source .asked/cep.bash
complete -p cep > /dev/null || exit 1
COMP_LINE="$1" COMP_POINT=${#1}
COMP_WORDS=() COMP_CWORD=0
compopt() { echo "compopt $*"; }
_cep_completion cep cep
for one in "${COMPREPLY[@]}"; do echo "$one"; done
"""

OUTPUT = ["--output", "--output-format", "--output-mode", "--output-every"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of every kind, in which `cep` is the one that is tested."""
    folder = tmp_path_factory.mktemp("completion")
    files = "rules.cep storms.cep weather.csv weather.parquet stations.ttl notes.txt readings.csv.gz .hidden.cep"
    for name in files.split():
        (folder / name).touch()
    (folder / "my rules.cep").touch()
    (folder / "more").mkdir()
    (folder / "more" / "other.cep").touch()
    (folder / "bin").mkdir()
    program = folder / "bin" / "cep"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cep "$@"\n')
    program.chmod(0o755)
    script = CliRunner().invoke(app, ["completion", "bash"], prog_name="cep").stdout
    (folder / ".asked").mkdir()
    (folder / ".asked" / "cep.bash").write_text(script)
    return folder


def environment(place: Path) -> dict[str, str]:
    root = str(Path(__file__).parent.parent)
    return {**os.environ, "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": root}


CASES = {
    "cep r": ["run"],
    "cep comp": ["completion"],
    "cep completion ": ["bash", "zsh", "fish"],
    "cep knowledge q": ["query"],
    "cep demo b": ["blizzard"],
    "cep run --late": ["--lateness", "--lateness-by"],
    "cep run --output-f": ["--output-format"],
    "cep run ": ["bin/", "more/", "my\\ rules.cep", "rules.cep", "storms.cep"],
    "cep run ru": ["rules.cep"],
    "cep run my\\ r": ["my\\ rules.cep"],
    "cep run more": ["compopt -o nospace", "more/"],
    "cep run more/": ["more/other.cep"],
    "cep check rules.cep st": ["storms.cep"],
    "cep run rules.cep --input we": ["weather.csv", "weather.parquet"],
    "cep run rules.cep --input reading=re": ["readings.csv.gz"],
    "cep run rules.cep -k st": ["stations.ttl"],
    "cep run rules.cep -k air": ["airportsdata"],
    "cep run rules.cep --facts near=weather.c": ["weather.csv"],
    "cep run rules.cep --policy ": ["unrestricted", "recent", "chronological"],
    "cep run rules.cep --on ": ["spark"],
    "cep run rules.cep --log j": ["json"],
    "cep run rules.cep --reasoning r": ["rdfs"],
    "cep run rules.cep --output-format tu": ["turtle"],
    "cep run rules.cep --format ": list(NAMES),
    "cep serve rules.cep --status E": ["Exercise"],
    "cep run rules.cep --lateness ": [],
}
ALWAYS = {
    "cep r",
    "cep run --late",
    "cep run my\\ r",
    "cep run more",
    "cep run rules.cep --input reading=re",
    "cep run rules.cep --policy ",
}
"""One of each kind; the others are long: each starts a process."""


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=[pytest.mark.long] * (line not in ALWAYS)) for line in CASES]
)
def test_bash_completes(line: str, place: Path) -> None:
    made = subprocess.run(
        ["bash", "--norc", "-c", ANSWER, "bash", line],
        cwd=place,
        env=environment(place),
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.splitlines() == CASES[line], made.stderr


def test_a_tab_in_a_terminal(place: Path) -> None:
    """The words are typed, and what stands in the line after the Tab is printed by `echo` before it."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execvpe("bash", ["bash", "--norc", "-i"], environment(place) | {"PS1": "", "TERM": "dumb"})
    seen = b""

    def wait(expected: bytes) -> None:
        nonlocal seen
        while expected not in seen:
            ready, _, _ = select.select([terminal], [], [], 60)
            assert ready, f"{expected!r} does not come, but {seen!r}"
            seen += os.read(terminal, 4096)

    try:
        os.write(terminal, b"source <(cep completion bash); echo is rea''dy\n")
        wait(b"is ready")
        os.write(terminal, b"cep run ru\t")
        wait(b"rules.cep")
        os.write(terminal, b"--input reading=weather.c\t")
        wait(b"weather.csv")
        os.write(terminal, b"\x01echo fou''nd: \n")
        wait(b"found: cep run rules.cep --input reading=weather.csv")
        os.write(terminal, b"exit\n")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_answered(shell: str, place: Path) -> None:
    script = CliRunner().invoke(app, ["completion", shell], prog_name="cep").stdout
    assert f"_CEP_COMPLETE=complete_{shell}" in script and "_TYPER_COMPLETE_ARGS" in script
    asked = {"_CEP_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for line, words in (("cep run --out", OUTPUT), ("cep run ru", ["rules.cep"])):
        made = subprocess.run(
            ["cep"],
            cwd=place,
            env=environment(place) | asked | {"_TYPER_COMPLETE_ARGS": line},
            capture_output=True,
            text=True,
            check=True,
        )
        answers = made.stdout.strip().splitlines()
        assert len(answers) == len(words), "one line an answer"
        assert all(word in answer for word, answer in zip(words, answers))


def test_a_shell_that_is_not_known() -> None:
    made = CliRunner().invoke(app, ["completion", "tcsh"], prog_name="cep")
    assert made.exit_code == 2 and "bash" in made.stderr
