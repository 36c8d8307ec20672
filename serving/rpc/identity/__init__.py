"""Callers and their rights: credentials, and the rule of each RPC."""
