"""The shadow program on the page: how its events differ, why, and its promotion by whoever may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cep.connectors.serving import page as served
from cep.connectors.serving.guard import Limits
from cep.connectors.serving.people import People, Person, Role
from tests.axe import bars
from tests.page_server import CHROMIUM, MISSING, shown
from tests.test_page_address import NOWHERE, browser
from tests.test_serve import Server
from tests.waiting import until

RULES = """event reading(station: string, temp: float) TIME time.
event warm(station: string, temp: float).
PARAM Most = 90.0.
warm(S, T) <- reading(S, T) WHERE T > 20, T < Most.
"""
EVE, VIC = "e" * 16, "v" * 16


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def test_without_a_shadow_the_page_is_told_so(tmp_path: Path) -> None:
    people = People({Person("eve", Role.EDITOR): EVE, Person("vic", Role.VIEWER): VIC})
    with shown(tmp_path, NOWHERE, knowledge="", limits=Limits(people, rate=0)) as one:

        def told(token: str) -> Any:
            return httpx.get(f"{one.url}/api/shadow", headers={"Authorization": f"Bearer {token}"}).json()

        assert told(EVE) == {"shadow": None, "refused": ""}
        refused = "Promoting the shadow needs the role editor; vic is viewer."
        assert told(VIC) == {"shadow": None, "refused": refused}
    assert served._refused(None, Role.EDITOR, "It").startswith("It needs a server with tokens")


@pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
@pytest.mark.xdist_group("chromium")
def test_a_shadow_in_a_browser(tmp_path: Path) -> None:
    from playwright.sync_api import expect

    (tmp_path / "rules.cep").write_text(RULES)
    (tmp_path / "new.cep").write_text(RULES.replace("> 20", "> 25").replace("90.0", "95.0"))
    (tmp_path / "tokens").write_text(f"eve editor {EVE}\nvic viewer {VIC}\n")
    (tmp_path / "tokens").chmod(0o600)
    server = Server(
        str(tmp_path / "rules.cep"), "--state", str(tmp_path / "state"), "--token-file", str(tmp_path / "tokens"),
        "--idle", "never", "--rate", "0", "--explain", "--input", "reading=-", "--shadow", str(tmp_path / "new.cep"),
    )  # fmt: skip
    stdin = server.process.stdin
    assert stdin is not None
    for minute, temp in enumerate((21, 26, 22, 3, 3)):
        stdin.write(f'{{"time": "2024-05-01T08:0{minute}:00Z", "station": "vie", "temp": {temp}}}\n')
    stdin.flush()

    def asked(path: str) -> httpx.Response:
        return httpx.get(server.url + path, headers={"Authorization": f"Bearer {EVE}"}, timeout=60)

    def differing() -> bool:
        answer = asked("/shadow")
        return answer.status_code == 200 and answer.json()["events"]["warm"]["gone"] == 2

    until(differing, "it has come as far", every=0.1)
    with browser(390) as (page, wrong):
        page.goto(f"{server.url}/?access_token={VIC}#tab=rules")
        shadow = page.locator("#shadow")
        expect(shadow).to_contain_text("2 events differ since it began; 1 are the same")
        expect(shadow.locator("tbody td")).to_have_text(["warm", "2", "0", "0", "1"])
        expect(shadow.locator(".differences li")).to_have_count(2)
        expect(shadow.locator(".differences li").first).to_contain_text("only old")
        expect(shadow.locator(".differences li").first).to_contain_text("station vie · temp 22")
        expect(page.locator("#parameters .facts")).to_have_text("Most90.0")
        expect(shadow.locator(".facts")).to_have_text("Most95.0")
        expect(shadow.get_by_role("button", name="Promote")).to_be_disabled()
        expect(shadow).to_contain_text("Promoting the shadow needs the role editor; vic is viewer.")

        # a viewer sees why: what the old rules did, and what failed in the new ones
        shadow.get_by_role("button", name="Show the reasons").click()
        reason = shadow.locator(".differences li").first.locator("summary", has_text="New: why not")
        reason.click()
        expect(shadow.locator(".differences li").first).to_contain_text("T > 25")
        assert bars(page) == [] and page.evaluate("document.documentElement.scrollWidth") == 390

        # an editor promotes it, after a confirmation; then there is none
        page.context.clear_cookies()
        page.goto(f"{server.url}/?access_token={EVE}#tab=rules")
        page.reload()
        shadow.get_by_role("button", name="Promote").click()
        shadow.get_by_role("button", name="Cancel").click()
        assert asked("/shadow").status_code == 200
        shadow.get_by_role("button", name="Promote").click()
        expect(shadow).to_contain_text("2 events would have been otherwise")
        shadow.get_by_role("button", name="Promote it").click()
        expect(shadow).to_contain_text("No shadow program runs beside this one.")
        expect(page.locator("#rules")).to_contain_text("T > 25")
        assert asked("/program").json()["version"] == 2
        assert bars(page) == []
        assert [each for each in wrong if "favicon" not in each] == []
