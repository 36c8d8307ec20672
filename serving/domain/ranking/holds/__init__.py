"""The choice between two statements about one thing by a learned model of pairs."""
