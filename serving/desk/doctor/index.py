"""The check of the vector index: its device and its search library."""

from __future__ import annotations

from serving.config.settings import Settings
from serving.desk.doctor.check_result import CheckResult
from serving.desk.doctor.gpu import cuvs_of, missing_device
from serving.desk.doctor.gpu_facts import GpuFacts


def examine_index(settings: Settings, facts: GpuFacts) -> CheckResult:
    """Says how vectors will be searched, and whether that satisfies the settings."""
    index = settings.index
    if missing := missing_device("index", index.device, facts):
        return CheckResult("index", False, missing)
    where = "on the CPU" if index.device == "cpu" else f"on {index.device}"
    every = f"every vector is read, {where}"
    if index.kind == "exact":
        return CheckResult("index", True, every)
    library, lacking = ("", "") if index.device == "cpu" else cuvs_of(facts)
    if not lacking:
        lists = f"inverted lists of {library}" if library else "inverted lists"
        return CheckResult("index", True, f"{lists}, {where}; few vectors are all read")
    if index.kind == "ivf":
        return CheckResult("index", False, f"index.kind is ivf, and {lacking}")
    return CheckResult("index", True, f"{every}: {lacking}")
