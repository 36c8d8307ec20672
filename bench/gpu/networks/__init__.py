"""The networks that are measured, and their inputs."""
