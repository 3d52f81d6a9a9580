"""The rules of documents: what they name and link to exists. Also the rules of what code says of documents."""

import fnmatch
import itertools
import re
from pathlib import Path
from typing import Iterator

from lint_source import Finding, Scope, Source, blank_matches

LAYERS = ["base", "persist", "log", "segment", "lane", "extent", "slab", "heap", "malloc", "api", "c_api", "index"]
PUBLIC_HEADERS = ("include/",)
# The public headers of the components begin so, as they are included; all others are of the core.
COMPONENT_HEADERS = {
    "index": ("holdfast/index", "holdfast/ordered_index.hpp", "holdfast/hash_index.hpp", "holdfast/check_indexes.hpp"),
    "store": ("holdfast/store", "holdfast/detail/store", "lmdb"),
    "compat": ("holdfast/compat",),
}
MAX_COLUMNS = 120
NOT_OURS = ("third_party/",)
OF_THE_PAST = "CHANGELOG.md"  # it may name what is gone

# What documents name and our code does not: of the kernel, libraries, other programs, and examples of a style.
FOREIGN_NAMES = frozenset({
    "__libc_malloc",
    "hash_value",
    "nr_hugepages",
    "snake_case",
    "vfork",
})
FOREIGN_PREFIXES = ("mdb_", "pmemobj_")  # of libraries from which programs are ported
FOREIGN_SCOPES = frozenset({"boost", "metall", "nlohmann", "std"})
FOREIGN_OPTIONS = re.compile(r"--(?:benchmark_\w+|gtest_\w+|inplace)")

