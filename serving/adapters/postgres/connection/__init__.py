"""Connections to PostgreSQL: pools, statements, schema migrations, notifications and errors."""
