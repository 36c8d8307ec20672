"""PostgreSQL: the source of truth, the leg of words, and the log that the projections follow."""
