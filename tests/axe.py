"""axe-core, which finds accessibility problems of a page: contrast, labels, roles, sizes. It is downloaded, not kept in
the repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cep.connectors.serving import vendor

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parents[1] / "build" / "axe"
AXE = vendor.Package(
    "axe-core",  # MPL-2.0
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    {"axe.min.js": "axe.js", "LICENSE": "axe.LICENSE"},
)
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def bars(page: Page) -> list[str]:
    """What is wrong with the page as it is now, with where; nothing where axe-core cannot be fetched."""
    try:
        vendor.fetch(FOLDER, (AXE,))
    except vendor.Unfetched:
        return []
    page.evaluate((FOLDER / "axe.js").read_text(encoding="utf-8"))
    found = page.evaluate(f"axe.run(document, {{runOnly: {list(RULES)}}})")["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]
