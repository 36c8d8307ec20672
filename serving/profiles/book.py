"""The profiles that a service has: read, inherited, checked, and changed live."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from serving.domain.profile import Profile
from serving.domain.reachability import faults, notes
from serving.profiles.form import FieldError, ProfileForm, to_form

logger = logging.getLogger(__name__)

DEFAULT_PROFILE = "default"
SHIPPED = Path(__file__).parent
EXTENDS = "extends"
"""The field by which a profile takes over all of another that it does not say itself."""


class ProfileBook(Mapping[str, Profile]):
    """Profiles by name, each checked; a change makes another book, or none.

    Args:
        definitions: What each profile says itself, by name, in the form of `ProfileForm` and
            with `extends`.

    Raises:
        ValueError: A profile is malformed, or cannot be heard; names it and the field's path.
    """

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]]) -> None:
        self._definitions = dict(definitions)
        self._forms: dict[str, ProfileForm] = {}
        self._profiles: dict[str, Profile] = {}
        for name in sorted(self._definitions):
            try:
                self._forms[name] = to_form(self._whole(name, ()))
                self._profiles[name] = _heard(self._forms[name].to_profile(name))
            except FieldError as error:
                raise ValueError(f"profile {name!r}: {error}") from None

    @classmethod
    def load(cls, own_folder: Path | None = None) -> ProfileBook:
        """Reads the shipped profiles and those of a user's folder, which win.

        Raises:
            ValueError: A file is malformed; the message names it and the field.
            OSError: The folder cannot be read.
        """
        definitions: dict[str, Mapping[str, Any]] = {}
        for folder in [SHIPPED, *([own_folder] if own_folder else [])]:
            for path in sorted(folder.glob("*.yaml")):
                definitions[path.stem] = _read(path)
        return cls(definitions)

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def definition(self, name: str) -> dict[str, Any]:
        """A profile as data of JSON's types, with every field; durations as ISO 8601 has them."""
        return self._forms[name].model_dump(mode="json")

    def changed(self, name: str, changes: Mapping[str, Any]) -> Profile:
        """A profile with some fields changed for one call, which may silence a leg on purpose.

        Raises:
            KeyError: There is no such profile.
            FieldError: A field is unknown, or its value not as it must be.
        """
        if EXTENDS in changes:
            raise FieldError(EXTENDS, "is for profiles that are kept")
        whole = self._forms[name].model_dump()
        return to_form(merged(whole, changes)).to_profile(name)

    def reconfigured(self, changes: Mapping[str, Mapping[str, Any]]) -> ProfileBook:
        """The book with some profiles changed or added; this one stays as it is.

        Raises:
            ValueError: A profile would be malformed, or could not be heard.
        """
        definitions = dict(self._definitions)
        for name, change in changes.items():
            if not isinstance(change, Mapping):
                raise ValueError(f"profile {name!r}: must be a mapping of fields")
            definitions[name] = merged(definitions.get(name, {}), change)
        return ProfileBook(definitions)

    def log_notes(self) -> None:
        """Logs what is worth knowing of the profiles, such as which leg agreement can silence."""
        for name, profile in self._profiles.items():
            for leg, note in notes(profile):
                logger.info("a leg of a profile", extra={"profile": name, "leg": leg, "note": note})

    def _whole(self, name: str, through: tuple[str, ...]) -> Mapping[str, Any]:
        """A profile's definition with all that it inherits."""
        own = self._definitions[name]
        parent = own.get(EXTENDS)
        if parent is None:
            return {field: value for field, value in own.items() if field != EXTENDS}
        if parent not in self._definitions:
            raise FieldError(EXTENDS, f"no profile is called {parent!r}")
        if parent in (*through, name):
            circle = " extends ".join([*through, name, parent])
            raise FieldError(EXTENDS, f"goes in a circle: {circle}")
        return merged(
            self._whole(parent, (*through, name)),
            {field: value for field, value in own.items() if field != EXTENDS},
        )


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lays one definition over another, field by field; a leg or signal of None is left out."""
    whole = dict(below)
    for field, value in above.items():
        if isinstance(value, Mapping) and isinstance(whole.get(field), Mapping):
            whole[field] = merged(whole[field], value)
        else:
            whole[field] = value
    for field in ("legs", "signals"):
        if isinstance(whole.get(field), Mapping):
            whole[field] = {name: of for name, of in whole[field].items() if of is not None}
    return whole


def _heard(profile: Profile) -> Profile:
    """The profile, if each of its legs can be heard and none drowns out all others."""
    for leg, why in faults(profile):
        raise FieldError(f"legs.{leg}", why)
    return profile


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"profile file {path} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"profile file {path} must hold a mapping of fields")
    return cast(Mapping[str, Any], found)
