"""Commands for operators, which need PostgreSQL and not the service."""
