#!/usr/bin/env python3
"""The project's own lint: what compilers and clang-tidy do not know about Holdfast.

    lint.py [ROOT]      checks every file of the tree at ROOT (default: the tree that holds this file)

Prints `path:line: rule: message` for each finding; exit status 1 if there is any. A finding that is right as it stands
is let through by a comment on its line: `lint-allow(rule): reason`. The rules are the functions named check_*, here
and in lint_classes.py and lint_documents.py, each with its reason; lint_test.py shows one tree that passes and, for
each rule, trees that do not.
"""

import ast
import re
import sys
from pathlib import Path
from typing import Iterator

import mutants
from lint_classes import check_class_chains, check_class_methods
from lint_documents import (
    COMPONENT_HEADERS,
    LAYERS,
    MAX_COLUMNS,
    PUBLIC_HEADERS,
    Names,
    check_identifiers,
    check_links,
    check_titles,
    check_width,
    decisions_of,
)
from lint_source import CODE, DIRECTIVE, Finding, Source, blank_matches, comment_beginnings, is_text, list_files

# On the public headers alone.
OUTSIDE = (
    "src/cli/",
    "src/command_line/",
    "src/index/",
    "src/lmdb_file/",
    "src/store_tools/",
    "bench/",
    "examples/",
)
# The store is no layer: it lies beside those above these.
STORE = "src/store/"
LAYERS_OF_STORE = ("base", "persist", "log")
# The folders of a layer, bottom up. What lies beside them stands on them, for who uses the layer.
FOLDERS = {
    "segment": ("format", "files", "commit", "creation"),
    "slab": ("classes", "pool", "nodes", "supply", "calls"),
    "heap": ("operations", "objects", "trace", "collect", "ordered", "atomic"),
}
CLI11_HOME = "src/command_line/"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
KNOWN_PREFIXES = {"BASE", "PER", "LOG", "SB", "JRN", "SEG", "LANE", "EXT", "SLAB", "HEAP", "OBJ", "API", "IDX"}


# --- layers ---------------------------------------------------------------------------------------------------------

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of(path: str) -> str | None:
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" and parts[1] in LAYERS else None


def check_layers(source: Source) -> Iterator[Finding]:
    """A layer includes only itself and those below; public headers and programs include public headers alone."""
    if not source.is_cpp:
        return
    layer = layer_of(source.path)
    public = source.path.startswith(PUBLIC_HEADERS)
    for match in INCLUDE.finditer(source.text):
        quoted, included = match.group(1) == '"', match.group(2)
        message = None
        if ".." in included.split("/"):
            message = f"include {included}: give the path from src/"
        elif public and quoted:
            message = f"public header includes {included}: only <holdfast/...>, Boost and the standard library"
        elif source.path.startswith(OUTSIDE) and quoted and included.split("/")[0] in LAYERS:
            message = f"program includes {included}: only public headers, <holdfast/...>"
        elif (source.path.startswith(STORE) and quoted and included.split("/")[0] in LAYERS
              and included.split("/")[0] not in LAYERS_OF_STORE):
            message = f"store includes {included}: of the layers only {', '.join(LAYERS_OF_STORE)}"
        elif layer and not public:
            message = layer_fault(layer, included, source.is_test)
        if message:
            yield source.finding(match.start(1), "layers", message)


def check_components(source: Source) -> Iterator[Finding]:
    """The core's headers and layers do not know the components: these can be left out."""
    own = component_of(source.path.removeprefix("include/")) if source.path.startswith(PUBLIC_HEADERS) else None
    layer = layer_of(source.path)
    if not source.is_cpp or source.is_test or (layer in (None, "index") and not source.path.startswith(PUBLIC_HEADERS)):
        return
    for match in INCLUDE.finditer(source.text):
        other = component_of(match.group(2))
        if other and other != own:
            yield source.finding(match.start(1), "components", f"includes {match.group(2)}, of the component {other}")


