"""PostgreSQL: the truth, the leg of words, and the log that the projections follow."""
