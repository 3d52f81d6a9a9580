"""The programs that the documents show."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

import holdfast
from conftest import run_python

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_the_first_program_of_the_page_runs_twice(tmp_path, monkeypatch):
    if not DOCUMENT.parent.is_dir():
        pytest.skip("NOT TESTED HERE: the pages are not there")
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL).group(1)
    assert len(program.splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    assert run_python(program).stdout == "Dict({'hello': 1})\n"
    assert run_python(program).stdout == "Dict({'hello': 2})\n"
    assert os.path.isdir("words.hf")


def test_the_program_of_the_store_runs_twice(tmp_path, monkeypatch):
    if not DOCUMENT.parent.is_dir():
        pytest.skip("NOT TESTED HERE: the pages are not there")
    programs = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (program,) = (each for each in programs if "holdfast.Store(" in each)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run_python("import holdfast\n" + program).stdout == "b'pears' b'7'\nb'plums' b'12'\n"


@pytest.mark.parametrize(
    "page,expected",
    [
        ("python-asyncio", "90 10\n"),
        ("python-cache", "499500 hello\n"),
        ("python-devices", "(1080, 1920)\n"),
        ("python-frames", "4.0\n"),
        ("python-processes", "200\n"),
        ("python-vectors", "first en\nsecond de\n"),
    ],
)
def test_the_program_of_a_page_runs_twice(tmp_path, monkeypatch, page, expected):
    document = DOCUMENT.with_name(page + ".md")
    if not document.parent.is_dir():
        pytest.skip("NOT TESTED HERE: the pages are not there")
    if "frames" in page:
        pytest.importorskip("pandas", reason="NOT TESTED HERE: pandas is not installed")
        pytest.importorskip("pyarrow", reason="NOT TESTED HERE: pyarrow is not installed")
    if "vectors" in page:
        pytest.importorskip("usearch", reason="NOT TESTED HERE: usearch is not installed")
    program = re.search(r"```python\n(.*?)```", document.read_text(), re.DOTALL).group(1)
    monkeypatch.chdir(tmp_path)
    pathlib.Path("page.py").write_text(program)  # processes that it starts import it
    for _ in range(2):
        done = subprocess.run([sys.executable, "page.py"], capture_output=True, text=True, timeout=60, env=os.environ)
        assert done.stdout == expected, done.stderr


def test_the_application_of_web_workers_counts(tmp_path, monkeypatch):
    if not DOCUMENT.parent.is_dir():
        pytest.skip("NOT TESTED HERE: the pages are not there")
    page = DOCUMENT.with_name("python-processes.md").read_text()
    (program,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "environ" in each)
    monkeypatch.chdir(tmp_path)
    code = program + """
for count in (1, 2):
    assert application({"PATH_INFO": "/x"}, print) == [f"/x: {count}\\n".encode()]
child = os.fork()
if child == 0:
    os._exit(application({"PATH_INFO": "/x"}, print) != [b"/x: 3\\n"])
assert os.waitpid(child, 0)[1] == 0
assert application({"PATH_INFO": "/x"}, print) == [b"/x: 4\\n"]
"""
    run_python(code)


def test_completion_shows_what_a_heap_can_do(path):
    """dir() asks __class__, which says dict: shells and notebooks showed the methods of a dict alone."""
    with holdfast.open(path) as heap:
        heap["d"], heap["l"] = {}, []
        assert {"array", "commit", "defrag", "path", "transaction", "keys"} <= set(dir(heap))
        assert {"append", "resize", "to_python", "keys"} <= set(dir(heap["d"]))
        assert {"append", "to_python"} <= set(dir(heap["l"]))
        assert heap.defrag()["given_back"] >= 0


def test_a_store_that_is_opened_as_a_heap_says_what_opens_it(tmp_path):
    place = str(tmp_path / "words.store")
    holdfast.Store(place).close()
    with pytest.raises(holdfast.CorruptError, match=r"it is a store: holdfast\.Store\("):
        holdfast.open(place)
