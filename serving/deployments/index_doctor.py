"""What the doctor makes of the index: where it is, and what searches it."""

from __future__ import annotations

from serving.config import IndexSettings, Settings
from serving.deployments.finding import Finding
from serving.deployments.gpu_doctor import cuvs_of, missing_device
from serving.deployments.gpu_facts import GpuFacts


def examine_index(settings: Settings, facts: GpuFacts) -> Finding:
    """Says how vectors will be searched, and whether that is what was asked for."""
    index = settings.index
    if missing := missing_device("index", index.device, facts):
        return Finding("index", False, missing)
    where = "on the CPU" if index.device == "cpu" else f"on {index.device}"
    every = f"every vector is read, {where}"
    if index.kind == "exact":
        return Finding("index", True, every)
    library, lacking = _lists(index, facts)
    if not lacking:
        text = f"inverted lists of {library}, {where}; few vectors are all read"
        return Finding("index", True, text)
    if index.kind == "ivf":
        return Finding("index", False, f"index.kind is ivf, and {lacking}")
    # On a CPU the library belongs to the service.
    return Finding("index", index.device != "cpu", f"{every}: {lacking}")


def _lists(index: IndexSettings, facts: GpuFacts) -> tuple[str, str]:
    """What makes lists, with its version, and what it lacks to do so; "" for either."""
    if index.device != "cpu":
        return cuvs_of(facts)
    version = facts.versions.get("faiss-cpu")
    return (f"FAISS {version}", "") if version else ("", "faiss-cpu is not installed")
