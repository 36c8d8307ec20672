"""Ranking profiles as data: the YAML files beside this module, and a user's own folder."""

from serving.profiles.book import DEFAULT_PROFILE, ProfileBook
from serving.profiles.faults import FieldError

__all__ = ["DEFAULT_PROFILE", "FieldError", "ProfileBook"]
