"""What Doxygen's XML says of the public headers: a list of the classes or files, and entries for the site's search."""

import html
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

KINDS = {"cpp": ("class", "struct", "namespace"), "c": ("file", "struct")}


class Entry(NamedTuple):
    """A class or a file (without an anchor), or a member of it."""

    name: str
    location: str
    brief: str
    detail: str  # of a member: its declaration


def text_of(element) -> str:
    """All text in an element, on one line."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def entries(xml: Path, folder: str):
    """For each class, namespace or file of the reference, in order: its entry, and those of its members."""
    for compound in sorted(ElementTree.parse(xml / "index.xml").getroot(), key=lambda each: each.findtext("name")):
        if compound.get("kind") not in KINDS[folder]:
            continue
        found = ElementTree.parse(xml / f"{compound.get('refid')}.xml").getroot().find("compounddef")
        if found.get("prot", "public") != "public":
            continue  # and has no page
        page = f"reference/{folder}/{compound.get('refid')}.html"
        name = found.findtext("compoundname")
        members = []
        for member in found.iter("memberdef"):
            if member.get("prot") == "private" or member.get("kind") == "friend":
                continue
            anchor = member.get("id").rpartition("_1")[2]
            shown = f"{text_of(member.find('type'))} {member.findtext('name')}{member.findtext('argsstring') or ''}"
            members.append(
                Entry(f"{name}::{member.findtext('name')}" if folder == "cpp" else member.findtext("name"),
                      f"{page}#{anchor}", text_of(member.find("briefdescription")), shown.strip())
            )  # fmt: skip
        brief = text_of(found.find("briefdescription")) or text_of(found.find("detaileddescription"))[:300]
        if members or brief:
            yield Entry(name, page, brief, ""), members


def listed(xml: Path, folder: str) -> str:
    """A table of the classes, or of the files."""
    lines = ["| | |", "|---|---|"]
    for entry, _ in entries(xml, folder):
        brief = entry.brief.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        lines.append(f"| [`{entry.name.replace('|', '')}`]({entry.location}) | {brief} |")
    return "\n".join(lines) + "\n"


def for_search(xml: Path, folder: str) -> list[dict[str, str]]:
    """Entries as mkdocs has them: that of a page stands before those of its sections."""
    found = []
    for entry, members in entries(xml, folder):
        found.append({"location": entry.location, "title": html.escape(entry.name), "text": html.escape(entry.brief)})
        for each in members:
            text = f"<p><code>{html.escape(each.detail)}</code></p><p>{html.escape(each.brief)}</p>"
            found.append({"location": each.location, "title": html.escape(each.name), "text": text})
    return found
