"""Small files that would fill the memory, or overflow a stack, are errors; large honest ones are read."""

from __future__ import annotations

import gzip
import os
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest

from cep.connectors.files import read
from cep.connectors.formats.streams import ByteStream
from cep.core import unpacking
from cep.core.errors import CepError
from cep.engine import Engine
from cep.knowledge.arriving import Arriving
from cep.knowledge.gazetteers import geonames
from cep.knowledge.graph import Knowledge
from cep.knowledge.growing_files import GrowingFile
from cep.knowledge.observations import InvalidLine, NodeShape, observations
from cep.knowledge.rdf.guarded_file import guarded
from cep.knowledge.rdf.nesting import TurtleDepth, XmlDepth
from cep.knowledge.updates import read_updates
from tests.long import seeds

HEAD = '<?xml version="1.0"?>\n'
XSD = '<!ENTITY xsd "http://www.w3.org/2001/XMLSchema#">'
ROOT = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/"{}>{}</rdf:RDF>'
BODY = '<rdf:Description rdf:about="http://e/a"><e:p rdf:datatype="&xsd;integer">1{}</e:p></rdf:Description>'
LAUGHS = '<!ENTITY l0 "haha">' + "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))
SHAPES = [NodeShape("ex:A", ("ex:p",), (("ex:p",),))]
PROV = "http://www.w3.org/ns/prov#"


def rdf(path: Path, declared: str, before: str = "", body: str = BODY.format("")) -> Path:
    path.write_text(HEAD + before + f"<!DOCTYPE rdf:RDF [\n {declared}\n]>" + ROOT.format("", body))
    return path


def test_ontologies_name_their_namespaces_by_entities(tmp_path: Path) -> None:
    """As Protégé wrote them; also by the thousand, and wherever a block of the file ends."""
    named = "\n".join(f'<!ENTITY e{i} "http://e/{i}#">' for i in range(20_000))
    for declared in (XSD, f"<!-- of\n all -->{XSD}", f'{XSD}<!ENTITY nbsp "&#160;">', XSD + named):
        assert len(Knowledge.load(rdf(tmp_path / "known.owl", declared), "none").asserted) == 1


@pytest.mark.parametrize(
    "entity",
    [
        LAUGHS,
        '<!ENTITY y "&xsd;">',
        '<!ENTITY y SYSTEM "file:///etc/passwd">',
        "<!ENTITY y 'one'>",
        '<!ENTITY % y "one">',
        f'<!ENTITY y "{"h" * 201}">',
        f'<!ENTITY y "{"h" * 100_000}">',
        f'<!ENTITY y "{"&#104;" * 201}">',
        f'<!ENTITY {" " * 5000} y "one">',
    ],
)
def test_entities_that_multiply_or_name_files_are_refused(tmp_path: Path, entity: str) -> None:
    path = tmp_path / "known.rdf"
    for before in ("", "<!-- " + "\n" * 300_000 + "-->", " " * ((1 << 18) - 100)):
        rdf(path, XSD + "\n " + XSD + entity, before)
        for name in (path, Path(f"{path}.gz")):
            if name.suffix == ".gz":
                name.write_bytes(gzip.compress(path.read_bytes()))
            with pytest.raises(
                CepError, match="an entity may have up to 200 characters, and may not refer to other"
            ) as why:
                Knowledge.load(name)
            line = before.count("\n") + 4
            column = 2 + len(XSD) + (len('<!ENTITY l0 "haha">') if entity is LAUGHS else 0)
            assert why.value.span is not None and (why.value.span.line, why.value.span.column) == (line, column)
            assert str(name) in str(why.value) and XSD in str(why.value)


def test_entities_are_refused_wherever_the_parser_takes_them(tmp_path: Path) -> None:
    declared = f"<!doctype r [{LAUGHS}]>"
    path = tmp_path / "known.rdf"
    for text in (ROOT.format("", declared + BODY.format("&l11;")), f"<!DOCTYPE r []>{declared}" + ROOT.format("", "")):
        path.write_text(text)
        with pytest.raises(CepError, match="an entity may have"):
            Knowledge.load(path)


