"""Reads layouts, enumerators and signatures of cuVS' C API out of its headers, into a table.

    .venv/bin/python -m tests.support.cuvs_layouts            # downloads two wheels of 0.25 GB
    .venv/bin/python -m tests.support.cuvs_layouts --wheels FOLDER

A C program that is compiled against the headers prints sizes and offsets, for each version apart.
`tests/unit/adapters/vector_index/test_cuvs_layouts.py` compares what the adapter has written down,
and `tests/fakes/lists/cuvs.py` reads its arguments by the table. Needs gcc; no CUDA and no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch

TABLE = Path(__file__).with_suffix(".json")

VERSIONS = ("26.6.0", "26.10.0")

STRUCTS = {
    "DLDevice": ("device_type", "device_id"),
    "DLDataType": ("code", "bits", "lanes"),
    "DLTensor": ("data", "device", "ndim", "dtype", "shape", "strides", "byte_offset"),
    "DLManagedTensor": ("dl_tensor", "manager_ctx", "deleter"),
    "cuvsFilter": ("addr", "type"),
    "struct cuvsIvfFlatIndexParams": (
        "metric",
        "metric_arg",
        "add_data_on_build",
        "n_lists",
        "kmeans_n_iters",
        "kmeans_trainset_fraction",
        "adaptive_centers",
        "conservative_memory_allocation",
    ),
    "struct cuvsIvfFlatSearchParams": ("n_probes",),
    "cuvsIvfFlatIndex": ("addr", "dtype"),
}

ENUMERATORS = (
    *("CUVS_ERROR", "CUVS_SUCCESS", "InnerProduct", "NO_FILTER", "BITSET"),
    *("kDLCPU", "kDLCUDA", "kDLInt", "kDLUInt", "kDLFloat"),
)

HEADERS = "#include <cuvs/core/c_api.h>\n#include <cuvs/neighbors/ivf_flat.h>\n"

CUDA_RUNTIME = "#pragma once\n#include <stddef.h>\ntypedef struct CUstream_st* cudaStream_t;\n"
"""All that the headers use of CUDA's."""


def read_table() -> dict[str, Any]:
    """By version, such as "26.10": `structs`, `enumerators` and `functions`."""
    table: dict[str, Any] = json.loads(TABLE.read_text())
    return table


def table_of(headers: Path) -> dict[str, Any]:
    """What the headers in a folder say."""
    return {**_printed(headers), "functions": _functions(headers)}


def _printed(headers: Path) -> dict[str, Any]:
    """Sizes, offsets and enumerators, as a compiled program prints them."""
    source, program = headers / "print.c", headers / "print"
    source.write_text(_program())
    subprocess.run(["gcc", f"-I{headers}", "-o", program, source], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    made: dict[str, Any] = {"structs": {}, "enumerators": {}}
    for line in printed.splitlines():
        kind, name, field, *numbers = line.split("\t")
        if kind == "enumerator":
            made["enumerators"][name] = int(numbers[0])
        elif kind == "struct":
            made["structs"][name] = {"size": int(numbers[0]), "fields": {}}
        else:
            made["structs"][name]["fields"][field] = [int(number) for number in numbers]
    return made


def _program() -> str:
    lines = []
    for name, fields in STRUCTS.items():
        short = name.removeprefix("struct ")
        lines.append(f'printf("struct\\t{short}\\t\\t%zu\\n", sizeof({name}));')
        lines += [
            f'printf("field\\t{short}\\t{field}\\t%zu\\t%zu\\n", '
            f"offsetof({name}, {field}), sizeof((({name}*)0)->{field}));"
            for field in fields
        ]
    lines += [f'printf("enumerator\\t{each}\\t\\t%d\\n", (int){each});' for each in ENUMERATORS]
    body = "\n".join(lines)
    return f"#include <stdio.h>\n#include <stddef.h>\n{HEADERS}int main(void) {{\n{body}\n}}\n"


def _functions(headers: Path) -> dict[str, list[str]]:
    """The types of each function's parameters."""
    command = ["gcc", "-E", "-P", f"-I{headers}", "-"]
    text = subprocess.run(command, input=HEADERS, check=True, capture_output=True, text=True).stdout
    declared = re.findall(r"cuvsError_t\s+(cuvs\w+)\s*\(([^)]*)\)\s*;", text)
    return {
        name: [_type(each) for each in listed.split(",") if each]
        for name, listed in sorted(declared)
    }


def _type(parameter: str) -> str:
    """`cuvsResources_t*` of `cuvsResources_t* res`."""
    words = re.sub(r"\s*\*", "* ", parameter).split()
    return " ".join(words[:-1]).replace("* *", "**")


def _unpack(wheel: Path, folder: Path) -> Path:
    """The headers of a wheel, with those of others that they include."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("libcuvs/include/") and name.endswith(".h"):
                archive.extract(name, folder)
    headers = folder / "libcuvs" / "include"
    (headers / "cuda_runtime.h").write_text(CUDA_RUNTIME)
    (headers / "dlpack").mkdir()
    dlpack = Path(torch.__file__).parent / "include" / "ATen" / "dlpack.h"
    shutil.copy(dlpack, headers / "dlpack" / "dlpack.h")
    return headers


def _downloaded(version: str, folder: Path) -> None:
    """Downloads a wheel, without what it depends on."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    subprocess.run([*command, "--dest", folder, f"libcuvs-cu13=={version}"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--wheels", type=Path, help="a folder that holds the wheels")
    wheels = parser.parse_args().wheels
    table = {}
    with tempfile.TemporaryDirectory() as temporary:
        for version in VERSIONS:
            folder = Path(temporary, version)
            folder.mkdir()
            if wheels is None:
                _downloaded(version, folder)
            [wheel] = (wheels or folder).glob(f"**/libcuvs_cu13-{version}-*.whl")
            table[version.rpartition(".")[0]] = table_of(_unpack(wheel, folder))
    TABLE.write_text(_written(table))


def _written(table: dict[str, Any]) -> str:
    """As JSON, a line for each field and each function."""
    return (
        re.sub(r"\[[^\]]*\]", lambda found: " ".join(found[0].split()), json.dumps(table, indent=1))
        + "\n"
    )


if __name__ == "__main__":
    main()
