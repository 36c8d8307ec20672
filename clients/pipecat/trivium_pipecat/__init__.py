"""Trivium as the memory of a Pipecat bot."""

from trivium_pipecat.service import MemoryMetricsData, Outcome, TriviumMemoryService

__all__ = ["MemoryMetricsData", "Outcome", "TriviumMemoryService"]