NESTED: list[tuple[str, Callable[[int], str]]] = [
    ("jsonld", lambda n: '{"@context": ' + '{"a": {"@id": "ex:a", "@context": ' * n + "{}" + "}}" * n + "}"),
    ("jsonld", lambda n: '{"@id": "ex:a", "ex:q": "\\\\", "ex:p": ' * n + "1" + "}" * n),
    ("nq", lambda n: "<ex:a> <ex:p> " + "<<( <ex:a> <ex:b> " * n + "<ex:o>" + " )>>" * n + " .\n"),
]
LINES: list[tuple[str, Callable[[int], str]]] = [
    ("ttl", lambda n: "<ex:a> <ex:p> " + "<<( <ex:a> <ex:b>\n" * n + "<ex:o>" + " )>>" * n + " ."),
    ("ttl", lambda n: "<ex:a> <ex:p> " + "<<( <ex:a> <ex:b> " * n + "<ex:o>" + " )>>" * n + " ."),
    ("ttl", lambda n: "<ex:a> <ex:p> " + "<<( <ex:a> <ex:b> # )>> \r" * n + "<ex:o>" + " )>>" * n + " ."),
    ("ttl", lambda n: "<ex:a> <ex:p> " + "<<( <ex:a> <ex:)#>\n" * n),
    ("ttl", lambda n: '<ex:a> <ex:p> """\n" )>>""", ' + "<<( <ex:a> <ex:b>\n" * n + "<ex:o>" + " )>>" * n + " ."),
    ("ttl", lambda n: "<ex:a> <ex:p> '''\n\"\"\" ' ''', " + "<<( <ex:a> <ex:b>\n" * n + "<ex:o>" + " )>>" * n + " ."),
    ("trig", lambda n: "<ex:g> {\n<ex:a> <ex:p> " + "<<( <ex:a> <ex:b>\n" * n + "<ex:o>" + " )>>" * n + " . }"),
    ("rdf", lambda n: ROOT.format("", "<ex:C><ex:p>" * n + "</ex:p></ex:C>" * n)),
    ("rdf", lambda n: ROOT.format("", "<!-- </ex:p> <x/> --><ex:C><ex:p>" * n + "</ex:p></ex:C>" * n)),
]


@pytest.mark.parametrize("kind, text", NESTED)
def test_what_is_nested_too_deeply_is_an_error(tmp_path: Path, kind: str, text: Callable[[int], str]) -> None:
    """The parser must not see the file: it ended the process with a signal."""
    path = tmp_path / f"known.{kind}"
    path.write_text(text(20_000))
    for load in (Knowledge.load, read_updates):
        with pytest.raises(CepError, match="more than 500 levels of nesting"):
            load(path)
    format = {"nq": "nquads"}.get(kind, kind)
    good = "<ex:b> <ex:p> <ex:o> .\n" if kind == "nq" else ""
    found = list(observations((good + text(20_000) + good).encode(), format, SHAPES))
    assert [one.line for one in found if isinstance(one, InvalidLine)] == [1 + bool(good)]
    assert len(found) == 1 + bool(good)


@pytest.mark.parametrize("kind, text", LINES)
def test_so_it_is_over_many_lines(tmp_path: Path, kind: str, text: Callable[[int], str]) -> None:
    path = tmp_path / f"known.{kind}"
    path.write_text(text(30_000))
    for load in (Knowledge.load, read_updates) if kind == "trig" else (Knowledge.load,):
        with pytest.raises(CepError, match="more than 500 levels of nesting"):
            load(path)


TURTLE = ["<<( ", " )>> ", '"a \\" <<( "', "<ex:b#>", "# <<( \n", "'''\n<<( ' )>> '''", '"""<<( \n " """', "\n", " x "]
XML = ["<ex:a>", "</ex:a>", "<ex:b/>", "<!-- <a> -- -->", "<![CDATA[ <a> ]] ]]>", '<ex:c d="/">', " / ", "<?p <a>?>"]


@pytest.mark.parametrize("seed", seeds(40))
def test_nesting_is_the_same_however_a_text_is_cut(seed: int) -> None:
    random = Random(seed)
    for make, words in ((TurtleDepth, TURTLE), (XmlDepth, XML)):
        text = "".join(random.choice(words) for _ in range(2_000)).encode()
        whole, cut, at = make(), make(), 0
        whole.too_deep(text)
        whole.too_deep(b"\n")
        while at < len(text):
            size = random.choice((1, 2, 3, 7, 50))
            cut.too_deep(text[at : at + size])
            at += size
        cut.too_deep(b"\n")
        assert cut._depth == whole._depth


