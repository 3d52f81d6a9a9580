#!/usr/bin/env python3
"""Each rule of lint.py, on small trees: what passes, and what does not."""

import tempfile
import unittest
from pathlib import Path

import lint

CLEAN = {
    "README.md": "See [format](docs/format.md) and `src/heap/heap.hpp:1`, `heap/heap.hpp`, `src/*/heap.hpp`.\n",
    "docs/format.md": "EXT-1 is cited here, UTF-8 and SHA-256 are no invariants.\n\n**SB-1**: two copies.\n",
    "src/heap/heap.hpp": '// The face.\n#pragma once\n#include "extent/extent.hpp"\n#include "heap/other.hpp"\n',
    "src/heap/other.hpp": "#pragma once\n",
    "src/extent/extent.hpp": "#pragma once\n// EXT-1: extents tile the space.\n#include <vector>\n",
    "src/api/include/holdfast/manager.hpp": "#pragma once\n#include <holdfast/ptr.hpp>\n",
    "src/api/include/holdfast/ptr.hpp": "#pragma once\n",
    "src/cli/main.cpp": '#include <holdfast/manager.hpp>\n#include "cli/info.hpp"\n',
    "src/cli/info.hpp": "#pragma once\n",
    "src/segment/a_format.hpp": "#pragma once\nstruct header_on_media {\n    int x;\n};\n",
    "Makefile": "all:\n\techo\n",
}


class LintTest(unittest.TestCase):
    def findings(self, changes: dict[str, str]) -> list[lint.Finding]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (CLEAN | changes).items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return lint.lint(Path(folder))

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

    def test_public_headers_and_programs_include_public_headers_only(self) -> None:
        header = "src/api/include/holdfast/x.hpp"
        self.rejects("layers", 2, header, '#pragma once\n#include "base/result.hpp"\n')
        for program in ("src/cli/x.cpp", "bench/x.cpp", "examples/graph/x.cpp"):
            self.rejects("layers", 1, program, '#include "heap/heap.hpp"\n')
            self.accepts(program, '#include <holdfast/ptr.hpp>\n#include "report.hpp"\n')

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
        members = "    int member();\n" * 80
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

    def test_dead_paths_in_documents(self) -> None:
        self.rejects("path", 1, "docs/x.md", "[gone](gone.md)\n")
        self.rejects("path", 1, "docs/x.md", "`src/heap/gone.hpp`\n")
        self.rejects("path", 1, "docs/x.md", "`heap/gone.hpp`\n")
        self.rejects("path", 1, "docs/x.md", "`src/heap/gone*.hpp`\n")
        self.rejects("path", 1, "docs/x.md", "`holdfast/gone.hpp`\n")
        self.accepts("docs/x.md", "[a](https://example.org/x) [b](#top) [c](format.md#sb) `graph.hf/lock` `a/b`\n")
        self.accepts("docs/x.md", "```\n`src/heap/gone.hpp`\n```\n`holdfast/ptr.hpp` `src/<layer>/x.cpp` `src/heap/`\n")

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
                     "std::unique_ptr<a> owner(new a(1));", "return std::unique_ptr<a>(new a);", "int new_size = 1;"):
            self.accepts("src/heap/x.cpp", line + "\n")

    def test_sleeps_in_tests(self) -> None:
        self.rejects("sleep", 1, "src/heap/x_test.cpp", "std::this_thread::sleep_for(1ms);\n")
        self.rejects("sleep", 1, "tests/kill/run.py", "time.sleep(1)\n")
        self.accepts("src/heap/x.cpp", "std::this_thread::sleep_for(1ms);\n")

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
        self.accepts("src/heap/x.cpp", "delete a;  // lint-allow(hand-memory): the C face owns it\n")
        self.rejects("hand-memory", 1, "src/heap/x.cpp", "delete a;  // lint-allow(hand-memory)\n")
        self.rejects("hand-memory", 1, "src/heap/x.cpp", "delete a;  // lint-allow(sleep): wrong rule\n")


if __name__ == "__main__":
    unittest.main()
