"""Trivium as a store of LangGraph."""

from trivium_langgraph.store import TriviumStore

__all__ = ["TriviumStore"]
