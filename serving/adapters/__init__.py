"""The ports on real technology, one technology each; none imports another."""
