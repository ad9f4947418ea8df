"""The people who may use a server: their file, their roles, and what a route asks of them."""

from __future__ import annotations

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import pytest
from fastapi import APIRouter, Depends
from prometheus_client import CollectorRegistry
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

from cep.connectors.serving.app import application
from cep.connectors.serving.guard import Guard, Limits, RememberPeer
from cep.connectors.serving.people import People, Person, Role, cookie_value, read_people, requires
from cep.core.errors import CepError
from cep.core.logs import Level
from cep.server.watch import TokenFileWatch
from tests.page_server import shown
from tests.serving import served
from tests.waiting import turn, until

ANN, BEN, WALL = "a" * 16, "b" * 20, "c" * 64
FILE = f"# who may ask\nann editor {ANN}\n\n  ben\tresponder {BEN}  \nwall viewer {WALL}\n"


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    """A file of tokens."""
    file = folder / "tokens"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_people_are_known_by_their_tokens_and_cookies(tmp_path: Path) -> None:
    people = read_people(written(tmp_path, FILE))
    for token, person in (
        (ANN, Person("ann", Role.EDITOR)), (BEN, Person("ben", Role.RESPONDER)), (WALL, Person("wall", Role.VIEWER))
    ):  # fmt: skip
        assert people.with_token(token) == people.with_cookie(cookie_value(token)) == person
        assert people.with_token(token[:-1]) is people.with_token(cookie_value(token)) is None
        assert people.with_cookie(token) is None
    assert people.with_token("") is people.with_token("ä" * 16) is people.with_cookie("") is None


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("", "the file names nobody", "name role token"),
        ("# nobody\n", "the file names nobody", "name role token"),
        (WALL, "line 1: there are 1 word, not 3", "name role token"),
        (f"ann editor {ANN}\nben the responder {BEN}", "line 2: there are 4 words, not 3", "name role token"),
        (f"ann edtor {ANN}", "line 1: `edtor` is not a role", "did you mean `editor`"),
        (f"ann king {ANN}", "line 1: `king` is not a role", "viewer, responder or editor"),
        ("ann editor short", "line 1: the token of `ann` is too short", "16 letters"),
        (f'ann editor {"a" * 16};"', "line 1: the token of `ann`", "16 letters"),
        (f"ann editor {'ä' * 16}", "line 1: the token of `ann`", "16 letters"),
        (f"{'n' * 65} editor {ANN}", "line 1: `nnnn", "name role token"),
        (f"ann editor {ANN}\nann viewer {BEN}", "line 2: `ann` has a token already, in line 1", "one token"),
        (f"ann editor {ANN}\nben viewer {ANN}", "line 2: `ben` has the token of line 1", "of their own"),
    ],
)
def test_a_file_with_a_mistake_says_where_and_keeps_the_tokens_secret(
    tmp_path: Path, text: str, message: str, hint: str
) -> None:
    with pytest.raises(CepError) as caught:
        read_people(written(tmp_path, text))
    error = caught.value
    assert message.replace("are 1", "is 1") in error.message and hint in (error.hint or ""), error
    assert not any(token in f"{error.message} {error.hint}" for token in (ANN, BEN, WALL))


@pytest.mark.parametrize(("mode", "refused"), [(0o600, False), (0o640, False), (0o644, True), (0o660, True)])
def test_others_may_neither_read_nor_change_the_file(tmp_path: Path, mode: int, refused: bool) -> None:
    file = written(tmp_path, FILE, mode)
    if refused:
        with pytest.raises(CepError, match=f"(others can read|can change) the file .*{mode:04o}") as caught:
            read_people(file)
        assert caught.value.hint == f"`chmod 600 {file}`"
    else:
        assert read_people(file).with_token(ANN)


