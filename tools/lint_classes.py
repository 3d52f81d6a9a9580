"""The member functions that a class declares, alone and with its bases, and its storeys of inheritance, counted in the
text: comments, literals and directives are blanked."""

import functools
import re
from typing import Iterator, NamedTuple

from lint_source import DIRECTIVE, Finding, Scope, Source, blank_matches

MAX_METHODS = 40
MAX_STOREYS = 3  # of inheritance: the class itself is one
MAX_METHODS_WITH_BASES = 60
FOLDERS = ("src/", "bench/", "examples/")

TOKEN = re.compile(r"\w+|::|->|&&|\|\||<=>|[<>=!]=|<<|\S")
CLASS_KEYS = ("class", "struct", "union")
CLOSING = {"(": ")", "[": "]", "{": "}"}
NO_FUNCTION = {"using", "typedef", "friend", "static_assert", "enum", "namespace"}
IN_PARENTHESES = {"alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__", "sizeof"}
MACRO = re.compile(r"[A-Z][A-Z0-9_]{2,}")  # HF_REQUIRES(mutex) declares nothing

# Older than the rule, each with its present storeys and methods (at least the limits), which only fall.
KNOWN_CHAINS = {
    "holdfast::compat::interprocess::detail::refused_segment": (4, 72),
    "holdfast::compat::interprocess::managed_mapped_file": (3, 71),
    "holdfast::manager": (3, 151),
}


class ClassMethods(NamedTuple):
    name: str  # of a nested class: outer::inner
    position: int
    methods: int


def check_class_methods(sources: list[Source]) -> Iterator[Finding]:
    """A class of more than 40 member functions is several concepts."""
    for source in sources:
        for found in classes_of(source):
            if found.methods > MAX_METHODS:
                message = f"{found.name} has {found.methods} member functions, {MAX_METHODS} are allowed"
                yield source.finding(found.position, "class-methods", message)


def check_class_chains(sources: list[Source], known: dict[str, tuple[int, int]] | None = None) -> Iterator[Finding]:
    """Who reads a class reads its bases: inheritance is no way to cut a large class into files."""
    known = KNOWN_CHAINS if known is None else known
    classes = Chains(sources)
    for name, declared in classes.declared.items():
        storeys = classes.storeys_of(name)
        if storeys == 1:
            continue  # class-methods has it
        methods = classes.methods_of(name)
        most_storeys, most_methods = known.get(name, (MAX_STOREYS, MAX_METHODS_WITH_BASES))
        if storeys > most_storeys:
            message = f"{name} has {storeys} storeys of inheritance, {most_storeys} are allowed"
            yield declared.source.finding(declared.scope.head, "class-chain", message)
        if methods > most_methods:
            message = f"{name} has {methods} member functions with its bases, {most_methods} are allowed"
            yield declared.source.finding(declared.scope.head, "class-chain", message)
        now = max(storeys, MAX_STOREYS), max(methods, MAX_METHODS_WITH_BASES)
        if now != (most_storeys, most_methods) and storeys <= most_storeys and methods <= most_methods:
            message = f"{name} has become better than KNOWN_CHAINS says: {now} now"
            yield declared.source.finding(declared.scope.head, "class-chain", message)


class Declared(NamedTuple):
    source: Source
    scope: Scope
    within: str  # the namespaces and classes around it


class Chains:
    """The classes of a tree by their full names, and what they have with their bases. Bases that the tree does not
    define (those of the standard library, parameters of templates) count nothing."""

    def __init__(self, sources: list[Source]) -> None:
        self.declared: dict[str, Declared] = {}
        for source in sources:
            if source.is_cpp and source.path.startswith(FOLDERS):
                self.add(source)

    def add(self, source: Source) -> None:
        enclosing: list[Scope] = []
        for scope in source.scopes:
            while enclosing and enclosing[-1].end < scope.begin:
                enclosing.pop()
            within = "::".join(outer.name for outer in enclosing if outer.name)
            if scope.kind in CLASS_KEYS and scope.name:
                name = f"{within}::{scope.name}" if within else scope.name
                self.declared.setdefault(name, Declared(source, scope, within))
            enclosing.append(scope)

    def bases_of(self, name: str) -> list[str]:
        declared = self.declared[name]
        found = (self.find(base, declared.within) for base in bases_in(declared.scope.bases))
        return [base for base in found if base not in ("", name)]

    def find(self, name: str, within: str) -> str:
        """As the compiler looks names up: in the innermost scope first. Empty where there is none."""
        while True:
            full = f"{within}::{name}" if within else name
            if full in self.declared:
                return full
            if not within:
                return ""
            within = within.rpartition("::")[0]

    @functools.cache
    def storeys_of(self, name: str) -> int:
        return 1 + max((self.storeys_of(base) for base in self.bases_of(name)), default=0)

    def methods_of(self, name: str) -> int:
        """Those of a base that comes by two ways count once."""
        return sum(self.own_methods_of(each) for each in {name, *self.all_bases_of(name)})

    def all_bases_of(self, name: str) -> Iterator[str]:
        for base in self.bases_of(name):
            yield base
            yield from self.all_bases_of(base)

    @functools.cache
    def own_methods_of(self, name: str) -> int:
        source, scope = self.declared[name].source, self.declared[name].scope
        return count_methods(blank_matches(DIRECTIVE, source.code[scope.begin + 1 : scope.end]))


