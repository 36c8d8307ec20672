"""Trivium as the memory of a Pipecat bot."""

from trivium_pipecat.service import MemoryMetricsData, TriviumMemoryService

__all__ = ["MemoryMetricsData", "TriviumMemoryService"]
