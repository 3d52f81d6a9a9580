#!/usr/bin/env python3
"""Each rule of lint.py, on small trees: what passes, and what does not."""

import tempfile
import unittest
from pathlib import Path

import lint
import lint_classes
import lint_source
import mutants

CLEAN = {
    "README.md": "See [format](docs/format.md) and `src/heap/heap.hpp:1`, `heap/heap.hpp`, `src/*/heap.hpp`.\n",
    "docs/format.md": "# The format\n\nEXT-1 is cited, UTF-8 and SHA-256 are no invariants.\n\n**SB-1**: two copies.\n",
    "docs/decisions/0003-keys.md": "# 3. Keys\n",
    "src/heap/heap.hpp": '// The face.\n#pragma once\n#include "extent/extent.hpp"\n#include "heap/other.hpp"\n',
    "src/heap/other.hpp": "#pragma once\n",
    "src/extent/extent.hpp": "#pragma once\n// EXT-1: extents tile the space.\n#include <vector>\n",
    "include/holdfast/manager.hpp": "#pragma once\n#include <holdfast/ptr.hpp>\n",
    "include/holdfast/ptr.hpp": "#pragma once\n",
    "src/cli/main.cpp": '#include <holdfast/manager.hpp>\n#include "cli/info.hpp"\n',
    "src/cli/info.hpp": "#pragma once\n",
    "src/segment/a_format.hpp": "#pragma once\nstruct header_on_media {\n    int x;\n};\n",
    "Makefile": "all:\n\techo\n",
}

STORE = {
    "src/base/x.hpp": (
        "#pragma once\n// gone_name GONE\nnamespace store {\nenum class mode { read_only };\n"
        "struct base {\n    void inherited();\n};\nclass box : public base {\n    int held_items() const;\n};\n"
        '#define HF_KEPT 1\n}  // namespace store\nauto plain = "a_field of a report";\n'
    ),
    "src/cli/main.cpp": '#include <holdfast/manager.hpp>\nauto a = add("info", "--kept");\n',
}

# For count_methods(): each of the first declares one member function, none of the second does.
METHODS = [
    "box();",
    "~box() override;",
    "explicit box(int a) noexcept : a_(a), b_{a}, c_({1}) {}",
    "box() : base<T>{1}, a_{[] { return 1; }()} { g(); }",
    "box(const box&) = delete;",
    "box& operator=(box&&) noexcept = default;",
    "explicit operator bool() const noexcept { return true; }",
    "bool operator()() const;",
    "bool operator<(const box& other) const;",
    "auto operator<=>(const box&) const = default;",
    "static void* operator new(std::size_t) = delete;",
    "static int f(int a = g(), std::span<int> b = {});",
    "[[nodiscard]] HF_HOT virtual int f() const = 0;",
    "int f() HF_REQUIRES(mutex_);",
    "auto f() -> std::vector<int> { return {}; }",
    "template <class T, int N = (1 > 0)> void f(T (&a)[N]);",
    "template <class T> requires(sizeof(T) > 1) && std::integral<T> void f(T);",
    "template <class T> requires requires(T t) { t.g(); } void f(T t) { t.g(); }",
    "int f() const requires(!is_void) { return 1; }",
    "int f() const requires requires { g(); } { return 1; }",
    "decltype(auto) f() noexcept(noexcept(g())) { if (a) { g(); } }",
    "HF_API alignas(8) explicit(true) box(int);",
    "struct stat f(int a) { struct local { void g(); }; }",
    "public: void f() {}",
    "std::array<int, 2> f(int (*each)(int));",
]
NO_METHODS = [
    "int a;",
    "int a = g(1), b{2};",
    "int a HF_GUARDED_BY(mutex_) = 1;",
    "alignas(64) std::atomic<int> a{};",
    "std::function<void(int)> a = [](int b) { g(b); };",
    "void (*a)(int) = nullptr;",
    "int (box::*a)(int);",
    "const char* (*a_[2])();",
    "unsigned a : 3;",
    "static constexpr bool a = (1 < 2);",
    "static constexpr std::size_t a = sizeof(int), b[] = {g(), 2};",
    "using f = void (*)(int);",
    "using base::operator=;",
    "typedef void f(int);",
    "friend class other;",
    "friend bool operator==(const box&, const box&) { return true; }",
    "template <class T> friend void swap(T& a, T& b) noexcept;",
    "static_assert(sizeof(int) == 4, text());",
    "enum class in : int { a = g(1), b };",
    "class in;",
    "struct alignas(8) HF_API(1) in : base<int(int)> { void g(); } a;",
    "template <class T> requires(sizeof(T) > 1) struct in { void g(); };",
    "union { int a; };",
    "struct { bool operator()() const { return true; } } a;",
    "private:",
    "decltype(g()) a;",
]


