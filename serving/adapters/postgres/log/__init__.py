"""The change log, the projections that read it, and the rows they dead-lettered."""
