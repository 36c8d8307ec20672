"""Configuration: the settings and the ranking profiles."""
