"""Nothing is written over what is read, whatever option and command, and by whatever name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from cep.app.conflicts import READ, WRITTEN
from cep.command import app

NAMES = {
    "rules.cep": "event a(v: int).\nb(V) <- a(V).\nc(V) <- a(V) WHERE V > 1.\n",
    "events.jsonl": '{"type": "a", "time": 1, "v": 2}\n',
    "known.csv": "v\n1\n",
    "known.ttl": "<urn:a> <urn:b> <urn:c> .\n",
    "later.nq": "",
    "token": "0123456789abcdef0123456789\n",
}
READS = {
    "the program": "rules.cep",
    "an input": "events.jsonl",
    "a table of facts": "known.csv",
    "knowledge": "known.ttl",
    "a file of changes of the knowledge": "later.nq",
}
RUN = ["rules.cep", "--input", "events.jsonl", "--facts", "known=known.csv", "-k", "known.ttl"]
RUN += ["--knowledge-updates", "later.nq"]
SPARK = ["run", *RUN, "--on", "spark"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name, text in NAMES.items():
        Path(name).write_text(text)
    yield tmp_path
    assert {name: Path(name).read_text() for name in NAMES} == NAMES, "nothing was written over"


def refused(*arguments: str, message: str) -> None:
    result = CliRunner().invoke(app, list(arguments))
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert "Traceback" not in result.output


def alike(name: str, how: str) -> str:
    """Another name of a file."""
    match how:
        case "same":
            return name
        case "path":
            Path("below").mkdir()
            return str(Path.cwd() / "below" / ".." / name)
        case "link":
            Path("link.jsonl").symlink_to(name)
            return "link.jsonl"
        case _:
            os.link(name, "hard.jsonl")
            return "hard.jsonl"


@pytest.mark.parametrize("how", ["same", "path", "link", "hard"])
@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("option", ["--output", "--dead-letter"])
def test_a_run_writes_over_nothing_that_it_reads(option: str, what: str, how: str) -> None:
    refused("run", *RUN, option, alike(READS[what], how), message=f"is {what} as well")


@pytest.mark.parametrize("what", READS)
@pytest.mark.parametrize("option", ["--output", "--dead-letter", "--checkpoint"])
def test_nor_does_one_on_spark(option: str, what: str) -> None:
    places = {"--output": "out", "--checkpoint": "state"} | {option: READS[what]}
    refused(*SPARK, *(part for pair in places.items() for part in pair), message=f"{option}: `{READS[what]}` is {what}")
    Path("all").mkdir()
    Path("all", "deep").mkdir()
    Path(READS[what]).rename(Path("all", "deep", READS[what]))
    Path(READS[what]).symlink_to(Path("all", "deep", READS[what]))
    places[option] = "all"
    refused(*SPARK, *(part for pair in places.items() for part in pair), message=f"{option}: the folder `all` holds")


@pytest.mark.parametrize("what", [*READS, "the file of tokens"])
@pytest.mark.parametrize("option", ["--dead-letter", "--state"])
def test_nor_does_a_server(option: str, what: str) -> None:
    name = READS.get(what, "token")
    refused("serve", *RUN, "--token-file", "token", option, name, message=f"is {what} as well")


def test_files_by_folder_and_by_pattern_are_read_too() -> None:
    Path("days").mkdir()
    Path("days", "one.jsonl").write_text(NAMES["events.jsonl"])
    os.link("days/one.jsonl", "other.jsonl")
    for given in ("days", "days/*.jsonl", "a=days", "a=days/*"):
        for written in ("days/one.jsonl", "other.jsonl"):
            refused("run", "rules.cep", "-i", given, "-o", written, message="is an input as well")
        refused("run", "rules.cep", "-i", given, "-o", "days/new.jsonl", message="would be an input as well")
    assert [path.name for path in Path("days").iterdir()] == ["one.jsonl"]
    refused("run", "rules.cep", "-i", "days/one.jsonl", "-o", "days/", message="the folder `days/` holds")


def test_the_files_of_several_types_are_looked_at_one_by_one() -> None:
    Path("out.b.csv").write_text("time,v\n1,2\n")
    refused("run", "rules.cep", "-i", "out.b.csv", "-o", "out.csv", message="`out.b.csv` is an input as well")
    assert Path("out.b.csv").read_text() == "time,v\n1,2\n"
    refused("run", *RUN, "-o", "out.csv", "--dead-letter", "out.c.csv", message="is the file of --dead-letter as well")


@pytest.mark.parametrize("how", ["same", "path", "link", "hard"])
def test_two_outputs_are_two_files(how: str) -> None:
    Path("out.jsonl").touch()
    other = alike("out.jsonl", how)
    refused("run", *RUN, "-o", "out.jsonl", "--dead-letter", other, message="is the file of --output as well")
    refused("demo", "blizzard", "--output", "out.jsonl", "--map", other, message="as well")


def test_what_lies_in_a_folder_of_state_is_not_written_by_another_option() -> None:
    """It would be written over, as `events.nq` of a server is, or removed as what the run does not know."""
    Path("state").mkdir()
    Path("state", "events.nq").write_text("kept")
    Path("link").symlink_to("state")
    for place in ("state/events.nq", "link/new.jsonl", "state/deep/new.jsonl"):
        refused(
            "serve", *RUN, "--state", "state", "--dead-letter", place, message="lies in the folder of --state, `state`"
        )
        message = "lies in the folder of --checkpoint, `state`"
        refused(*SPARK, "--checkpoint", "state", "--output", place, message=message)
        refused(*SPARK, "--checkpoint", "state", "--output", "out", "--dead-letter", place, message=message)
    assert Path("state", "events.nq").read_text() == "kept"


def test_a_pattern_of_folders_finds_the_output_too() -> None:
    Path("days", "one", "two").mkdir(parents=True)
    Path("days", "one", "a.jsonl").write_text(NAMES["events.jsonl"])
    for pattern, place in (
        ("days/**/*.jsonl", "days/new.jsonl"),
        ("days/**/*.jsonl", "days/one/two/new.jsonl"),
        ("days/*/*.jsonl", "days/one/new.jsonl"),
        ("d*s/one/*.jsonl", "days/one/../one/new.jsonl"),
    ):
        refused("run", "rules.cep", "-i", pattern, "-o", place, message="would be an input as well")
    assert not list(Path("days").rglob("new*"))
    for pattern, place in (("days/*/*.jsonl", "days/new.jsonl"), ("days/**/*.jsonl", "new.jsonl")):
        result = CliRunner().invoke(app, ["run", "rules.cep", "-i", pattern, "-o", place])
        assert result.exit_code == 0, result.output


def test_a_demo_does_not_write_over_its_own_files() -> None:
    from cep import demos

    program = Path(demos.__path__[0], "blizzard", "areas.cep")
    before = program.read_bytes()
    refused("demo", "blizzard", "--output", str(program), message="is a file of the demo as well")
    assert program.read_bytes() == before


def test_standard_input_and_output_are_files_as_well() -> None:
    root = str(Path(__file__).parent.parent)

    def ran(*arguments: str, **files: Any) -> str:
        whole = [sys.executable, "-m", "cep", "run", "rules.cep", *arguments]
        done = subprocess.run(whole, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True, **files)
        assert done.returncode == 2
        return str(done.stderr)

    with Path("events.jsonl").open() as given:
        assert "is an input as well" in ran("-i", "-", "-o", "events.jsonl", stdin=given)
    with Path("events.jsonl").open("a") as taking:
        assert "standard output is an input as well" in ran("-i", "events.jsonl", stdout=taking)


def test_a_device_may_be_written_twice() -> None:
    result = CliRunner().invoke(app, ["run", *RUN, "-o", "/dev/null", "--dead-letter", "/dev/null"])
    assert "as well" not in result.stderr


def test_every_option_that_names_a_file_is_known() -> None:
    """Of every command, those whose value is a file or folder."""

    def commands(group: Any) -> Iterator[Any]:
        for one in group.commands.values():
            yield from commands(one) if hasattr(one, "commands") else [one]

    named = {
        parameter.name
        for command in commands(typer.main.get_command(app))
        for parameter in command.params
        if {"FILE", "FOLDER", "SOURCE", "RULES", "OLD NEW", "NAME=FILE"} & {parameter.metavar}
    }
    assert named | {"sparql"} == READ.keys() | WRITTEN.keys()
