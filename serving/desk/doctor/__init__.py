"""The doctor: what this machine has, and what the service would use for each part."""