def component_of(included: str) -> str | None:
    return next((name for name, begins in COMPONENT_HEADERS.items() if included.startswith(begins)), None)


def layer_fault(layer: str, included: str, is_test: bool) -> str | None:
    first = included.split("/")[0]
    if first == "holdfast" and layer not in ("api", "c_api", "index"):
        return f"{layer} includes <{included}>, which is api, above it"
    if first in LAYERS and LAYERS.index(first) > LAYERS.index(layer):
        return f"{layer} includes {included}, which is above it"
    if first in ("cli", "command_line", "bench", "examples") or (first == "tests" and not is_test):
        return f"{layer} includes {included}, which is no layer"
    return None


def check_folders(source: Source) -> Iterator[Finding]:
    """A folder of a layer includes only itself and those below, and no file of the layer's top. Tests may see all."""
    parts = source.path.split("/")
    is_test = source.is_test or source.path.endswith("_test_support.hpp")
    if not source.is_cpp or is_test or len(parts) < 4 or parts[0] != "src":
        return
    order = FOLDERS.get(parts[1], ())
    if parts[2] not in order:
        return
    for match in INCLUDE.finditer(source.text):
        included = match.group(2)
        layer, _, rest = included.partition("/")
        folder = rest.partition("/")[0]
        is_above = "/" not in rest or (folder in order and order.index(folder) > order.index(parts[2]))
        if layer == parts[1] and is_above:
            message = f"{parts[1]}/{parts[2]} includes {included}, which is above it"
            yield source.finding(match.start(1), "folders", message)


def check_cli11(source: Source) -> Iterator[Finding]:
    """CLI11 costs every file that includes it seconds; command_line/command_line.hpp, a face on it, does not."""
    if not source.is_cpp or source.path.startswith(CLI11_HOME):
        return
    for match in INCLUDE.finditer(source.text):
        if match.group(2).split("/")[0] == "CLI":
            message = f"include {match.group(2)}: use command_line/command_line.hpp, {CLI11_HOME} alone includes CLI11"
            yield Finding(source.path, source.line_of(match.start(1)), "cli11", message)


# --- sizes ----------------------------------------------------------------------------------------------------------

SCOPE = re.compile(r"^\s*(?:inline\s+)?(?:namespace|extern|class|struct|union|enum)\b")
CLASS_TAIL = re.compile(r"\b(?:class|struct|union)\s+[^(){}<>;]*$")  # after `template <...> requires (...)`
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:")


def check_sizes(source: Source) -> Iterator[Finding]:
    """A file fits in the head, a function on a screen or two."""
    count = len(source.lines) - 1
    if source.path.endswith(CODE) and count > MAX_FILE_LINES:
        yield Finding(source.path, 1, "size", f"{count} lines, {MAX_FILE_LINES} are allowed")
    functions: Iterator[tuple[int, int]] = iter(())
    if source.is_cpp:
        functions = cpp_functions(source)
    elif source.path.endswith(".py"):
        functions = python_functions(source)
    for first, last in functions:
        if last - first + 1 > MAX_FUNCTION_LINES:
            message = f"function of {last - first + 1} lines, {MAX_FUNCTION_LINES} are allowed"
            yield Finding(source.path, first, "size", message)


def cpp_functions(source: Source) -> Iterator[tuple[int, int]]:
    """First and last lines of what looks like a function: a block after `(`, in namespaces and classes only."""
    code = blank_matches(DIRECTIVE, source.code)
    open_blocks: list[int] = []  # of scopes -1, of functions their start
    statement = 0
    inside = 0  # braces deep inside a function
    for match in re.finditer(r"[{};]", code):
        position, mark = match.start(), match.group()
        if inside:
            inside += {"{": 1, "}": -1, ";": 0}[mark]
            if inside == 0:
                start = open_blocks.pop()
                yield source.line_of(start), source.line_of(position)
                statement = position + 1
            continue
        if mark == "{":
            head = code[statement:position]
            bare = ACCESS.sub(lambda match: " " * len(match.group()), head)
            if "(" in head and not SCOPE.match(bare) and not CLASS_TAIL.search(bare):
                open_blocks.append(statement + len(bare) - len(bare.lstrip()))
                inside = 1
            else:
                open_blocks.append(-1)
        elif mark == "}" and open_blocks:
            open_blocks.pop()
        statement = position + 1


