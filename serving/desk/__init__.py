"""The desk: all parts on one machine, its Ray cluster, and the demo."""