class LintTest(unittest.TestCase):
    root: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        for name, text in CLEAN.items():
            cls.write(name, text)

    @classmethod
    def write(cls, name: str, text: str) -> None:
        path = cls.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def findings(self, changes: dict[str, str]) -> list[lint.Finding]:
        """Of the clean tree with `changes`, which are undone."""
        try:
            for name, text in changes.items():
                self.write(name, text)
            return lint.lint(self.root)
        finally:
            for name in changes:
                if name in CLEAN:
                    self.write(name, CLEAN[name])
                else:
                    (self.root / name).unlink()

    def accepts(self, path: str, text: str) -> None:
        self.assertEqual(self.findings({path: text}), [])

    def rejects(self, rule: str, line: int, path: str, text: str) -> None:
        found = [(f.path, f.line, f.rule) for f in self.findings({path: text})]
        self.assertEqual(found, [(path, line, rule)])

    def test_clean_tree_passes(self) -> None:
        self.assertEqual(self.findings({}), [])

    def test_layer_includes_downwards_only(self) -> None:
        self.rejects("layers", 1, "src/extent/x.cpp", '#include "heap/heap.hpp"\n')
        self.rejects("layers", 1, "src/heap/x.cpp", "#include <holdfast/manager.hpp>\n")
        self.rejects("layers", 2, "src/heap/x.cpp", '\n#include "../extent/extent.hpp"\n')
        self.rejects("layers", 1, "src/heap/x.cpp", '#include "tests/simulator/storage.hpp"\n')
        self.accepts("src/heap/x_test.cpp", '#include "tests/simulator/storage.hpp"\n')
        self.accepts("src/api/x.cpp", '#include "heap/heap.hpp"\n#include <holdfast/ptr.hpp>\n')

    def test_folder_includes_downwards_only(self) -> None:
        self.rejects("folders", 1, "src/slab/pool/x.cpp", '#include "slab/supply/x.hpp"\n')
        self.rejects("folders", 1, "src/slab/pool/x.cpp", '#include "slab/slab.hpp"\n')
        self.accepts("src/slab/supply/x.cpp", '#include "slab/pool/x.hpp"\n#include "extent/extent.hpp"\n')
        self.accepts("src/slab/pool/x_test.cpp", '#include "slab/supply/x.hpp"\n#include "slab/slab.hpp"\n')
        self.accepts("src/slab/pool/x_test_support.hpp", '#pragma once\n#include "slab/slab.hpp"\n')
        self.accepts("src/slab/slab.cpp", '#include "slab/calls/x.hpp"\n')

    def test_public_headers_and_programs_include_public_headers_only(self) -> None:
        header = "include/holdfast/x.hpp"
        self.rejects("layers", 2, header, '#pragma once\n#include "base/result.hpp"\n')
        for program in ("src/cli/x.cpp", "bench/x.cpp", "examples/graph/x.cpp"):
            self.rejects("layers", 1, program, '#include "heap/heap.hpp"\n')
            self.accepts(program, '#include <holdfast/ptr.hpp>\n#include "report.hpp"\n')

    def test_the_core_does_not_know_the_components(self) -> None:
        for path in ("include/holdfast/x.hpp", "src/api/x.hpp", "src/c_api/x.hpp"):
            self.rejects("components", 2, path, "#pragma once\n#include <holdfast/ordered_index.hpp>\n")
            self.rejects("components", 2, path, "#pragma once\n#include <holdfast/store.hpp>\n")
        self.rejects("components", 2, "include/holdfast/index/x.hpp", "#pragma once\n#include <holdfast/store.hpp>\n")
        self.accepts("include/holdfast/ordered_index.hpp", "#pragma once\n#include <holdfast/index/x.hpp>\n")
        self.accepts("src/index/x.cpp", "#include <holdfast/hash_index.hpp>\n#include <holdfast/ptr.hpp>\n")

    def test_the_face_of_the_command_line_is_no_layer(self) -> None:
        self.rejects("layers", 1, "src/heap/x.cpp", '#include "command_line/command_line.hpp"\n')
        self.rejects("layers", 1, "src/command_line/x.cpp", '#include "base/result.hpp"\n')
        self.accepts("src/cli/x.cpp", '#include "command_line/command_line.hpp"\n')

    def test_one_directory_includes_cli11(self) -> None:
        text = "#include <string>\n#include <CLI/CLI.hpp>\n"
        for path in ("src/cli/x.cpp", "bench/x.cpp", "examples/graph/x.cpp", "tests/x/x.cpp", "src/heap/x.cpp"):
            self.rejects("cli11", 2, path, text)
        self.rejects("cli11", 1, "bench/x.cpp", "#include <CLI/App.hpp>\n")
        self.accepts("src/command_line/x.cpp", text)

    def test_file_size(self) -> None:
        self.accepts("src/base/x.cpp", "int a;\n" * 600)
        self.rejects("size", 1, "src/base/x.cpp", "int a;\n" * 601)
        self.accepts("docs/long.md", "word\n" * 700)

    def test_function_size(self) -> None:
        body = "    work();\n"
        self.accepts("src/base/x.cpp", "namespace a {\nvoid f() {\n" + body * 68 + "}\n}\n")
        self.rejects("size", 2, "src/base/x.cpp", "namespace a {\nvoid f() {\n" + body * 69 + "}\n}\n")
        self.rejects("size", 3, "src/base/x.cpp", "class a {\npublic:\n    void f() {\n" + body * 69 + "}\n};\n")
        self.rejects("size", 1, "src/base/x_test.cpp", "TEST(a, b) {\n" + body * 69 + "}\n")
        self.rejects("size", 1, "tools/x.py", "def f():\n" + "    pass\n" * 70)

    def test_a_class_is_no_function(self) -> None:
        members = "    int member;\n" * 80
        constrained = "template <class T>\n    requires(sizeof(T) > 1)\nstruct a {"
        for head in ("class a {", "struct alignas(64) a {", constrained):
            self.accepts("src/base/x.hpp", "#pragma once\n" + head + "\n" + members + "};\n")

    def test_braces_in_comments_and_literals_do_not_count(self) -> None:
        body = "    work(\"{\", '{', R\"({)\", 1'000'000);  // {\n"
        self.accepts("src/base/x.cpp", ("void f() {\n" + body * 20 + "}\n") * 5)

    def test_cited_invariant_is_defined(self) -> None:
        self.rejects("invariant", 1, "src/extent/x.cpp", "// keeps EXT-7\n")
        self.rejects("invariant", 1, "src/slab/x.cpp", 'fail("SLAB-1");\n')
        self.accepts("src/slab/x.cpp", "// SLAB-1: text\n// keeps SLAB-1, EXT-1, SB-1\n")

    def test_new_prefix_is_registered_by_its_first_definition(self) -> None:
        self.accepts("src/heap/x.cpp", "// see COM-2\n")
        self.rejects("invariant", 2, "src/heap/x.cpp", "// COM-1: text\n// see COM-2\n")

    def test_invariant_is_defined_once(self) -> None:
        self.rejects("invariant", 1, "src/heap/x.cpp", "// EXT-1: again\n")
        self.rejects("invariant", 2, "src/heap/x.cpp", "// HEAP-1: text\n// HEAP-1: again\n")

    def test_paths_in_documents_exist(self) -> None:
        rule = "document-identifier"
        for path in ("src/heap/gone.hpp", "heap/gone.hpp", "src/heap/gone*.hpp", "holdfast/gone.hpp", "gone.hpp:12",
                     "<holdfast/gone.hpp>", "src/gone/", "tests/gone", "gone/heap.hpp"):
            self.rejects(rule, 1, "docs/x.md", f"`{path}`\n")
        for path in ("holdfast/ptr.hpp", "<holdfast/ptr.hpp>", "ptr.hpp", "src/heap/", "heap.hpp:12", "docs/form*.md",
                     "graph.hf/lock", "a/b", "/dev/shm", "src/<layer>/x.cpp", "x_test.cpp", "<boost/map.hpp>"):
            self.accepts("docs/x.md", f"`{path}`\n")
        self.accepts("docs/x.md", "```\n`src/heap/gone.hpp`\n```\n")
        self.accepts("CHANGELOG.md", "`src/heap/gone.hpp` `gone_name`\n")

    def test_identifiers_in_documents_exist(self) -> None:
        for name in ("held_items", "held_items()", "box::held_items", "store::box", "mode::read_only", "a_field",
                     "box::inherited()", "box::held_items(a, b)", "HF_KEPT", "--kept", "held_*", "x.held_items()",
                     "std::gone_name", "--benchmark_filter=x", "plain", "Gone", "MAP_GONE", "a - gone",
                     "held_<what>", "mdb_gone", " "):
            self.assertEqual(self.findings(STORE | {"docs/x.md": f"`{name}`\n"}), [], name)
        for name in ("gone_name", "gone()", "plain()", "box::gone", "gone::box", "store::mode::held_items", "HF_GONE",
                     "base::held_items", "HOLDFAST_GONE", "--gone", "gone_*", "x.gone_name()", "read_only | gone_name",
                     "gone_<what>"):
            found = self.findings(STORE | {"docs/x.md": f"a\n\nof `{name}`\n"})
            self.assertEqual({(f.path, f.line, f.rule) for f in found}, {("docs/x.md", 3, "document-identifier")}, name)

    def test_commands_in_documents_exist(self) -> None:
        for text in ("`make all`", "`make all PREFIX=/usr`", "`make -j all`", "`holdfast info x.hf`", "we make it",
                     "`holdfast --kept`", "    make all\n    holdfast info x.hf"):
            self.assertEqual(self.findings(STORE | {"docs/x.md": text + "\n"}), [], text)
        for text in ("`make gone`", "`make all gone`", "`holdfast gone x`", "`build/holdfast gone`", "    make gone"):
            self.rejects("document-identifier", 1, "docs/x.md", text + "\n")

    def test_links_in_documents_lead_to_files_and_headings(self) -> None:
        for link in ("gone.md", "gone.png", "#gone", "format.md#gone", "format.md#the-format-1"):
            self.rejects("document-link", 4, "docs/x.md", f"# Top\n\n[a\nlink]({link})\n")
        self.rejects("document-link", 1, "docs/x.md", "[gone]: gone.md\n")
        self.rejects("document-link", 1, "CHANGELOG.md", "[gone](gone.md)\n")
        page = '# Top of `all`/sorts\n\n## [Top](#named) of allsorts\n\n<a id="named"></a>\n'
        for link in ("https://example.org/x#y", "#top-of-allsorts", "#top-of-allsorts-1", "#named", "../docs",
                     "format.md#the-format", "../src/heap/heap.hpp#L3", "decisions/0003-keys.md"):
            self.accepts("docs/x.md", f"{page}[x]({link})\n")
        self.accepts("docs/x.md", "```\n[a](gone.md)\n```\n`[](auto)` `[a](b)`\n")

    def test_code_refers_to_documents_that_exist(self) -> None:
        for text in ("// DESIGN section 4\n", "// docs/gone.md\n", "// see gone.md.\n", "// decision 4\n",
                     '// docs/format.md, section "gone"\n', "// docs/decisions/0004\n", "// docs/decisions/0004-x.md\n",
                     '// docs/format.md,\n// "gone"\n'):
            self.rejects("document-title", 1, "src/heap/x.cpp", text)
        self.rejects("document-title", 1, "tests/x/run.sh", "# docs/gone.md\n")
        self.rejects("document-title", 1, "docs/x.md", "As decision 4 says.\n")
        self.rejects("document-title", 2, "docs/x.md", "\nDESIGN, section 4\n")
        for text in ('// docs/format.md, section "the format": x\n', '// docs/format.md,\n// section "The format"\n',
                     "// docs/decisions/0003, docs/decisions/0003-keys.md\n", "// a decision of 4 threads\n",
                     "// decision 3\n", "// docs/format.md, format.md\n", "// <x>.md, *.md\n"):
            self.accepts("src/heap/x.cpp", text)

    def test_width_of_documents(self) -> None:
        wide = "word " * 24 + "w"
        self.accepts("docs/x.md", wide[1:] + "\n")
        self.rejects("markdown-width", 2, "docs/x.md", "\n" + wide + "\n")
        self.rejects("markdown-width", 1, "CHANGELOG.md", "- " + wide + "\n")
        self.accepts("docs/x.md", f"| {wide} |\n\n```\n{wide}\n```\n\n- {'w' * 130}\n")
        self.accepts("third_party/x/x.md", wide + " `gone_name` [x](gone.md)\n")

    def test_a_comment_stands_alone(self) -> None:
        for text in ("/// The same, typed.\n", "int a;  // as above\n", "/* Likewise. */\n", "int a;\n\n// So too.\n"):
            self.rejects("leaning-comment", text.count("\n"), "src/heap/x.cpp", text)
        self.rejects("leaning-comment", 2, "tests/x/CMakeLists.txt", "\n# The same.\n")
        self.rejects("leaning-comment", 2, "tools/x.py", 'def f():\n    """Ditto."""\n')
        for text in ("// Opens it.\n// The same path may be open.\n", 'auto a = "// The same";\n', "// Thesame.\n",
                     "// Both have the same.\n"):
            self.accepts("src/heap/x.cpp", text)
        self.accepts("tests/x/run.sh", "# Opens it.\n# The same path may be open.\n")

    def test_methods_of_a_class(self) -> None:
        head = "#pragma once\nclass box {\npublic:\n"
        self.accepts("src/heap/x.hpp", head + "    void f();\n" * 40 + "    int data;\n};\n")
        self.rejects("class-methods", 2, "src/heap/x.hpp", head + "    void f();\n" * 41 + "};\n")
        self.rejects("class-methods", 3, "src/heap/x.hpp",
                     "#pragma once\nstruct outer {\nclass HF_API [[nodiscard]] box final : base<(1 > 0)> {\n"
                     + "    void f();\n" * 41 + "};\n    void g();\n};\n")
        self.accepts("tests/x/x.hpp", head + "    void f();\n" * 41 + "};\n")
        nested = "    class in {\n" + "    void f();\n" * 40 + "    };\n"
        self.accepts("src/heap/x.hpp", head + nested + "    int g();\n};\n")

    def test_bases_of_a_class(self) -> None:
        def chain(*methods: int) -> str:
            """Each class is the base of the next, in another namespace."""
            text, base = "#pragma once\n", ""
            for number, count in enumerate(methods):
                text += f"namespace n::m{number} {{\ntemplate <class T>\nclass c{number}{base} {{\n"
                text += "    void f();\n" * count + "};\n}\n"
                base = f" : protected m{number}::c{number}<T, (1 > 0)>, std::vector<T>"
            return text

        self.accepts("src/heap/x.hpp", chain(20, 20, 20))
        self.rejects("class-chain", 54, "src/heap/x.hpp", chain(20, 20, 21))
        self.rejects("class-chain", 22, "src/heap/x.hpp", chain(1, 1, 1, 1))
        twice = "struct b : a {};\nstruct c : a {};\nstruct d : b, c {};\n"
        self.accepts("src/heap/x.hpp", "#pragma once\nstruct a {\n" + "    void f();\n" * 35 + "};\n" + twice)
        self.accepts("tests/x/x.hpp", chain(1, 1, 1, 1))

    def test_known_chains_only_fall(self) -> None:
        def found(storeys: int, methods: int) -> int:
            text = "struct a {};\nstruct b : a {};\nstruct c : b {};\nstruct d : c {};\n"
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "src/heap/x.hpp"
                path.parent.mkdir(parents=True)
                path.write_text(text)
                source = lint_source.Source(Path(folder), "src/heap/x.hpp")
                return len(list(lint_classes.check_class_chains([source], {"d": (storeys, methods)})))

        self.assertEqual(found(4, 60), 0)
        self.assertEqual(found(3, 60), 1)  # has grown
        self.assertEqual(found(5, 60), 1)  # could be less
        self.assertEqual(found(4, 61), 1)

    def test_what_is_a_method(self) -> None:
        for member in METHODS:
            self.assertEqual(lint_classes.count_methods(member + "\n"), 1, member)
        for member in NO_METHODS:
            self.assertEqual(lint_classes.count_methods(member + "\n"), 0, member)
        self.assertEqual(lint_classes.count_methods("\n".join(METHODS + NO_METHODS)), len(METHODS))

    def test_machine_paths(self) -> None:
        self.rejects("machine-path", 1, "docs/x.md", "in /home/somebody/heap\n")
        self.rejects("machine-path", 1, "src/heap/x.cpp", "// /root/heap\n")
        self.accepts("docs/x.md", "in /tmp/graph.hf, /proc/self, build/work/x\n")

    def test_media_structs_live_in_format_headers(self) -> None:
        text = "#pragma once\nstruct alignas(8) header_on_media {\n};\n"
        self.rejects("media-struct", 2, "src/heap/x.hpp", text)
        self.accepts("src/heap/x_format.hpp", text)
        self.accepts("src/heap/x.hpp", "#pragma once\nstruct header_on_media;\nvoid f(header_on_media& h);\n")

    def test_memory_by_hand(self) -> None:
        for line in ("auto* a = new int;", "auto* a = new (std::nothrow) int;", "delete a;", "delete[] a;",
                     "void* a = malloc(1);", "void* a = std::malloc(1);", "std::free(a);"):
            self.rejects("hand-memory", 1, "src/heap/x.cpp", line + "\n")
            self.accepts("tests/x/x.cpp", line + "\n")
        for line in ("#include <new>", "::new (place) T;", "a(const a&) = delete;", "void operator delete(void* p);",
                     "void* operator new(unsigned long);", "heap.free(a);", "// a new block",
                     "std::unique_ptr<a> owner(new a(1));", "return std::unique_ptr<a>(new a);", "int new_size = 1;",
                     "class deleter {};"):
            self.accepts("src/heap/x.cpp", line + "\n")

    def test_mutants_lie_beside_the_product(self) -> None:
        self.rejects("mutants", 1, "src/heap/x.cpp", 'if (HF_MUTANT("a.b")) {}\n')
        self.accepts("src/heap/x_test.cpp", 'static_cast<void>(HF_MUTANT("a.b"));\n')
        self.accepts("src/heap/x.cpp", "// as HF_MUTANT does\n")

    def test_a_mutant_fits_one_place(self) -> None:
        def patch(*lines: str) -> str:
            return "What is here is a comment.\n--- src/heap/other.hpp\n@@ a.b\n" + "\n".join(lines) + "\n"

        fits = patch(" #pragma once", '+static_assert(!HF_MUTANT("a.b"));')
        self.accepts("tests/mutants/heap.patch", fits)
        self.accepts("tests/mutants/heap.patch", patch("-#pragma once"))
        self.rejects("mutants", 3, "tests/mutants/heap.patch", patch("-#pragma twice"))
        self.rejects("mutants", 3, "tests/mutants/heap.patch", patch("+int a;"))
        self.rejects("mutants", 4, "tests/mutants/heap.patch", patch("?#pragma once"))
        self.rejects("mutants", 3, "tests/mutants/heap.patch", fits.replace("other.hpp", "none.hpp"))

    def test_what_mutants_are_put_in(self) -> None:
        def woven(text: str, *hunks: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[str, int]:
            given = [mutants.Hunk("x.patch", 1, "src/x.cpp", found, put) for found, put in hunks]
            made, misfits = mutants.weave(text, given)
            return made.removeprefix(mutants.INCLUDE + "\n"), len(misfits)

        text = "a\n\nb\nc\nb\n"
        self.assertEqual(woven(text, (("c", "b"), ("c", "x", "y"))), ("a\n\nb\nc\nx\ny\n", 0))
        self.assertEqual(woven(text, (("a", ""), ("a", "b")), (("b", "c"), ("c",))), ("a\nb\nc\nb\n", 0))
        self.assertEqual(woven(text, (("b",), ("x",)))[1], 1)  # two places
        self.assertEqual(woven(text, (("", "b"), ("x",)), (("b", "c"), ("y",)))[1], 1)  # they overlap

    def test_hunks_that_are_taken_make_the_copy_again(self) -> None:
        clean = "b\n\na\nb\nc\nb\n\nd\n"
        for mutated in ("b\n\na\nx\nb\nc\nb\n\nd\n", "b\n\na\nb\nc\n\nd\n", "x\n\na\nb\nc\ny\n\n\nz\n", clean):
            made = [line for hunk in mutants.taken(clean.split("\n"), mutated.split("\n")) for line in hunk]
            hunks = list(mutants.hunks_of("x.patch", "\n".join(["--- src/x.cpp", *made])))
            self.assertEqual(mutants.weave(clean, hunks), (f"{mutants.INCLUDE}\n{mutated}", []))

    def test_refused_words(self) -> None:
        for word in ("look_at", "fade_some", "is_settled", "heap_guests", "heap_hold", "own_sum", "voided"):
            self.rejects("words", 1, "src/heap/x.cpp", f"int {word};\n")
            self.accepts("src/heap/x.cpp", f"// {word}\n")
        for word in ("look_up", "take_back_tables", "hold", "sum", "unsettled", "void f()", "give_back"):
            self.accepts("src/heap/x.cpp", f"{word};\n")

    def test_hunks_of_empty_lines_are_left_out(self) -> None:
        self.assertFalse(mutants.changes_code(["@@", " a", "+", " b"]))
        self.assertTrue(mutants.changes_code(["@@", " a", "+x", " b"]))

    def test_sleeps_in_tests(self) -> None:
        self.rejects("sleep", 1, "src/heap/x_test.cpp", "std::this_thread::sleep_for(1ms);\n")
        self.rejects("sleep", 1, "tests/kill/run.py", "time.sleep(1)\n")
        self.accepts("src/heap/x.cpp", "std::this_thread::sleep_for(1ms);\n")

    def test_forks_in_tests(self) -> None:
        self.rejects("fork", 1, "src/heap/x_test.cpp", "const pid_t child = ::fork();\n")
        self.rejects("fork", 2, "tests/kill/x.hpp", "#pragma once\nint child = fork();\n")
        self.accepts("src/heap/x.cpp", "const pid_t child = ::fork();\n")
        self.accepts("tests/kill/x.cpp", "// after fork()\nheap.fork();\nprepare_fork();\n")

    def test_plain_text(self) -> None:
        self.rejects("text", 1, "src/heap/x.cpp", "\tint a;\n")
        self.rejects("text", 1, "docs/x.md", "word \n")
        self.rejects("text", 1, "docs/x.md", "word\r\n")
        self.rejects("text", 1, "docs/x.md", "word")
        self.rejects("text", 1, "src/heap/x.cpp", "// " + "x" * 118 + "\n")

    def test_header_guard(self) -> None:
        self.rejects("pragma-once", 1, "src/heap/x.hpp", "int a;\n")

    def test_tests_are_registered_with_the_suite(self) -> None:
        self.rejects("cmake", 1, "tests/x/CMakeLists.txt", "add_test(NAME x COMMAND x)\n")
        self.accepts("tests/x/CMakeLists.txt", "hf_add_test(x SOURCES x.cpp)\n")

    def test_a_finding_can_be_allowed_with_a_reason(self) -> None:
        self.accepts("src/heap/x.cpp", "delete a;  // lint-allow(hand-memory): the C API owns it\n")
        self.rejects("hand-memory", 1, "src/heap/x.cpp", "delete a;  // lint-allow(hand-memory)\n")
        self.rejects("hand-memory", 1, "src/heap/x.cpp", "delete a;  // lint-allow(sleep): wrong rule\n")


if __name__ == "__main__":
    unittest.main()
