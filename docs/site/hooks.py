"""Hooks of mkdocs: pages of the site that lie outside of docs/, the references, the charts, and links to all of them.

Links in the project's documents lead from file to file, as they must where the repository is read. Here each is turned
into a link of the site; what the site does not have stays as text. A page of the site whose name is not its file's
stands in ELSEWHERE.
"""

import json
import logging
import os
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, os.path.dirname(__file__))
import doxygen_index
import python_reference

ROOT = Path(__file__).resolve().parents[2]
XML = ROOT / "build" / "docs-xml"  # what Doxygen has found, by language
BUILT = ROOT / "build" / "docs"  # what scripts/docs.sh has made before: the references, the charts
ELSEWHERE = {
    "docs/site/landing.md": "index.md",
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "src/README.md": "layers.md",
    "examples/README.md": "examples.md",
    "packaging/README.md": "packages.md",
}
REFERENCES = {
    "cpp": ("C++", "the public classes: `holdfast::manager`, containers, transactions, the index, the store"),
    "c": ("C", "`holdfast.h`, `transaction.h`, `index.h`, and the store's `lmdb.h`"),
}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```|^    .*?$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
log = logging.getLogger("mkdocs.hooks.holdfast")


def on_files(files, config):
    """Adds the pages, and moves those that have another name here."""
    for source, place in ELSEWHERE.items():
        if source.startswith("docs/") and (known := files.get_file_from_path(source.removeprefix("docs/"))):
            files.remove(known)
    for source, place in ELSEWHERE.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for folder, (language, summary) in REFERENCES.items():
        text = f"# Reference: {language}\n\n[The reference of {language}](reference/{folder}/index.html) has {summary}."
        text += " It is made of the comments in the public headers, which are the same text. Its members are in the"
        text += f" search of this site.\n\n{doxygen_index.listed(XML / folder, folder)}"
        files.append(File.generated(config, f"reference-{folder}.md", content=text))
    files.append(File.generated(config, "reference-python.md", content=python_reference.page(ROOT / "python/holdfast")))
    files.append(File.generated(config, "site.css", content=(ROOT / "docs/site/site.css").read_text()))
    for file in sorted(BUILT.rglob("*")):
        if file.is_file():
            files.append(File.generated(config, file.relative_to(BUILT).as_posix(), abs_src_path=str(file)))
    return files


def source_of(page):
    """The file in the repository that a page is made of."""
    for source, place in ELSEWHERE.items():
        if place == page:
            return source
    return f"docs/{page}"


def on_page_markdown(markdown, page, config, files):
    """Turns links between files into links between pages."""
    uri = page.file.src_uri
    source = source_of(uri)

    def turned(found):
        picture, label, target, anchor = found.groups()
        if not target:
            return found.group(0)
        to = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        place = ELSEWHERE.get(to, to.removeprefix("docs/") if to.startswith("docs/") else None)
        if place is None and files.get_file_from_path(target):
            return found.group(0)  # a page that was made for the site alone
        if place is None:
            if not (ROOT / to).exists():
                log.warning("%s: a link to %s, which is not there", source, target)
            return label
        relative = posixpath.relpath(place, posixpath.dirname(uri) or ".")
        return f"{picture}[{label}]({relative}{anchor or ''})"

    parts = FENCE.split(markdown)
    return "".join(part if at % 2 else LINK.sub(turned, part) for at, part in enumerate(parts))


def on_post_build(config):
    """The members of the references get into the search. Every link between the site's files leads to one."""
    site = Path(config.site_dir)
    index = site / "search" / "search_index.json"
    found = json.loads(index.read_text())
    for folder in REFERENCES:
        found["docs"] += doxygen_index.for_search(XML / folder, folder)
    index.write_text(json.dumps(found))
    missing = set()
    for file in site.rglob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#?:]+)["#?]', file.read_text(errors="replace")):
            if not target.startswith("//") and not os.path.exists(file.parent / target.replace("%20", " ")):
                missing.add((file.relative_to(site).as_posix(), target))
    for page, target in sorted(missing):
        if page != "404.html":
            log.warning("%s: a link to %s, which is not there", page, target)
