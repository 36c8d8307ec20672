"""The check of the vector index: its device and its search library."""

from __future__ import annotations

from serving.config.settings import IndexSettings, Settings
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
    library, lacking = _lists(index, facts)
    if not lacking:
        text = f"inverted lists of {library}, {where}; few vectors are all read"
        return CheckResult("index", True, text)
    if index.kind == "ivf":
        return CheckResult("index", False, f"index.kind is ivf, and {lacking}")
    # On a CPU the library is a requirement of the service.
    return CheckResult("index", index.device != "cpu", f"{every}: {lacking}")


def _lists(index: IndexSettings, facts: GpuFacts) -> tuple[str, str]:
    """The library that builds lists, with its version, and why it cannot; "" if not applicable."""
    if index.device != "cpu":
        return cuvs_of(facts)
    version = facts.versions.get("faiss-cpu")
    return (f"FAISS {version}", "") if version else ("", "faiss-cpu is not installed")
