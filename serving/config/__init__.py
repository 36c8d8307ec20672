"""What is configurable: the settings and the ranking profiles."""
