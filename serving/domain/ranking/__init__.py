"""Ranking: ranked lists, fusion, priors, diversity, profiles, the ledger."""