def test_many_triples_as_terms_are_read(tmp_path: Path) -> None:
    path = tmp_path / "known.ttl"
    quoted = '<ex:a> <ex:p> """\n' + "<<( " * 2_000 + '""" .\n'
    path.write_text(quoted + "<ex:a> <ex:p> <<( <ex:b> <ex:p> <ex:c> )>> .\n" * 2_000)
    with path.open("rb") as file:
        found = list(ox.parse(guarded(file, "known.ttl", ox.RdfFormat.TURTLE), ox.RdfFormat.TURTLE))
    assert len(found) == 2_001


def test_lines_of_changes_that_are_nested_too_deeply_are_refused() -> None:
    line = NESTED[-1][1](20_000).encode()
    good = f'<urn:g> <{PROV}generatedAtTime> "2024-01-01T01:00:00Z" .\n'.encode()
    for refused in (GrowingFile("a").read(good + line).refused, _arriving(good + line)):
        assert [(one.line, one.code) for one in refused] == [(2, "quad")]
        assert "more than 500 levels" in refused[0].reason


def _arriving(text: bytes) -> list[object]:
    stream = Arriving("a", iter([text]))
    stream.read(lambda pieces: next(pieces, None))
    return list(stream.refused)


def test_brackets_within_strings_are_no_nesting(tmp_path: Path) -> None:
    path = tmp_path / "known.jsonld"
    for block in (0, (1 << 18) - 300):
        long = "[" * 2000 + '\\"' + "{" * 2000 + "\\\\"
        path.write_text('{"@id": "ex:a", "ex:p": "' + " " * block + long + '", "ex:q": "' + long + '"}')
        assert len(Knowledge.load(path, "none").asserted) == 2
    path = tmp_path / "known.nq"
    path.write_text('<ex:a> <ex:p> "' + "<<(" * 2000 + '" .\n')
    assert len(Knowledge.load(path, "none").asserted) == 1


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "FREE", 1 << 20)


def test_knowledge_that_unpacks_without_end_is_an_error(small: None, tmp_path: Path) -> None:
    path = tmp_path / "known.nt.gz"
    path.write_bytes(gzip.compress(b" " * (1 << 22)))
    with pytest.raises(CepError, match="unpacks to more than 500 times its size"):
        Knowledge.load(path)
    path.write_bytes(gzip.compress(b"".join(b"<a:a%d> <a:b> <a:c> .\n" % i for i in range(100_000))))
    assert len(Knowledge.load(path, "none").asserted) == 100_000


def test_a_zipped_register_that_unpacks_without_end_is_an_error(small: None, tmp_path: Path) -> None:
    path = tmp_path / "allCountries.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("allCountries.txt", b"\n" * (1 << 22))
    with pytest.raises(CepError, match="unpacks to more than 500 times its size"):
        geonames.read_dump(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("piped", [False, True])
def test_records_that_unpack_without_end_end_there(small: None, tmp_path: Path, suffix: str, piped: bool) -> None:
    packed = gzip.compress if suffix == ".gz" else lambda data: pa.compress(data, "zstd", asbytes=True)
    path = tmp_path / f"records.jsonl{suffix}"
    for data, whole in ((b" " * (1 << 23), False), (b"".join(b'{"a": %d}\n' % i for i in range(200_000)), True)):
        if piped:
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            threading.Thread(target=path.write_bytes, args=(packed(data),), daemon=True).start()
        else:
            path.write_bytes(packed(data))
        stream, read = ByteStream(str(path)), 0
        while part := stream.read(1 << 20):
            read += len(part)
        stream.close()
        assert (read == len(data)) == whole and (stream.damage is None) == whole
        assert whole or "unpacks to more than 500 times its size" in str(stream.damage)


def test_a_parquet_file_that_unpacks_without_end_is_an_error(small: None, tmp_path: Path) -> None:
    times = pa.array(range(1_000), pa.int64())
    plain = {"compression": "zstd", "use_dictionary": False}
    pq.write_table(pa.table({"time": times, "k": pa.array(["x" * 100_000] * 1_000)}), tmp_path / "a.parquet", **plain)
    schemas = Engine.from_text("event a(k: string) TIME time. o(K) <- a(K).").inputs
    with pytest.raises(CepError, match=r"a\.parquet: it unpacks to more than 500 times its size"):
        list(read([str(tmp_path / "a.parquet")], schemas))
    pq.write_table(pa.table({"time": times, "k": pa.array(["x" * 100_000] * 1_000)}), tmp_path / "a.parquet")
    assert sum(batch.tables["a"].height for batch in read([str(tmp_path / "a.parquet")], schemas)) == 1_000
