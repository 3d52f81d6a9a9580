"""What `import holdfast` loads, and what it shows."""

import sys

import pytest

import holdfast
from conftest import run_python


def test_what_few_programs_use_is_loaded_when_it_is_asked_for():
    run_python(
        """
import sys, holdfast
later = {"holdfast._cache", "holdfast._store", "holdfast._vectors", "holdfast._vector_graphs"}
assert not later & set(sys.modules), later & set(sys.modules)
assert set(holdfast.__all__) <= set(dir(holdfast))
assert holdfast.Cache is holdfast.Cache and holdfast.Cache.__name__ == "Cache"
from holdfast import *
assert VectorIndex is holdfast.VectorIndex and Store is holdfast.Store and later <= set(sys.modules)
"""
    )


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Sotre'"):
        holdfast.Sotre
    assert all(getattr(holdfast, name) is not None for name in holdfast.__all__)
    assert holdfast.Match is sys.modules["holdfast._vectors"].Match
