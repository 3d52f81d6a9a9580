"""CPython's own tests of mappings, on dicts in a heap."""

import tempfile

import pytest

import holdfast

mapping_tests = pytest.importorskip(
    "test.mapping_tests", reason="NOT TESTED HERE: this interpreter has no package `test` (libpython3.11-testsuite)"
)


@pytest.fixture(scope="module", autouse=True)
def scratch():
    """A heap in which every new mapping is a dict."""
    with tempfile.TemporaryDirectory() as directory:
        with holdfast.open(directory + "/heap.hf") as heap:
            Mapping.heap = heap
            yield


class Mapping(holdfast.Dict):
    """A dict in the scratch heap, constructed as a dict is."""

    heap = None
    count = 0

    def __init__(self, *arguments, **keywords):
        Mapping.count += 1
        self.heap[Mapping.count] = {}
        self._held = self.heap[Mapping.count]._held
        self.update(*arguments, **keywords)

    def copy(self):
        """A copy in the same heap. That of Dict is a dict of Python, for it has no place in the heap."""
        return type(self)(self)


class TestDict(mapping_tests.TestMappingProtocol):
    """CPython's tests of what dict and UserDict have in common."""

    type2test = Mapping


del mapping_tests  # pytest would collect its abstract classes