FENCE = re.compile(r"^[ ]*(```|~~~).*?^[ ]*\1", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"(?<!`)`[^`\n]+`(?!`)")
SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n(?!\s*\n)[^`\n]+)?)`(?!`)")


# --- identifiers ----------------------------------------------------------------------------------------------------

WORD = re.compile(r"[A-Za-z_]\w*")
WORD_BEFORE = re.compile(r"[A-Za-z_]\w*[(<]?")
PAIR = re.compile(r"(?=\b(\w+::~?\w+))")
COMMAND_LINE = re.compile(r"^[ ]*(?:\$ )?((?:make|holdfast) +[a-z].*)$", re.MULTILINE)
SHELL_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\n]*")
MAKE_TARGET = re.compile(r"^([a-z][\w-]*):", re.MULTILINE)
TOP = ("include", "src", "tests", "docs", "tools", "scripts", "cmake", "bench", "examples", ".ci")
FOLDERS_OF_SRC = LAYERS + ["cli", "command_line", "lmdb_file", "store", "store_tools"]
SOURCE_NAME = r"[\w*-]+\.(?:cpp|hpp|h|py|sh|cmake|md)(?!\w)"
PATH = re.compile(rf"(?<![\w.*/$~-])(?:[\w.*-]+(?:/[\w.*-]+)+/?|{SOURCE_NAME}|[\w.-]+/$)")
PLACEHOLDER = re.compile(r"<\w+>|\.\.\.|(?<!\w)x_\w+\.")  # src/<layer>/x_test.cpp
NAME = re.compile(r"(?<![\w$@%+*/-])([A-Za-z_]\w*(?:<[\w:, ]*>)?(?:::~?[A-Za-z_]\w*)*)(\*|\()?(?![\w/-])")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
SNAKE_CASE = re.compile(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+_?")
OUR_MACRO = re.compile(r"(?:HOLDFAST|HF)_\w+")


class Names:
    """What a document may name: the paths of the tree, and the words of its code and scripts outside of comments."""

    def __init__(self, sources: list[Source], files: list[str]) -> None:
        self.paths = set(files).union(*({str(folder) for folder in Path(path).parents} for path in files))
        self.words: set[str] = set()  # of code, scripts, paths
        self.called: set[str] = set()  # those before a parenthesis or template arguments
        self.scopes: dict[str, list[tuple[Scope, str]]] = {}  # with the code that they are in
        self.pairs: set[str] = set()  # a::b, as code writes it
        self.make_targets: set[str] = set()
        self.commands: set[str] = set()  # of the program holdfast
        self.options: set[str] = set()
        for path in files:
            self.add_path(path)
        for source in sources:
            if source.is_cpp:
                self.add_cpp(source)
            elif not source.is_markdown:
                self.add_script(source)

    def add_path(self, path: str) -> None:
        self.words.update(WORD.findall(path))
        built = re.fullmatch(r"src/(\w+)/(?:\w+/)*\w+_(test|bench)\.cpp", path)
        if built:
            self.words.add(f"{built.group(1)}_{built.group(2)}")  # one program a layer

    def add_words(self, text: str) -> None:
        for word in set(WORD_BEFORE.findall(text)):
            self.words.add(word.rstrip("(<"))
            if word[-1] in "(<":
                self.called.add(word[:-1])

    def add_script(self, source: Source) -> None:
        text = SHELL_COMMENT.sub("", source.text)
        self.add_words(text)
        self.options.update(OPTION.findall(text))
        if source.path == "Makefile":
            self.make_targets.update(MAKE_TARGET.findall(text))

    def add_cpp(self, source: Source) -> None:
        self.add_words(source.code)
        literals = "\n".join(source.literals)
        self.add_words(literals)
        self.options.update(re.findall(r"--[a-z][\w-]*", literals))
        self.pairs.update(PAIR.findall(source.code))
        if source.path.startswith("src/cli/"):
            self.commands.update(literal[1:-1] for literal in source.literals)
        for scope in source.scopes:
            for name in scope.name.split("::"):
                self.scopes.setdefault(name, []).append((scope, source.code))

    def has_path(self, mention: str, folder: Path) -> bool:
        """A file or folder: from the root, from src/, from `folder`, or the end of a path. True for foreign paths."""
        parts = mention.rstrip("/").split("/")
        if parts[0] in FOREIGN_SCOPES:
            return True
        if re.fullmatch(SOURCE_NAME, parts[-1]) is None and parts[0] not in (*TOP, *FOLDERS_OF_SRC):
            return True
        wanted = "/".join(parts)
        if "*" in wanted:
            return any(fnmatch.fnmatch("/" + path, "*/" + wanted) for path in self.paths)
        if {wanted, "src/" + wanted, str(folder / wanted)} & self.paths:
            return True
        return parts[0] not in TOP and any(path.endswith("/" + wanted) for path in self.paths)

    def has_member(self, scope: str, member: str) -> bool:
        """The scope or a base of it has the word. True for what is no scope of ours, as an alias is."""
        if f"{scope}::{member}" in self.pairs or scope not in self.scopes:
            return True
        word = re.compile(rf"\b{member}\b")
        waiting, seen = [scope], {scope}
        while waiting:
            for found, code in self.scopes.get(waiting.pop(), []):
                if word.search(code, found.begin, found.end):
                    return True
                bases = set(WORD.findall(found.bases)) - seen
                seen |= bases
                waiting += bases
        return False


def check_identifiers(source: Source, names: Names) -> Iterator[Finding]:
    """What a document calls by name exists: a reader who searches for it finds it."""
    if not is_document(source) or source.path == OF_THE_PAST:
        return
    rule = "document-identifier"
    folder = Path(source.path).parent
    for match in SPAN.finditer(blank_matches(FENCE, source.text)):
        for message in span_faults(match.group(1), folder, names):
            yield source.finding(match.start(1), rule, message)
    for match in COMMAND_LINE.finditer(source.text):
        for message in command_faults(match.group(1), names):
            yield source.finding(match.start(1), rule, message)


def span_faults(span: str, folder: Path, names: Names) -> Iterator[str]:
    yield from command_faults(span, names)
    for option in OPTION.findall(span):
        if option not in names.options and not FOREIGN_OPTIONS.fullmatch(option):
            yield f"there is no option {option}"
    for match in PATH.finditer(span):
        if not PLACEHOLDER.search(span) and not names.has_path(match.group(), folder):
            yield f"there is no file {match.group()}"
    for match in NAME.finditer(blank_matches(PATH, span)):
        name, after = match.groups()
        plain = re.sub("<.*?>", "", name)
        message = name_fault(plain, "*" if plain.endswith("_") and plain != name else after, names)  # a_<x>: any
        if message:
            yield message


def command_faults(text: str, names: Names) -> Iterator[str]:
    words = text.split() or [""]
    program = words[0].split("/")[-1]
    if program == "make":
        targets = itertools.takewhile(lambda word: re.fullmatch(r"[a-z][\w-]*", word), words[1:])
        yield from (f"there is no target {word} in Makefile" for word in targets if word not in names.make_targets)
    elif program == "holdfast" and len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
        if words[1] not in names.commands:
            yield f"there is no command holdfast {words[1]}"


def name_fault(name: str, after: str | None, names: Names) -> str | None:
    parts = name.replace("~", "").split("::")
    if parts[0] in FOREIGN_SCOPES or name in FOREIGN_NAMES or name.startswith(FOREIGN_PREFIXES):
        return None
    if after == "*":
        known = any(word.startswith(parts[-1]) for word in names.words)
        return None if known else f"nothing is called {name}*"
    if after == "(" and parts[-1] not in names.called:
        return f"no function is called {parts[-1]}"
    if len(parts) > 1 or SNAKE_CASE.fullmatch(name) or OUR_MACRO.fullmatch(name):
        for part in parts:
            if part not in names.words:
                return f"nothing is called {part}"
    for scope, member in zip(parts, parts[1:]):
        if not names.has_member(scope, member):
            return f"{scope} has no member {member}"
    return None


# --- links ----------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)[^)]*\)|^\[[^\]\n]+\]:[ ]+(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.*?)[ #]*$", re.MULTILINE)
ANCHOR = re.compile(r"""<\w+ [^>]*\b(?:id|name)=["']([^"']+)["']""")


def headings_of(text: str) -> list[str]:
    """Without links' targets and marks of code and emphasis."""
    titles = HEADING.findall(blank_matches(FENCE, text))
    return [re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)) for title in titles]


def anchors_of(text: str) -> set[str]:
    """Those that GitHub gives to headings, and those of HTML."""
    found = set(ANCHOR.findall(text))
    counts: dict[str, int] = {}
    for title in headings_of(text):
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = counts.get(anchor, 0)
        counts[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    return found


def check_links(source: Source, root: Path) -> Iterator[Finding]:
    """A relative link leads to a file and, after `#`, to a heading in it."""
    if not is_document(source):
        return
    text = blank_matches(CODE_SPAN, blank_matches(FENCE, source.text))
    for match in LINK.finditer(text):
        link = match.group(1) or match.group(2)
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        path = (root / source.path).parent / target if target else root / source.path
        if not path.exists():
            yield source.finding(match.start(), "document-link", f"dead link: {target}")
        elif anchor and path.suffix == ".md" and anchor not in anchors_of(path.read_text()):
            yield source.finding(match.start(), "document-link", f"no heading for the link {link}")


# --- what code says of documents ------------------------------------------------------------------------------------

BREAK = r"(?:[\s#*]|//+)"  # between words of a comment that goes on in the next line
DOCUMENT = re.compile(rf"(?<![\w.<>*-])((?:[\w-]+/)*[\w-]+\.md)\b(?:,?{BREAK}+(?:section{BREAK}+)?\"([^\"\n]+)\")?")
DECISION = re.compile(rf"\b[Dd]ecisions?{BREAK}+(\d+)\b|\bdecisions/(\d+)(?![\w-])")
# Pages of the site that are made when it is built, which checks their names itself.
SITE = ("mkdocs.yml", "docs/site/", "docs/pictures/charts.py", "tests/site/")
DESIGN = re.compile(rf"\bDESIGN,?{BREAK}+section\b")


def check_titles(source: Source, root: Path, decisions: set[int]) -> Iterator[Finding]:
    """A document, a section or a decision that a comment refers to exists. The design is not part of the tree."""
    rule = "document-title"
    if source.path.startswith(NOT_OURS + SITE):
        return
    if "DESIGN" in source.text:
        for match in DESIGN.finditer(source.text):
            yield source.finding(match.start(), rule, "DESIGN is no document of this tree: name one of docs/")
    if "ecision" in source.text:
        for match in DECISION.finditer(source.text):
            number = match.group(1) or match.group(2)
            if int(number) not in decisions:
                yield source.finding(match.start(), rule, f"there is no decision {number}")
    if source.is_markdown or ".md" not in source.text:
        return  # Markdown is for check_identifiers and check_links
    for match in DOCUMENT.finditer(source.text):
        name, title = match.groups()
        found = [place for place in (root / name, root / "docs" / name) if place.is_file()]
        if not found:
            yield source.finding(match.start(), rule, f"there is no document {name}")
        elif title and title.lower() not in (heading.lower() for heading in headings_of(found[0].read_text())):
            yield source.finding(match.start(), rule, f'{name} has no section "{title}"')


def decisions_of(files: list[str]) -> set[int]:
    found = (re.match(r"docs/decisions/(\d+)-", path) for path in files)
    return {int(match.group(1)) for match in found if match}


# --- width ----------------------------------------------------------------------------------------------------------


def check_width(source: Source) -> Iterator[Finding]:
    """Text that is read and compared line by line. A table has its rows on one line; a long word stays as it is."""
    if not is_document(source):
        return
    for number, line in enumerate(blank_matches(FENCE, source.text).split("\n"), 1):
        is_word = " " not in line.strip().removeprefix("- ")
        if len(line.rstrip()) > MAX_COLUMNS and not line.lstrip().startswith("|") and not is_word:
            message = f"{len(line)} columns, {MAX_COLUMNS} are allowed"
            yield Finding(source.path, number, "markdown-width", message)


def is_document(source: Source) -> bool:
    return source.is_markdown and not source.path.startswith(NOT_OURS)
