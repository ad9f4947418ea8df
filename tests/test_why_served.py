"""`/why` and `/why-not`: asked of a running engine, between two batches, within limits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import takewhile
from pathlib import Path

import httpx
import pyoxigraph as ox
import pytest

from cep.connectors.serving import why
from cep.connectors.why.lines import tree
from cep.connectors.why.text import Explainer, by_id
from cep.knowledge.provenance import Provenance
from tests.page_server import EIGHT, SECOND, Shown, shown
from tests.waiting import until

HOUR = 3_600 * SECOND
PROGRAM = """
PREFIX d: <http://purl.org/dc/terms/>
PREFIX sosa: <http://www.w3.org/ns/sosa/>
event reading(station: string, temp: float, y: float?, x: float?) TIME time.
event warm(station: string, temp: float).
event hot(station: string, temp: float).
rising: warm(S, B) <- reading(S, A, _, _) SEQ reading(S, B, _, _) WHERE B > A WITHIN 1 h.
known: hot(S, T) <- warm(S, T) WHERE T > 30, { ?s d:identifier ?S ; a sosa:Platform }.
"""


def latest(one: Shown, event: str = "hot") -> str:
    return next(id for id, (_, name, *_) in reversed(one.scene._ids.items()) if name == event)


def test_a_tree_in_every_form(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM, HOUR) as one, httpx.Client(base_url=one.url) as client:
        one.push((0, "vie", 20), (60, "vie", 36.5))
        id = latest(one)
        asked = Explainer(one.engine, Provenance(one.engine.changes.loaded))  # type: ignore[union-attr, arg-type]
        explained = asked.why(by_id(one.engine, id))
        answer = client.get(f"/why/{id}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == explained == client.get(f"/why/@{id}", headers={"Accept": "*/*"}).json()
        assert [fact["triple"] for fact in explained["conditions"][1]["triples"]] == [
            '<http://example.org/vienna> d:identifier "vie"',
            "<http://example.org/vienna> a sosa:Platform",
        ]
        text = client.get(f"/why/{id}", headers={"Accept": "text/plain"})
        assert text.text.splitlines() == tree(explained) == client.get(f"/why/{id}?format=text").text.splitlines()
        assert 'reading("vie"' in text.text and "2 more" in client.get(f"/why/{id}?format=text&depth=1").text
        prov = client.get(f"/why/{id}", headers={"Accept": "text/turtle, application/n-triples"})
        assert prov.headers["content-type"] == "application/n-triples"
        subjects = {str(quad.subject.value) for quad in ox.parse(prov.text, ox.RdfFormat.N_TRIPLES)}
        assert f"urn:semcep:event/{id}" in subjects

        missing = {"event": "hot(grz)", "at": "2024-05-01T08:01", "back": "1h"}
        assert client.get("/why-not", params=missing).json()["rules"][0]["failure"]["kind"] == "missing"
        assert "but there is no warm" in client.get("/why-not", params={**missing, "format": "text"}).text
        assert client.get("/why-not", params={"event": "hot(vie)", "at": "2024-05-01T08:01"}).json()["exists"]


def test_a_bare_number_has_the_unit_of_the_input(tmp_path: Path) -> None:
    with shown(tmp_path, PROGRAM, HOUR) as one, httpx.Client(base_url=one.url) as client:
        one.push((0, "vie", 20), (60, "vie", 36.5))
        assert one.questions is not None
        one.questions.unit = Fraction(1_000)
        asked = {"event": "hot(vie)", "at": str((EIGHT + 60 * SECOND) // 1_000)}
        assert client.get("/why-not", params=asked).json()["exists"]
        one.questions.unit = None
        refused = client.get("/why-not", params=asked)
        assert refused.status_code == 400 and "is a bare number, and the inputs count" in refused.text


def test_what_has_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shown(tmp_path, PROGRAM, HOUR) as one, httpx.Client(base_url=one.url) as client:

        def refused(address: str, status: int, **more: str) -> str:
            answer = client.get(address, **({"headers": more} if more else {}))  # type: ignore[arg-type]
            assert answer.status_code == status, answer.text
            return answer.text

        one.push((0, "vie", 20), (60, "vie", 36.5))
        id = latest(one)
        assert "no derived event" in refused(f"/why/{'0' * 32}", 404)
        assert "32 hexadecimal" in refused("/why/warm", 404)
        assert "text/plain" in refused(f"/why/{id}", 406, accept="image/png")
        assert "text/turtle" not in refused("/why-not?event=hot&at=0", 406, accept="text/turtle")
        assert '`hot("user-profile")`, in a shell' in refused("/why-not?event=hot(user-profile)&at=0", 400)
        assert "there is no event `hut`" in refused("/why-not?event=hut&at=2024-05-01", 400)
        assert refused("/why-not?event=hot&at=noon", 400).startswith("at: ")
        assert "is not a valid duration" in refused("/why-not?event=hot&at=2024-05-01&back=long", 400)
        for address in (f"/why/{id}?most=0", f"/why/{id}?depth=1000", f"/why/{id}?format=xml", "/why-not?event=hot"):
            explained = refused(address, 422)
            assert "detail" not in explained and explained.splitlines() == [explained.strip()] and ": " in explained, (
                explained
            )
        assert refused("/why-not?event=hot", 422) == "at: this parameter is missing\n"
        assert refused("/why-not", 422).splitlines() == [f"{n}: this parameter is missing" for n in ("event", "at")]
        assert refused("/why/x?most=<b>", 422).startswith("most: `<b>` is not a whole number")
        assert refused("/nowhere", 404) == "there is nothing at /nowhere\n"
        assert client.post("/why-not").text == "/why-not takes GET, HEAD, OPTIONS only\n"

        assert one.questions is not None
        monkeypatch.setattr(why, "WAITING", 0)
        assert "too many" in refused(f"/why/{id}", 503)
        monkeypatch.undo()
        one.questions.check_limit = why.TimeLimit(0.0)
        assert "took longer than 0 s" in refused(f"/why/{id}", 503)
        assert "took longer than 0 s" in refused("/why-not?event=hot(grz)&at=2024-05-01", 503)
        with one.turn:
            assert "is busy" in refused(f"/why/{id}", 503)
        one.questions.check_limit = why.TimeLimit(10.0)

        assert one.engine.history is not None
        one.push((7200, "vie", 1))
        one.engine.history._look_at = 0  # as if there were much
        one.push((7201, "vie", 0))
        gone = refused(f"/why/{id}", 410)
        assert "ended at 2024-05-01T08:01:00Z" in gone and "in the last 1 h" in gone and "--remember" in gone
    with shown(tmp_path, PROGRAM) as one:
        one.push((0, "vie", 20), (60, "vie", 36.5))
        answer = httpx.get(f"{one.url}/why/{latest(one)}")
        assert answer.status_code == 404 and "`cep serve --explain`" in answer.text


def test_asked_while_it_runs(tmp_path: Path) -> None:
    """Every event is explained as soon as it is told of, by several at once, while more come."""
    with shown(tmp_path, PROGRAM, HOUR) as one, ThreadPoolExecutor(4) as pool, httpx.Client(base_url=one.url) as client:
        one.push((0, "vie", 20))
        assert one.questions is not None
        one.questions.check_limit = why.TimeLimit(120.0)
        found: dict[str, httpx.Response] = {}
        rounds = takewhile(lambda n: n < 80 or len(found) < 8, range(1, 1700))  # within what is remembered
        feeding = threading.Thread(
            target=lambda: [one.push((2 * n, "vie", 20.0), (2 * n + 1, "vie", 31.0 + n % 7)) for n in rounds]
        )
        feeding.start()
        while feeding.is_alive():
            with one.scene.lock:
                ids = [id for id, (_, name, *_) in one.scene._ids.items() if name == "hot"][-4:]
            answers = pool.map(lambda id: client.get(f"/why/{id}"), ids)
            found |= dict(zip(ids, answers))
        feeding.join()
        assert found and {answer.status_code for answer in found.values()} == {200}
        for id, answer in list(found.items())[:5]:
            explained = answer.json()
            assert (
                explained["parts"] == client.get(f"/why/{id}").json()["parts"] and explained["end"] > explained["start"]
            )
        assert one.engine.watermark >= EIGHT + 159 * SECOND


def test_when_another_program_takes_over_what_waits_is_answered_and_nothing_is_cut_off(tmp_path: Path) -> None:
    """Who asked before gets the answer; who still asks the program of before is told to ask again."""
    with shown(tmp_path, PROGRAM, HOUR) as one, httpx.Client(base_url=one.url, timeout=60) as client:
        one.push((0, "vie", 20), (60, "vie", 36.5))
        assert one.questions is not None
        address = f"/why/{latest(one)}"
        with ThreadPoolExecutor(3) as pool:
            with one.questions.lock:
                asked = [pool.submit(client.get, address) for _ in range(3)]
                until(lambda: one.questions._waiting == 3, "all wait")  # type: ignore[union-attr]
                one.questions.close()
            assert [each.result().status_code for each in asked] == [200, 200, 200]
        late = client.get(address)
        assert (late.status_code, late.headers["Retry-After"]) == (503, "5") and "being changed" in late.text
        assert one.questions._waiting == 0
