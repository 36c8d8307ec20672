"""Reports of results: tables, plots, goals, comparisons, baselines."""
