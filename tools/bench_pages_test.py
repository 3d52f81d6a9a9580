#!/usr/bin/env python3
"""What bench_pages.py accepts and rejects, on small trees with a history."""

import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import bench_pages

ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}
PAGE = f"{bench_pages.PAGES}/store.md"


class BenchPagesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.git("init", "--quiet")
        self.write("src/heap/heap.cpp", "int line;\n" * 100)
        self.write("bench/speed_bench.cpp", "int line;\n" * 100)
        self.measured = self.commit()

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        environment = os.environ | ENVIRONMENT
        return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.git("rev-parse", "--short=8", "HEAD").strip()

    def sentence(self, code: str = "`src/heap`, `bench/speed_bench.cpp`") -> str:
        return f"Measured at {self.measured} by `scripts/bench.sh\nspeed_bench`; code: {code}."

    def older(self, commit: str) -> str:
        return f" These figures are\nolder than the code, of {commit}."

    def check(self, page: str) -> tuple[int, str, str]:
        """The exit status, the table and what is wrong."""
        self.write(PAGE, f"# The store\n\n{page}\n\n| a |\n")
        out, wrong = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
            status = bench_pages.main([str(self.root)])
        return status, out.getvalue(), wrong.getvalue()

    def accepts(self, page: str, row: str) -> None:
        status, table, wrong = self.check(page)
        self.assertEqual((status, wrong), (0, ""))
        self.assertRegex(table, row)

    def rejects(self, page: str, why: str) -> None:
        status, _, wrong = self.check(page)
        self.assertEqual(status, 1)
        self.assertRegex(wrong, f"^{PAGE}: {why}")

    def test_unchanged_code(self) -> None:
        self.commit()
        self.accepts(self.sentence(), rf"{PAGE} +{self.measured[:7]} +0 +0 +200 +0 %\n")

    def test_a_tenth_of_the_lines_may_change(self) -> None:
        self.write("src/heap/heap.cpp", "int line;\n" * 90 + "long line;\n" * 10)
        self.commit()
        self.accepts(self.sentence(), r" 1 +20 +200 +10 %\n")
        self.write("src/heap/heap.cpp", "int line;\n" * 89 + "long line;\n" * 11)
        self.commit()
        self.rejects(self.sentence(), f"11 % of the code has changed since {self.measured}: measure again")

    def test_what_is_not_committed_counts(self) -> None:
        self.write("src/heap/heap.cpp", "long line;\n" * 100)
        self.rejects(self.sentence(), "100 % of the code has changed")

    def test_other_code_and_tests_do_not_count(self) -> None:
        self.write("src/heap/heap_test.cpp", "int line;\n" * 100)
        self.write("src/heap/heap_fuzz.cpp", "int line;\n" * 100)
        self.write("src/slab/slab.cpp", "int line;\n" * 100)
        self.commit()
        self.accepts(self.sentence(), r" 0 +0 +200 +0 %\n")

    def test_a_page_may_say_that_it_is_older(self) -> None:
        self.write("src/heap/heap.cpp", "long line;\n" * 100)
        self.commit()
        self.accepts(self.sentence() + self.older(self.measured), r" 100 %  older\n")
        self.rejects(self.sentence() + self.older("0123abc"), f"measured at {self.measured}, and called older")
        self.rejects(self.sentence() + "\n\n" + self.older(self.measured), "'These figures .* stands in no paragraph")

    def test_a_page_calls_no_new_figures_older(self) -> None:
        self.rejects(self.sentence() + self.older(self.measured), "the code has not changed since")

    def test_each_part_of_a_page_counts(self) -> None:
        self.write("src/slab/slab.cpp", "int line;\n")
        self.commit()
        both = self.sentence("`src/heap`") + "\n\n## Slabs\n\n" + self.sentence("`src/slab`")
        self.rejects(both, "100 % of the code")
        self.rejects(both.replace("\n\n## Slabs\n\n", " "), "two sentences")

    def test_a_page_of_figures_needs_the_sentence(self) -> None:
        self.rejects("Measured yesterday.", "no sentence")
        self.rejects(self.sentence().replace("by `scripts/bench.sh\nspeed_bench`", "by hand"), "no sentence")

    def test_commit_and_code_exist(self) -> None:
        self.rejects(self.sentence("`src/gone`"), "there is no src/gone")
        self.rejects(self.sentence().replace(self.measured, "0123abc"), "0123abc is no commit before this one")

    def test_other_documents_may_have_figures(self) -> None:
        self.write("docs/python.md", self.sentence("`src/gone`") + "\n")
        self.write("docs/hacking.md", "So:\n\n    Measured at 0123abc by `x`; code: `src/gone`.\n")
        status, _, wrong = self.check(self.sentence())
        self.assertEqual((status, wrong), (1, "docs/python.md: there is no src/gone\n"))

    def test_without_a_whole_history_there_is_no_answer(self) -> None:
        self.write(PAGE, self.sentence())
        self.commit()
        with tempfile.TemporaryDirectory() as clone:
            for why in ("no history", "--unshallow"):
                wrong = io.StringIO()
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(wrong):
                    self.assertEqual(bench_pages.main([clone]), 1)
                self.assertIn(why, wrong.getvalue())
                if why == "no history":
                    self.git("clone", "--quiet", "--depth", "1", f"file://{self.root}", clone)


if __name__ == "__main__":
    unittest.main()
