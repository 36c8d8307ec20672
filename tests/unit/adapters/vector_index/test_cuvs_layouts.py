"""The adapter's declarations of cuVS' C API, compared with the table of its headers."""

from __future__ import annotations

import ctypes
from ctypes import POINTER
from typing import Any

import pytest

from serving.adapters.vector_index.lists import cuvs_c
from tests.support.cuvs_layouts import VERSIONS, read_table

TABLE = read_table()

STRUCTS: dict[str, Any] = {
    "DLDevice": cuvs_c.DLDevice,
    "DLDataType": cuvs_c.DLDataType,
    "DLTensor": cuvs_c.DLTensor,
    "DLManagedTensor": cuvs_c.DLManagedTensor,
    "cuvsFilter": cuvs_c.Filter,
    "cuvsIvfFlatIndexParams": cuvs_c.IndexParams,
    "cuvsIvfFlatSearchParams": cuvs_c.SearchParams,
    "cuvsIvfFlatIndex": cuvs_c.Index,
}

ENUMERATORS = {
    "CUVS_SUCCESS": cuvs_c.SUCCESS,
    "InnerProduct": cuvs_c.INNER_PRODUCT,
    "NO_FILTER": cuvs_c.NO_FILTER,
    "BITSET": cuvs_c.BITSET,
    "kDLCPU": cuvs_c.DL_CPU,
    "kDLCUDA": cuvs_c.DL_CUDA,
    "kDLInt": cuvs_c.DL_INT,
    "kDLUInt": cuvs_c.DL_UNSIGNED,
    "kDLFloat": cuvs_c.DL_FLOAT,
}

TYPES: dict[str, Any] = {
    "int": ctypes.c_int,
    "_Bool": ctypes.c_bool,
    "size_t": ctypes.c_size_t,
    "const char*": ctypes.c_char_p,
    "void*": ctypes.c_void_p,
    "void**": POINTER(ctypes.c_void_p),
    "int64_t*": POINTER(ctypes.c_int64),
    "cudaStream_t": ctypes.c_void_p,
    "cudaStream_t*": POINTER(ctypes.c_void_p),
    "cuvsResources_t": ctypes.c_size_t,
    "cuvsResources_t*": POINTER(ctypes.c_size_t),
    "cuvsFilter": cuvs_c.Filter,
    "DLManagedTensor*": POINTER(cuvs_c.DLManagedTensor),
    "cuvsIvfFlatIndex_t": POINTER(cuvs_c.Index),
    "cuvsIvfFlatIndex_t*": POINTER(POINTER(cuvs_c.Index)),
    "cuvsIvfFlatIndexParams_t": POINTER(cuvs_c.IndexParams),
    "cuvsIvfFlatIndexParams_t*": POINTER(POINTER(cuvs_c.IndexParams)),
    "cuvsIvfFlatSearchParams_t": POINTER(cuvs_c.SearchParams),
    "cuvsIvfFlatSearchParams_t*": POINTER(POINTER(cuvs_c.SearchParams)),
}

VERSION = pytest.mark.parametrize("version", TABLE)


def laid_out(struct: Any) -> dict[str, Any]:
    """The type as the table writes it."""
    fields = {name: getattr(struct, name) for name, _ in struct._fields_}
    return {
        "size": ctypes.sizeof(struct),
        "fields": {name: [its.offset, its.size] for name, its in fields.items()},
    }


def test_the_versions_that_are_accepted_are_those_of_the_table() -> None:
    accepted = [".".join(map(str, version)) for version in cuvs_c.KNOWN_VERSIONS]

    assert accepted == list(TABLE) == [version.removesuffix(".0") for version in VERSIONS]


@VERSION
def test_structs_are_laid_out_as_in_the_headers(version: str) -> None:
    assert {name: laid_out(struct) for name, struct in STRUCTS.items()} == TABLE[version]["structs"]


@VERSION
def test_enumerators_are_those_of_the_headers(version: str) -> None:
    assert ENUMERATORS.items() <= TABLE[version]["enumerators"].items()


@VERSION
def test_functions_take_what_the_headers_say(version: str) -> None:
    declared = TABLE[version]["functions"]

    for name, arguments in cuvs_c.SIGNATURES.items():
        assert (name, arguments) == (name, tuple(TYPES[each] for each in declared[name]))
