"""The programs that the documents show."""

import os
import pathlib
import re

import pytest

from conftest import run_python

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


def test_the_first_program_of_the_page_runs_twice(tmp_path, monkeypatch):
    if not DOCUMENT.exists():
        pytest.skip("NOT TESTED HERE: the page is not there")
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL).group(1)
    assert len(program.splitlines()) <= 12
    monkeypatch.chdir(tmp_path)
    assert run_python(program).stdout == "Dict({'hello': 1})\n"
    assert run_python(program).stdout == "Dict({'hello': 2})\n"
    assert os.path.isdir("words.hf")


def test_the_program_of_the_store_runs_twice(tmp_path, monkeypatch):
    if not DOCUMENT.exists():
        pytest.skip("NOT TESTED HERE: the page is not there")
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
        ("python-frames", "4.0\n"),
        ("python-vectors", "first en\nsecond de\n"),
    ],
)
def test_the_program_of_a_page_runs_twice(tmp_path, monkeypatch, page, expected):
    document = DOCUMENT.with_name(page + ".md")
    if not document.exists():
        pytest.skip("NOT TESTED HERE: the page is not there")
    if "frames" in page:
        pytest.importorskip("pandas", reason="NOT TESTED HERE: pandas is not installed")
        pytest.importorskip("pyarrow", reason="NOT TESTED HERE: pyarrow is not installed")
    if "vectors" in page:
        pytest.importorskip("usearch", reason="NOT TESTED HERE: usearch is not installed")
    program = re.search(r"```python\n(.*?)```", document.read_text(), re.DOTALL).group(1)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert run_python(program).stdout == expected