def python_functions(source: Source) -> Iterator[tuple[int, int]]:
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno or node.lineno


# --- numbered invariants --------------------------------------------------------------------------------------------

NUMBER = re.compile(r"(?<![\w-])([A-Z][A-Z0-9]{1,7})-(\d+)(?![\w-])")
DEFINED_IN_CODE = re.compile(r"^[ \t]*///?[ \t]*([A-Z][A-Z0-9]{1,7}-\d+):", re.MULTILINE)
DEFINED_IN_DOCS = re.compile(r"\*\*([A-Z][A-Z0-9]{1,7}-\d+):?\*\*")


def check_invariants(sources: list[Source]) -> Iterator[Finding]:
    """An invariant is written once (`// EXT-3: ...`, or `**EXT-3**` in docs) and cited by a number that exists."""
    defined: dict[str, tuple[str, int]] = {}
    for source in sources:
        pattern = DEFINED_IN_CODE if source.is_cpp else DEFINED_IN_DOCS
        for match in pattern.finditer(source.text):
            name, line = match.group(1), source.line_of(match.start(1))
            if name in defined:
                path, first = defined[name]
                yield Finding(source.path, line, "invariant", f"{name} is defined in {path}:{first} already")
            else:
                defined[name] = (source.path, line)
    prefixes = KNOWN_PREFIXES | {name.split("-")[0] for name in defined}
    for source in sources:
        for match in NUMBER.finditer(source.text):
            if match.group(1) in prefixes and match.group() not in defined:
                message = f"{match.group()} is cited and defined nowhere"
                yield Finding(source.path, source.line_of(match.start()), "invariant", message)


# --- text -----------------------------------------------------------------------------------------------------------

MACHINE_PATH = re.compile(r"(?<![\w.*/<>{}$-])/(?:home|root|work|Users|mnt/\w+)/[\w.-]+")


def check_machine_paths(source: Source) -> Iterator[Finding]:
    """Nothing names a place on the machine of whoever wrote it."""
    for match in MACHINE_PATH.finditer(source.text):
        message = f"path of one machine: {match.group()}"
        yield Finding(source.path, source.line_of(match.start()), "machine-path", message)


LEANING = re.compile(r"(?:The same|Likewise|As above|Ditto|So too)\b", re.IGNORECASE)


def check_comments(source: Source) -> Iterator[Finding]:
    """A comment is read where it stands, often alone: it does not lean on the one before."""
    if source.path.endswith(CODE) or Path(source.path).name in ("CMakeLists.txt", "Makefile"):
        for position, text in comment_beginnings(source):
            match = LEANING.match(text)
            if match:
                message = f"a comment that begins with {match.group()!r}: say what it is"
                yield source.finding(position, "leaning-comment", message)


# --- mutants --------------------------------------------------------------------------------------------------------

MUTANT_HOME = "src/persist/mutant.hpp"


def check_mutants(sources: list[Source], root: Path) -> Iterator[Finding]:
    """Code says what is done; deliberate mistakes lie in tests/mutants, and each fits the code that it is made of."""
    for source in sources:
        if source.is_cpp and source.path.startswith("src/") and not source.is_test and source.path != MUTANT_HOME:
            for match in re.finditer(r"\bHF_MUTANT\b", source.code):
                message = f"a mutant in the product: put it into {mutants.FOLDER} (tools/mutants.py)"
                yield Finding(source.path, source.line_of(match.start()), "mutants", message)
    for patch, line, message in mutants.woven_files(root)[1]:
        yield Finding(patch, line, "mutants", message)


# --- words ----------------------------------------------------------------------------------------------------------

