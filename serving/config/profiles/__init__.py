"""Ranking profiles as data: the YAML files in this package, and those of a user's folder."""

from serving.config.profiles.book import DEFAULT_PROFILE, InvalidProfilesError, ProfileBook
from serving.domain.ranking.faults import FieldError

__all__ = ["DEFAULT_PROFILE", "FieldError", "InvalidProfilesError", "ProfileBook"]
