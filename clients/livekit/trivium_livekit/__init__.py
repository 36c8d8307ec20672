"""Trivium as the memory of an agent of LiveKit Agents."""

from trivium_livekit.agent import TriviumAgent
from trivium_livekit.memory import TriviumMemory

__all__ = ["TriviumAgent", "TriviumMemory"]