# One meaning a word (docs/glossary.md). Of `give_back`: space goes to the file system, and `hold`: a block's state.
REFUSED = {
    r"(?:\w+_)?looks?(?:_(?:at|for|into|whether|everywhere)\w*)": "inspect, scan, check or find",
    r"\w*guests?(?:_\w*)?": "participant",
    r"heap_hold|hold_(?:heap|nodes|directory)": "heap_directories: `held` is a state of a block",
    r"fad(?:e|es|ed|ing)(?:_\w*)?": "decay",
    r"(?:is_)?settled?(?:_\w*)?": "what it decides: relist, decide_end, end_prepared",
    r"voided|until_void": "obsolete",
    r"(?:\w+_)?sums?_of_pages|(?:page|own|has|first|fresh|changed|narrow|nonzero|stale|place_of)_sums?": "checksum",
    r"take_back": "reserve_again for space; what is undone has its name, take_back_tables",
    r"run_transaction": "run_commit: a transaction is what a program begins",
}
REFUSED_WORD = re.compile("|".join(rf"(?P<w{i}>\b(?:{word})\b)" for i, word in enumerate(REFUSED)))


def check_words(source: Source) -> Iterator[Finding]:
    """A word that had several meanings, or another than the field's, does not come back."""
    if source.is_cpp and source.path.startswith("src/"):
        for match in REFUSED_WORD.finditer(source.code):
            instead = list(REFUSED.values())[int((match.lastgroup or "w0")[1:])]
            yield Finding(source.path, source.line_of(match.start()), "words", f"{match.group()}: say {instead}")


# --- code -----------------------------------------------------------------------------------------------------------

MEDIA_STRUCT = re.compile(r"\b(?:struct|class|union)\s+(?:\w+\s*\([^)]*\)\s*)?(\w+_on_media)\b[^;{()]*\{")


def check_media_structs(source: Source) -> Iterator[Finding]:
    """What lies on media is declared in one place a layer, where its size and offsets are asserted."""
    if source.is_cpp and not source.path.endswith("_format.hpp"):
        for match in MEDIA_STRUCT.finditer(source.code):
            message = f"{match.group(1)} belongs in a file *_format.hpp"
            yield Finding(source.path, source.line_of(match.start()), "media-struct", message)


HAND_MEMORY = re.compile(
    r"(?<!operator )(?<!\w)new\s+(?!\()[\w:]"  # new T; placement new, new (p) T, is what constructs objects
    r"|(?<!\w)new\s*\(\s*std::nothrow"
    r"|(?<!operator )(?<!= )(?<!=)(?<!\w)delete(?!\w)\s*(?:\[\s*\])?\s*[\w(*]"
    r"|(?<![\w.>])(?:malloc|calloc|realloc)\s*\("
    r"|(?<!\w)std::free\s*\("
)


# Where a constructor is private, make_unique cannot call it: std::unique_ptr<T> owner(new T(...)).
OWNED_AT_ONCE = re.compile(r"\bunique_ptr<[^;{}()]*>[ ]*(?:\w+[ ]*)?\([ ]*new\b")


def check_hand_memory(source: Source) -> Iterator[Finding]:
    """Memory has an owner: containers, unique_ptr, the heap itself."""
    if not source.path.startswith("src/") or not source.is_cpp or source.is_test:
        return
    code = OWNED_AT_ONCE.sub(lambda m: " " * len(m.group()), source.code)
    for match in HAND_MEMORY.finditer(INCLUDE.sub(lambda m: " " * len(m.group()), code)):
        message = f"{match.group().strip()!r}: let an owner do it (RAII)"
        yield Finding(source.path, source.line_of(match.start()), "hand-memory", message)


SLEEP = re.compile(r"(?<!\w)(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")