def bases_in(text: str) -> list[str]:
    """The names in `: public a, b<c, d>`, without template arguments."""
    parenthesized = re.compile(r"\([^()]*\)")
    while parenthesized.search(text):
        text = parenthesized.sub("", text)
    arguments = re.compile(r"<[^<>]*>")
    while arguments.search(text):
        text = arguments.sub("", text)
    names = (re.sub(r"\b(?:public|private|protected|virtual|typename)\b", "", part) for part in text[1:].split(","))
    return [name.strip().removeprefix("::") for name in names if name.strip()]


def classes_of(source: Source) -> Iterator[ClassMethods]:
    """The classes that may exceed the limit, each with the number of its member functions."""
    if not source.is_cpp or not source.path.startswith(FOLDERS):
        return
    code = ""
    enclosing: list[Scope] = []
    for scope in source.scopes:
        while enclosing and enclosing[-1].end < scope.begin:
            enclosing.pop()
        if scope.kind not in CLASS_KEYS:
            continue
        enclosing.append(scope)
        name = "::".join(outer.name or "(unnamed)" for outer in enclosing)
        # Each declares itself with a parenthesis: most classes need no closer look.
        if source.code.count("(", scope.begin, scope.end) > MAX_METHODS:
            code = code or blank_matches(DIRECTIVE, source.code)
            yield ClassMethods(name, scope.head, count_methods(code[scope.begin + 1 : scope.end]))


def count_methods(body: str) -> int:
    tokens = TOKEN.findall(body)
    count = position = 0
    while position < len(tokens):
        position, head = next_member(tokens, position)
        count += declares_function(head)
    return count


def next_member(tokens: list[str], position: int) -> tuple[int, list[str]]:
    """The declaration that begins at `position`, without what its braces hold, and the position after it."""
    head: list[str] = []
    while position < len(tokens):
        token = tokens[position]
        if token == ";":
            return position + 1, head
        if token == ":" and head and head[-1] in ("public", "private", "protected"):
            return position + 1, []
        if token == "{":
            position = after_group(tokens, position)
            if ends_with_body(head):
                return position, head
            head.append("{}")
        elif token in CLOSING:
            end = after_group(tokens, position)
            head += [token, *tokens[position + 1 : end - 1], CLOSING[token]]
            position = end
        else:
            head.append(token)
            position += 1
    return position, head


def after_group(tokens: list[str], position: int) -> int:
    """The position after the group that opens at `position`."""
    opening, closing = tokens[position], CLOSING[tokens[position]]
    depth = 0
    while position < len(tokens):
        depth += (tokens[position] == opening) - (tokens[position] == closing)
        position += 1
        if depth == 0:
            break
    return position


def ends_with_body(head: list[str]) -> bool:
    """A brace after `head` opens the body of a function, and neither a class, an initializer nor an expression."""
    outline = without_groups(head)
    if not declares_function(head) and not ("friend" in outline and "()" in outline):
        return False
    if outline[-1] == "requires" or outline[-2:] == ["requires", "()"] and outline[-3] in ("requires", "&&", "||"):
        return False  # of a requires expression
    parameters = max(index for index, token in enumerate(outline) if token == "()")
    first = outline.index("()")
    if ":" in outline[first : parameters + 1] or ":" in outline[parameters:]:
        return outline[-1] in ("()", "{}")  # `member{value}` in the list of a constructor follows a name
    return True


def without_groups(tokens: list[str]) -> list[str]:
    """`tokens` with `()` in place of each group in parentheses, and no attributes and template arguments."""
    found: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token in ("(", "["):
            position = after_group(tokens, position)
            found += ["()"] if token == "(" else []
            continue
        if token == "<" and found and (found[-1] == "template" or is_name(found[-1])) and found[-1] != "operator":
            position = after_angles(tokens, position)
            continue
        found.append(token)
        position += 1
    return found


def after_angles(tokens: list[str], position: int) -> int:
    """The position after the template arguments that open at `position`; after `<` where it compares."""
    depth, at = 0, position
    while at < len(tokens):
        token = tokens[at]
        if token in ("(", "["):
            at = after_group(tokens, at)
            continue
        depth += (token == "<") - (token == ">")
        at += 1
        if depth == 0:
            return at
    return position + 1


def is_name(token: str) -> bool:
    return token[0].isalpha() or token[0] == "_"


def declares_function(head: list[str]) -> bool:
    outline = without_groups(head)
    if NO_FUNCTION & set(outline):
        return False
    if "operator" in outline:
        return True
    bare: list[str] = []
    for token in outline:
        if token == "()" and bare and (bare[-1] in IN_PARENTHESES or MACRO.fullmatch(bare[-1])):
            bare.pop()  # with what stands in the parentheses
        else:
            bare.append(token)
    for index, token in enumerate(bare):
        if token == "=":
            return False
        if token == "()" and index and is_name(bare[index - 1]):
            return not points_to_function(head)
    return False


def points_to_function(head: list[str]) -> bool:
    """`int (*member)(int)` is data."""
    text = " ".join(head)
    return re.match(r"(?:\w+ |:: |< |> |\* |& |, )*\( (?:\w+ :: )*[*&] \w+ (?:\[ .*\] )?\) \(", text) is not None
