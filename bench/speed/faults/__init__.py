"""Calls while a store is slow, hung, unreachable or killed."""
