"""Trivium as the memory of a Pipecat bot."""

from trivium_pipecat.service import MemoryMetricsData, StoreOutcome, TriviumMemoryService

__all__ = ["MemoryMetricsData", "StoreOutcome", "TriviumMemoryService"]