def check_sleeps(source: Source) -> Iterator[Finding]:
    """A test that waits for time to pass is slow where it is right and wrong where it is quick."""
    if source.is_test and source.path.endswith(CODE):
        for match in SLEEP.finditer(source.code):
            message = "a test sleeps: wait for the event itself"
            yield Finding(source.path, source.line_of(match.start()), "sleep", message)


FORK = re.compile(r"(?<![\w.>])v?fork\s*\(\s*\)")
FORK_HOME = "src/base/process_test_support.hpp"


def check_forks(source: Source) -> Iterator[Finding]:
    """A child that a test forgets goes on, and holds locks; one whose end nobody reads hides a failure."""
    if source.is_test and source.path.endswith((".cpp", ".hpp")) and source.path != FORK_HOME:
        for match in FORK.finditer(source.code):
            message = f"a test forks: use child_process or run_in_child ({FORK_HOME})"
            yield Finding(source.path, source.line_of(match.start()), "fork", message)


def check_text(source: Source) -> Iterator[Finding]:
    """Plain text: no tabs, no trailing space, one newline at the end."""
    for number, line in enumerate(source.lines, 1):
        if "\t" in line and Path(source.path).name != "Makefile":
            yield Finding(source.path, number, "text", "tab")
        if line != line.rstrip():
            yield Finding(source.path, number, "text", "space at the end of the line")
        if source.path.endswith(CODE) and len(line) > MAX_COLUMNS:
            yield Finding(source.path, number, "text", f"{len(line)} columns, {MAX_COLUMNS} are allowed")
    if source.text and (not source.text.endswith("\n") or source.text.endswith("\n\n")):
        yield Finding(source.path, len(source.lines), "text", "the file does not end with one newline")


def check_headers(source: Source) -> Iterator[Finding]:
    """A header may be included twice."""
    if source.path.endswith((".hpp", ".h")) and not re.search(r"^#pragma once$", source.text, re.MULTILINE):
        yield Finding(source.path, 1, "pragma-once", "missing #pragma once")


def check_cmake(source: Source) -> Iterator[Finding]:
    """A test is registered through hf_add_test or hf_register_test, or the suite would not run it."""
    if Path(source.path).name == "CMakeLists.txt" and not source.path.startswith("tests/package/"):
        for match in re.finditer(r"(?<!\w)(?:add_test|gtest_discover_tests)\s*\(", source.text):
            message = "use hf_add_test or hf_register_test (cmake/holdfast_tests.cmake)"
            yield Finding(source.path, source.line_of(match.start()), "cmake", message)


# --- all of it ------------------------------------------------------------------------------------------------------


def lint(root: Path) -> list[Finding]:
    files = list_files(root)
    sources = [Source(root, path) for path in files if is_text(path)]
    # The lint's own files name what they look for.
    others = [source for source in sources if not re.match(r"tools/lint\w*\.py$", source.path)]
    findings: list[Finding] = [*check_invariants(others), *check_class_methods(others)]
    findings += check_class_chains(others)
    findings += check_mutants(others, root)
    for source in sources:
        findings += check_text(source)
        findings += check_sizes(source)
    names = Names(others, files)
    decisions = decisions_of(files)
    for source in others:
        findings += check_layers(source)
        findings += check_components(source)
        findings += check_folders(source)
        findings += check_cli11(source)
        findings += check_identifiers(source, names)
        findings += check_links(source, root)
        findings += check_titles(source, root, decisions)
        findings += check_width(source)
        findings += check_machine_paths(source)
        findings += check_comments(source)
        findings += check_media_structs(source)
        findings += check_hand_memory(source)
        findings += check_sleeps(source)
        findings += check_words(source)
        findings += check_forks(source)
        findings += check_headers(source)
        findings += check_cmake(source)
    lines = {source.path: source.lines for source in sources}
    allowed = [f for f in findings if re.search(rf"lint-allow\({f.rule}\): \S", lines[f.path][f.line - 1])]
    return sorted(set(findings) - set(allowed))


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    findings = lint(root)
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.message}")
    print(f"lint: {len(findings)} findings" if findings else "lint: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