def test_a_pipe_has_no_mode(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", f"printf '{FILE}' > {tmp_path}/pipe"]):
        assert read_people(tmp_path / "pipe").with_token(BEN) == Person("ben", Role.RESPONDER)


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = written(tmp_path, FILE)
    people = read_people(file)
    told: list[tuple[str, str]] = []

    def log(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
        told.append((level, text or ""))

    watch = TokenFileWatch(file, people, log)
    watch.start()
    try:
        asked = asking(Limits(people, rate=0))

        def status(token: str) -> int:
            return asked.post("/act", headers={"Authorization": f"Bearer {token}"}).status_code

        assert status(BEN) == 200
        file.write_text(FILE.replace(f"ben\tresponder {BEN}", f"eve responder {'e' * 16}"))
        until(lambda: status(BEN) == 401, "the token is void")
        assert status("e" * 16) == 200 and status(ANN) == 200
        until(lambda: len(told) == 1, "it is said")
        assert told[0][0] == "info" and "3 people, 1 of the earlier tokens are void" in told[0][1]
        file.write_text("ann editor brief\n")
        until(lambda: len(told) == 2, "the mistake is said")
        assert told[1][0] == "error" and "line 1" in told[1][1] and "brief" not in told[1][1]
        assert status(ANN) == 200, "the tokens of before still count"
        file.unlink()
        until(lambda: len(told) == 3, "it is said that the file is gone")
        assert "no such file" in told[2][1] and status(ANN) == 200
        written(tmp_path, f"ann editor {'n' * 16}\n")
        until(lambda: status(ANN) == 401, "it is read again")
        assert status("n" * 16) == 200
    finally:
        watch.close()
        watch.join()


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CepError, match="no such file or directory"):
        read_people(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(CepError, match="not text in UTF-8"):
        read_people(tmp_path / "bytes")


def asking(limits: Limits, *more: APIRouter) -> TestClient:
    """A client of a server with a path that a responder may use."""
    router = APIRouter()

    @router.post("/act")
    def act(person: Annotated[Person, Depends(requires(Role.RESPONDER, "acting"))]) -> str:
        return person.name

    app = application([router, *more], limits, title="t", trouble=lambda: None, registry=CollectorRegistry())
    return TestClient(app, base_url="http://here")


def said(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.text.strip().strip('"')


def test_a_route_asks_for_a_role(tmp_path: Path) -> None:
    client = asking(Limits(read_people(written(tmp_path, FILE)), rate=0))
    bearer = {token: {"Authorization": f"Bearer {token}"} for token in (ANN, BEN, WALL)}
    assert said(client.post("/act", headers=bearer[ANN])) == (200, "ann")
    assert said(client.post("/act", headers=bearer[BEN])) == (200, "ben")
    assert said(client.post("/act", headers=bearer[WALL])) == (403, "acting needs the role responder; wall is viewer")
    assert client.post("/act").status_code == 401
    cookie = {"Cookie": f"semcep={cookie_value(BEN)}"}
    assert said(client.post("/act", headers=cookie)) == (200, "ben")
    for page, allowed in (
        ({"Origin": "http://here"}, True), ({"Origin": "http://evil.example"}, False), ({"Origin": "null"}, False),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://in.front.of.here"}, True),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://here"}, False), ({"Sec-Fetch-Site": "cross-site"}, False),
    ):  # fmt: skip
        assert client.post("/act", headers={**cookie, **page}).status_code == (200 if allowed else 403), page


def test_without_tokens_nobody_has_a_role() -> None:
    client = asking(Limits(rate=0))
    assert said(client.post("/act")) == (403, "acting needs a server with tokens: `--token-file`")


def test_a_proxy_names_exactly_who_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"ann_smith editor -\njörg responder -\n{'x' * 64} editor -\n", encoding="utf-8")
    file.chmod(0o600)
    people = read_people(file)
    assert people.by_name("ann_smith") == Person("ann_smith", Role.EDITOR)
    assert people.by_name("ann smith") == Person("ann_smith", Role.VIEWER), "only what is shown is bent"
    assert people.by_name("x" * 65).role is Role.VIEWER
    guard = Guard(PlainTextResponse("in"), Limits(people, 0, proxies=frozenset(("testclient",))))
    client = TestClient(RememberPeer(guard))
    assert client.get("/", headers={"X-Forwarded-User": "jörg".encode()}).text == "in"


def test_a_stream_ends_when_its_token_is_void(tmp_path: Path) -> None:
    """Streams end with a token that is gone or has a lower role, also in the middle of a query; other streams go on."""
    for folder in ("page", "store"):
        (tmp_path / folder).mkdir()
    tokens = {Person("ann", Role.EDITOR): ANN, Person("ben", Role.RESPONDER): BEN, Person("wall", Role.VIEWER): WALL}
    people = People(tokens)
    limits = Limits(people, rate=0)
    query = f"/sparql/subscribe?query={quote('SELECT * { ?s ?p ?o } LIMIT 1')}"
    with shown(tmp_path / "page", limits=limits) as one, served(tmp_path / "store", limits) as two:
        one.push((0, "vie", 36))
        at = httpx.get(f"{one.url}/api/state", headers={"Authorization": f"Bearer {ANN}"}).json()["at"]
        places = (f"{one.url}/api/stream?after={at}", f"{one.url}/feeds/events?after=0", f"{two.url}{query}")
        with ExitStack() as opened, ThreadPoolExecutor(9) as threads:
            streams = {}
            for url in places:
                for token in (ANN, BEN, WALL):
                    client = opened.enter_context(httpx.Client(headers={"Authorization": f"Bearer {token}"}))
                    answer = opened.enter_context(client.stream("GET", url, timeout=30))
                    lines = answer.iter_lines()
                    assert answer.status_code == 200 and next(lines)
                    streams[url, token] = threads.submit(lambda lines=lines: list(lines))
            people.replace({Person("ann", Role.VIEWER): ANN, Person("wall", Role.RESPONDER): WALL})
            for url in places:
                for token in (ANN, BEN):  # they end in the right form: reading them raises nothing
                    assert isinstance(streams[url, token].result(10), list)
                assert not streams[url, WALL].done(), "whoever may do more goes on"
                for token, status in ((ANN, 200), (BEN, 401)):
                    with httpx.stream("GET", url, headers={"Authorization": f"Bearer {token}"}) as again:
                        assert again.status_code == status
            people.replace({Person("eve", Role.VIEWER): "e" * 16})
            for url in places:
                streams[url, WALL].result(10)


def test_a_long_answer_is_not_given_to_a_void_token(tmp_path: Path) -> None:
    """A read is refused once its token is void; a request that changes something keeps its answer."""
    people = People({Person("ann", Role.EDITOR): ANN})
    router, begun, over = APIRouter(), threading.Semaphore(0), threading.Event()

    @router.get("/slow")
    async def slow() -> str:
        begun.release()
        await turn(30)
        return "read"

    @router.post("/change")
    def change() -> str:
        begun.release()
        assert over.wait(30)
        return "changed"

    with ThreadPoolExecutor(2) as threads:
        client = asking(Limits(people, rate=0), router)
        bearer = {"Authorization": f"Bearer {ANN}"}
        read, changed = (
            threads.submit(client.request, *each, headers=bearer) for each in (("GET", "/slow"), ("POST", "/change"))
        )
        for _ in range(2):
            assert begun.acquire(timeout=20)
        people.replace({Person("eve", Role.EDITOR): "e" * 16})
        assert said(read.result(10)) == (401, "the token is not known")
        over.set()
        assert said(changed.result(10)) == (200, "changed")
        assert said(client.get("/slow", headers=bearer)) == (401, "the token is not known")
