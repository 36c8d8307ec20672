"""Reads: listing what is stored, the timeline, and the access log."""
