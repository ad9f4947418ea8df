"""Hooks of MkDocs: pages keep their paths in the repository, and files that pages link to become pages.

Pages are written for GitHub as well. The few things that differ are rewritten here: the second word of a fence is the
name of a file, and a link may lead to a program.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDERS = ("demos", "ontologies", "tests/cases")
"""Folders besides docs/ whose README.md is a page."""
LEXERS = {"part": "cep", "formula": "cep", "facts": "prolog", "ipython": "python", "case": "text"}
"""Kinds of blocks (tests/test_docs.py) that Pygments knows under another name."""
SUFFIXES = {".cep": "cep", ".py": "python", ".ttl": "turtle", ".yaml": "yaml", ".sh": "sh", ".toml": "toml"}
"""Suffixes of files that are shown as pages, each with the name of its lexer."""

_FENCE = re.compile(r"^```(\w+)(?: (\S+))?$")
_LINK = re.compile(r"\]\(([^)#:\s]+)((?:#[^)]*)?)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by all pages and the files that they link to, under their paths in the repository."""
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    pages = [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    pages += [ROOT / folder / "README.md" for folder in FOLDERS]
    pages = [page for page in pages if "node_modules" not in page.parts]
    linked = {target for page in pages for target in _targets(page)} | {ROOT / "docs/site/style.css"}
    for path in [*pages, *sorted(linked.difference(pages))]:
        uri = path.relative_to(ROOT).as_posix()
        if path.suffix in SUFFIXES or path.name == "Dockerfile":
            files.append(File.generated(config, uri + ".md", content=_as_page(path, uri)))
        elif path.is_file():
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite what GitHub reads differently, outside of blocks: links to programs, and the fences themselves."""
    folder = (ROOT / page.file.src_uri).parent
    lines: list[str] = []
    inside = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            fence = _FENCE.match(line)
            if not inside and fence is not None:
                title = f' title="{fence[2]}"' if fence[2] else ""
                line = f"``` {{.{LEXERS.get(fence[1], fence[1])}{title}}}"
            inside = not inside
        elif not inside:
            line = _LINK.sub(lambda link: f"]({_page_of(folder, link[1])}{link[2]})", line)
        lines.append(line)
    if page.file.src_uri.startswith(("docs/decisions/", "CHANGELOG")):
        page.meta["search"] = {"boost": 0.2}
    return "\n".join(lines)


def _targets(page: Path) -> list[Path]:
    """Return the files that a page links to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    paths = (Path(os.path.normpath(page.parent / link[1])) for link in _LINK.finditer(text))
    return [path for path in paths if path.is_file() and path.is_relative_to(ROOT)]


def _page_of(folder: Path, target: str) -> str:
    """Return where a link leads on the site."""
    path = Path(target)
    shown = path.suffix in SUFFIXES or path.name == "Dockerfile"
    return target + ".md" if shown and (folder / path).is_file() else target


def _as_page(path: Path, uri: str) -> str:
    """Return a page that shows a file."""
    lexer = SUFFIXES.get(path.suffix, "docker")
    return f"# {path.name}\n\n`{uri}`\n\n~~~~~~ {{.{lexer}}}\n{path.read_text(encoding='utf-8')}\n~~~~~~\n"
