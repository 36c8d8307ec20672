"""Commands for operators, which need the stores and not the service."""
