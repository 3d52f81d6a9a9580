#!/usr/bin/env python3
"""Makes src/api/exports.map: what libholdfast.so shows is what its public headers declare and do not define.

    tools/exports.py            writes the list
    tools/exports.py --check    fails where it is not what the headers say (scripts/lint.sh)

Templates and inline functions are defined in each program. Of a class with virtual functions the type information is
shown, too: what is thrown and what is derived from is one type in program and library. tests/package links a program
with each header, and looks that nothing else is visible.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "src/api/exports.map"
HEADERS = "include/holdfast"
OF_THE_STORE = "store"  # its headers, of another library, begin so

# Not declared in a public header, but called by what compilers generate there.
IMPLIED = {
    "holdfast::detail::manager_core::~manager_core()": "by owners of a heap, where a constructor throws",
}

# Only the library calls them: what its C interfaces share, and what is inline in its own headers.
WITHIN_THE_LIBRARY = ("holdfast::c_api::", "holdfast::detail::fast_path_copy::operator->", "holdfast::transaction::end")

# The list of parameters, or [abi:cxx11]. The linker's language has no brackets in patterns.
BEHIND_A_NAME = "[!a-zA-Z0-9_]*"

HEAD = """/* Made by tools/exports.py from the public headers: do not edit.
 *
 * The C interface is stable: its symbols keep their version. The C++ interface has the version of the soname, because
 * its classes may get members with any minor release. */
HOLDFAST_C_0 {
    global:
        hf_*;
    local:
        *;
};

HOLDFAST_CXX_0.1 {
    global:
        extern "C++" {
"""
TAIL = """        };
} HOLDFAST_C_0;
"""

TOKEN = re.compile(r"[A-Za-z_]\w*|::|\.\.\.|->|<=>|<<=|>>=|[-+*/%&|^!=<>]=|&&|\|\||\+\+|--|<<|\d[\w.']*|\S")
CLASS = ("class", "struct", "union")
TYPES = {"auto", "bool", "char", "double", "float", "int", "long", "short", "unsigned", "void"}
NOT_A_NAME = {"alignas", "decltype", "noexcept", "explicit", "requires", "__attribute__", "sizeof", "static_assert"}


def tokens_of(text: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    text = re.sub(r'"(\\.|[^"\\\n])*"', '""', text)
    text = re.sub(r"'(\\.|[^'\\\n])'", "0", text)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.M)
    return TOKEN.findall(text)


def behind(tokens: list[str], at: int, opening: str, closing: str) -> int:
    """The place behind what closes the bracket at `at`."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] == opening) - (tokens[at] == closing)
        at += 1
        if depth == 0:
            break
    return at


def without_decoration(tokens: list[str]) -> tuple[list[str], bool]:
    """Without attributes and `template <...>`; whether there was one."""
    is_template = False
    kept: list[str] = []
    at = 0
    while at < len(tokens):
        if tokens[at] == "[" and tokens[at + 1 : at + 2] == ["["]:
            at = behind(tokens, at, "[", "]")
        elif tokens[at] == "template" and tokens[at + 1 : at + 2] == ["<"]:
            is_template = True
            depth, at = 0, at + 1
            while at < len(tokens):
                if tokens[at] == "(":
                    at = behind(tokens, at, "(", ")")
                    continue
                depth += (tokens[at] == "<") - (tokens[at] == ">")
                at += 1
                if depth == 0:
                    break
        else:
            kept.append(tokens[at])
            at += 1
    return kept, is_template


def function_name(tokens: list[str]) -> str | None:
    """Of a declaration of a function."""
    depth = 0
    for at, token in enumerate(tokens):
        if token == "operator":
            end = at + 1
            if tokens[end : end + 2] == ["(", ")"]:
                end += 2
            while end < len(tokens) and tokens[end] != "(":
                end += 1
            sign = tokens[at + 1 : end]
            spaced = " " if re.match(r"\w", sign[0]) else ""
            return "operator" + spaced + "".join(sign)
        if token == "<" and at > 0 and re.match(r"\w", tokens[at - 1]):
            depth += 1
        elif token == ">" and depth > 0:
            depth -= 1
        elif token == "=" and depth == 0:
            return None
        elif token == "(" and depth == 0:
            name = tokens[at - 1] if at > 0 else ""
            if not re.match(r"[A-Za-z_]\w*$", name) or name in TYPES:
                return None  # a pointer to a function
            if name not in NOT_A_NAME:
                return "~" + name if at > 1 and tokens[at - 2] == "~" else name
            return function_name(tokens[behind(tokens, at, "(", ")") :])
    return None


def pattern(names: tuple[str, ...]) -> str:
    return "::".join(names[:-1]) + "::" + re.sub(r"\W", "?", names[-1]) + BEHIND_A_NAME


