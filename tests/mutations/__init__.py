"""Proof that tests guard what they claim to: each mutant removes a guard, and a test must fail.

`tests/mutations.toml` lists the mutants; `python -m tests.mutations` applies them one at a time
in a copy of the tree and runs their tests there.
"""
