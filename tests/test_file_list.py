"""The list of files: added to and never written anew, the same numbers after any end, and cheap to look at again."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.inputs import Input, passed_over
from cep.connectors.inputs import inputs as listed
from cep.core.errors import CepError
from cep.engine import Engine
from cep.spark.source import data_source, file_list
from cep.spark.source.file_list import FILE_BITS, FileChanges, FileList, ListedFile
from cep.spark.source.work_item import packed
from tests import local_spark

pytestmark = pytest.mark.xdist_group("spark")

SCHEMAS = Engine.from_text("event a(x: int).\nb(X) <- a(X).").inputs


def looked(one: FileList, *folders: Path) -> int:
    """A look for new files."""
    specs = [(place, str(folder)) for place, folder in enumerate(folders)]
    return one.extend(
        (place, file)
        for place, spec in specs
        for file in data_source.new_files(SCHEMAS, [spec], None, ("no-files",), one.known)
    )


def numbers(one: FileList) -> list[tuple[str, int]]:
    return [(Path(each.path).name, each.number) for each in one.entries(0, len(one))]


def test_files_keep_their_numbers(tmp_path: Path) -> None:
    path, first, second = tmp_path / "files.jsonl", tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
    one, high = FileList(str(path)), 1 << FILE_BITS
    assert looked(one, first, second) == len(one) == 0
    for folder, name in ((first, "3"), (first, "1 ä"), (second, "2"), (first, "left.txt")):
        (folder / f"{name}.jsonl").touch() if name != "left.txt" else (folder / name).touch()
    wanted = [("1 ä.jsonl", 0), ("2.jsonl", high), ("3.jsonl", 1)]
    assert looked(one, first, second) == looked(one, first, second) == 3 and numbers(one) == wanted
    (first / "0.jsonl").touch()
    before = path.read_bytes()
    assert looked(one, first, second) == 4
    wanted.append(("0.jsonl", 2))
    assert path.read_bytes().startswith(before) and numbers(one) == numbers(FileList(str(path))) == wanted
    assert [Path(each.path).name for each in one.entries(1, 3)] == ["2.jsonl", "3.jsonl"]
    (first / "3.jsonl").unlink()  # moved away: it is not read again if it comes back
    for torn in (b'{"number": 3, "path": "/x', b'{"number": 3}'):
        path.write_bytes(path.read_bytes() + torn)
        again = FileList(str(path))
        assert numbers(again) == wanted and looked(again, first, second) == len(wanted)
        name = f"new-{len(wanted)}.jsonl"
        (second / name).touch()
        assert looked(again, first, second) == len(wanted) + 1
        wanted.append((name, high + len(wanted) - 3))
        assert numbers(again) == numbers(FileList(str(path))) == wanted
    (first / "3.jsonl").touch()
    assert looked(one, first, second) == len(wanted) and numbers(one) == wanted, "another has added to it"
    with pytest.raises(CepError, match="lists 6 files, but 9 were read"):
        one.entries(0, 9)


def test_more_files_than_can_be_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_list, "FILE_BITS", 2)
    one = FileList(str(tmp_path / "files.jsonl"))
    some = [(1, Input(f"/in/{number}", "jsonl", None, False)) for number in range(5)]
    assert one.extend(some[:4]) == 4
    with pytest.raises(CepError, match="input 2 has had 4 files, which is the limit"):
        one.extend(some)
    assert len(FileList(str(tmp_path / "files.jsonl"))) == 4
    assert ListedFile.of(one.entries(3, 4)[0].fields()).number == 7


def test_what_is_known_is_not_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("1.jsonl", "2.jsonl", "note.txt"):
        (folder / name).touch()
    for spec in ("in", "in/", "in/*.jsonl", "./in"):
        both = [Path(one.path).name for one in listed([spec], SCHEMAS)]
        assert both == ["1.jsonl", "2.jsonl"]
        (one,) = listed([spec], SCHEMAS, known={str(folder / "1.jsonl")})
        assert Path(one.path) == Path("in/2.jsonl")
        assert listed([spec], SCHEMAS, known={str(folder / name) for name in both}) == []
    assert listed(["in/1.jsonl"], SCHEMAS, known={str(folder / "1.jsonl")}) == []
    (folder / "1.jsonl").unlink()
    (folder / "2.jsonl").unlink()
    with pytest.raises(CepError, match="no file in this directory"):
        listed(["in"], SCHEMAS, known={str(folder / "1.jsonl")})


def files_of(folder: Path, *sizes: int) -> list[ListedFile]:
    found = []
    for number, size in enumerate(sizes):
        path = folder / f"{number}.jsonl"
        with path.open("wb") as file:
            file.truncate(size)
        found.append(ListedFile(number, Input(str(path), "jsonl", None, False)))
    return found


def test_small_files_are_packed_into_tasks_by_size(tmp_path: Path) -> None:
    def dealt(tasks: int, *sizes: int) -> list[list[int]]:
        return [[one.number for one in pack.files] for pack in packed(files_of(tmp_path, *sizes), tasks)]

    assert dealt(4) == []
    assert dealt(2, 10, 10, 10, 10) == [[0, 1], [2, 3]], "each core has something to do"
    assert dealt(8, 10, 10) == [[0], [1]]
    assert dealt(1, 1 << 20, 1 << 27, 5, 5, 1 << 27) == [[0], [1], [2, 3], [4]], "a large file has a task of its own"
    many = dealt(2, *[40] * 2000)
    assert [*chain(*many)] == [*range(2000)] and 2 <= len(many) <= 5
    one = ListedFile(7, Input("s3://bucket/a.parquet", "parquet", None, False))
    assert [len(pack.files) for pack in packed([one, one], 2)] == [1, 1], "its size is not known"


def test_files_that_change_after_they_were_listed(tmp_path: Path) -> None:
    path, now = tmp_path / "files.jsonl", [0.0]
    files = FileList(str(path))
    inputs = [one.input for one in files_of(tmp_path, 100, 100, 100, 100, 100, 100)]
    files.extend((0, one) for one in inputs)
    changes = FileChanges(str(path), lambda: now[0])
    assert changes.take() == [] and files.changed() == []
    for name, size in (("0", 150), ("1", 50)):
        with (tmp_path / f"{name}.jsonl").open("r+b") as file:
            file.truncate(size)
    (tmp_path / "2.jsonl").replace(tmp_path / "gone.jsonl")  # moved away when it was read, as it may be
    assert changes.take() == [], "the last look was a moment ago"
    now[0] += FileChanges.PAUSE
    first, second = changes.take()
    assert first.startswith(
        f"{tmp_path}/0.jsonl has grown from 100 to 150 bytes since it was listed: a file is read once"
    )
    assert second.startswith(f"{tmp_path}/1.jsonl has shrunk from 100 to 50 bytes")
    assert changes.take(last=True) == [], "each is told once"
    for name in ("0", "3", "4", "5"):
        (tmp_path / f"{name}.jsonl").write_bytes(bytes(100))
    told = changes.take(last=True)
    assert len(told) == 3 and "0.jsonl was written again since" in told[0] and "; so have 1 more: " in told[2]


def test_what_is_told_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local_spark.install(monkeypatch)
    folder = tmp_path / "in"
    (folder / "day.jsonl").mkdir(parents=True)
    (folder / "lost.jsonl").symlink_to(tmp_path / "nowhere")
    (folder / "1.jsonl").write_text(
        '{"type": "a", "start": 1, "end": 1, "x": 1}\n{"type": "a", "start": 2, "end": 2, "x": 2}\n'
    )
    (folder / "2.parquet").write_bytes(b"no Parquet")
    (tmp_path / "p.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")

    def told(spec: Path) -> list[str]:
        places = ["-o", str(tmp_path / "out"), "--checkpoint", str(tmp_path / "state")]
        command = [
            "run",
            str(tmp_path / "p.cep"),
            "-i",
            str(spec),
            "--on",
            "spark",
            "--once",
            "--lateness",
            "0s",
            *places,
        ]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.stderr
        return result.stderr.splitlines()

    wrong = "day.jsonl is a folder named like a file, and is not read"
    lost = f"lost.jsonl is a link to {tmp_path}/nowhere, which does not exist"
    (first,) = passed_over([str(folder / "*")], SCHEMAS)  # the link is a file that cannot be read
    assert wrong in first
    first, second, *more = told(folder)
    assert wrong in first and lost in second
    assert more[-1].startswith("2 records, 1 dead letter (1 from a wrong file), 1 derived event: b 1"), more
    with (folder / "1.jsonl").open("a") as file:
        file.write('{"type": "a", "start": 3, "end": 3, "x": 3}\n')
    assert any("1.jsonl has grown from" in text for text in told(folder))