class Reader:
    """Reads the declarations of a header."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.symbols: set[str] = set()
        self.defined: set[str] = set()  # behind their classes

    def scope(self, names: tuple[str, ...], hidden: bool) -> None:
        """Up to the bracket that closes it. `hidden`: a template, whose members are defined in each program."""
        statement: list[str] = []
        while self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token == "}":
                self.at += 1
                return
            if token == ";":
                self.at += 1
                self.declaration(statement, names, hidden)
                statement = []
            elif token == ":" and statement in (["public"], ["protected"], ["private"]):
                self.at += 1
                statement = []
            elif token == "(":
                end = behind(self.tokens, self.at, "(", ")")
                statement += self.tokens[self.at : end]
                self.at = end
            elif token == "{":
                statement = self.brace(statement, names, hidden)
            else:
                statement.append(token)
                self.at += 1

    def brace(self, statement: list[str], names: tuple[str, ...], hidden: bool) -> list[str]:
        """What of the statement goes on behind it."""
        plain, is_template = without_decoration(statement)
        words = [word for word in plain if word not in ("inline", "typedef")]
        if words[:1] == ["namespace"]:
            inner = tuple(word for word in words[1:] if word != "::")
            self.at += 1
            self.scope(names + inner, hidden or not inner)
            return []
        if words[:1] == ["extern"]:
            self.at = behind(self.tokens, self.at, "{", "}")  # the C interface
            return []
        if words[:1] and words[0] in CLASS and function_name(words) is None:
            name = self.class_name(words[1:])
            specialised = "<" in words[: words.index(":")] if ":" in words else "<" in words
            self.at += 1
            begin = self.at
            inner_hidden = hidden or is_template or specialised or name is None
            self.scope(names + ((name,) if name else ()), inner_hidden)
            if not inner_hidden and {"virtual", "override"} & set(self.tokens[begin : self.at]):
                for what in ("typeinfo", "typeinfo name", "vtable"):
                    self.symbols.add(f"{what} for " + "::".join(names + (name,)))
            return ["struct"]
        name = function_name(plain)
        is_function = name is not None
        if name in plain and plain[plain.index(name) - 1] == "::":
            of = [word for word in plain[: plain.index(name)] if word != "::"][-1]
            self.defined.add(pattern((*names, of, name)))
        self.at = behind(self.tokens, self.at, "{", "}")
        goes_on = not is_function or self.tokens[self.at : self.at + 1] in ([","], ["{"])
        return statement if goes_on else []

    @staticmethod
    def class_name(words: list[str]) -> str | None:
        at = 0
        while at < len(words):
            if words[at] in ("alignas", "__attribute__"):
                at = behind(words, at + 1, "(", ")")
            else:
                return words[at] if re.match(r"[A-Za-z_]\w*$", words[at]) else None
        return None

    def declaration(self, statement: list[str], names: tuple[str, ...], hidden: bool) -> None:
        plain, is_template = without_decoration(statement)
        skipped = ("using", "typedef", "friend", "static_assert", "enum", "namespace", *CLASS)
        if hidden or is_template or not plain or plain[0] in skipped or names[:1] != ("holdfast",):
            return
        if plain[-2:] in (["=", "default"], ["=", "delete"], ["=", "0"]):
            return
        name = function_name(plain)
        if name is not None:
            if not "::".join((*names, name)).startswith(WITHIN_THE_LIBRARY):
                self.symbols.add(pattern((*names, name)))
        elif plain[0] == "extern":
            self.symbols.add("::".join((*names, plain[-1])))


def exports() -> str:
    symbols: set[str] = set()
    defined: set[str] = set()
    for header in sorted((ROOT / HEADERS).rglob("*.h*")):
        if header.name.startswith(OF_THE_STORE):
            continue
        reader = Reader(tokens_of(header.read_text(encoding="utf-8")))
        reader.scope((), False)
        symbols |= reader.symbols
        defined |= reader.defined
    patterns = (each if each.endswith("*") else f'"{each}"' for each in sorted(symbols - defined | IMPLIED.keys()))
    lines = [f"            {each};\n" for each in patterns]
    return HEAD + "".join(lines) + TAIL


def main() -> int:
    parser = argparse.ArgumentParser(description="the list of what libholdfast.so shows")
    parser.add_argument("--check", action="store_true", help="write nothing, fail where the list is another")
    made = exports()
    if not parser.parse_args().check:
        LIST.write_text(made, encoding="utf-8")
        return 0
    if LIST.read_text(encoding="utf-8") != made:
        print(f"{LIST.relative_to(ROOT)} is not what the public headers declare: run tools/exports.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
