"""When to use lists, how many to train, and how many to probe."""
