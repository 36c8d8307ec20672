"""The Trivium service; `ARCHITECTURE.md` is the map."""
