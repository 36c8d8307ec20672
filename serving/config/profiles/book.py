"""The profiles of a service: reading, inheritance, checks and live changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import yaml

from serving.config.profiles.form import ProfileForm, to_form
from serving.domain.ranking.faults import Fault, FieldError
from serving.domain.ranking.profile import Profile
from serving.domain.ranking.reachability import contradictions, faults, notes

logger = logging.getLogger(__name__)

DEFAULT_PROFILE = "default"
SHIPPED = Path(__file__).parent
SUFFIXES = (".yaml", ".yml")
EXTENDS = "extends"
"""The field that names the profile from which unset fields are inherited."""


class InvalidProfilesError(ValueError):
    """Profiles are invalid; `faults` has a line for each fault."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class ProfileBook(Mapping[str, Profile]):
    """Checked profiles by name; immutable.

    They are defined by their fields, in the form of `ProfileForm`, with `extends`; `files` are
    those that they were read from.

    Raises:
        InvalidProfilesError: Profiles are invalid, or have unreachable legs.
    """

    def __init__(
        self, definitions: Mapping[str, Mapping[str, Any]], files: Mapping[str, Path] | None = None
    ) -> None:
        self._definitions = dict(definitions)
        self.files = dict(files or {})
        self._forms: dict[str, ProfileForm] = {}
        self._profiles: dict[str, Profile] = {}
        refused: dict[str, tuple[Fault, ...]] = {}
        for name in self._definitions:
            try:
                self._forms[name] = to_form(self._whole(name, ()))
                self._profiles[name] = _reachable(self._forms[name].to_profile(name))
            except FieldError as error:
                refused[name] = error.faults
        if refused:
            raise InvalidProfilesError([*self._messages(refused)])

    @classmethod
    def load(cls, own_folder: Path | None = None) -> ProfileBook:
        """Reads the shipped profiles and those of a user's folder, which replace them by name.

        A profile of the folder that extends its own name extends the shipped profile.

        Raises:
            ValueError: Files are invalid; the message names them and the fields.
            OSError: The folder or a file cannot be read.
        """
        shipped_files = {path.stem: path for path in _files(SHIPPED)}
        shipped = {name: _read(path) for name, path in shipped_files.items()}
        if own_folder is None:
            return cls(shipped, shipped_files)
        files = {path.stem: path for path in _files(own_folder)}
        own = {name: _read(path) for name, path in files.items()}
        definitions = shipped | {name: _own(name, own[name], shipped) for name in own}
        return cls(definitions, shipped_files | files)

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def definition(self, name: str) -> dict[str, Any]:
        """A profile as JSON-compatible data with all fields; durations are in ISO 8601."""
        return self._forms[name].to_data("json")

    def changed(self, name: str, changes: Mapping[str, Any]) -> Profile:
        """A profile with some fields changed for one call; reachability is not checked.

        Raises:
            KeyError: There is no such profile.
            FieldError: A field is unknown, or its value is invalid.
        """
        if EXTENDS in changes:
            raise FieldError(Fault(EXTENDS, "cannot be changed for a single request"))
        whole = merged(self._forms[name].to_data(), changes)
        return to_form(without_nulls(whole)).to_profile(name)

    def reconfigured(self, changes: Mapping[str, Mapping[str, Any]]) -> ProfileBook:
        """A new book with some profiles changed or added; raises `ValueError` as for a new one."""
        if not isinstance(changes, Mapping):
            raise ValueError(f"profiles must be a mapping by name, got {changes!r}")
        definitions = dict(self._definitions)
        for name, change in changes.items():
            if not isinstance(name, str):
                raise ValueError(f"profile {name!r}: a name must be text; put it in quotes")
            if not isinstance(change, Mapping):
                raise ValueError(f"profile {name!r}: must be a mapping of fields, got {change!r}")
            definitions[name] = merged(definitions.get(name, {}), change)
        return ProfileBook(definitions)

    def log_notes(self) -> None:
        """Logs notes on the profiles, such as a leg that agreement of the others can hide."""
        for name, profile in self._profiles.items():
            for leg, note in notes(profile):
                logger.info("profile warning", extra={"profile": name, "leg": leg, "note": note})

    def _whole(self, name: str, through: tuple[str, ...]) -> Mapping[str, Any]:
        """The definition of a profile with all inherited fields."""
        own = {field: of for field, of in self._definitions[name].items() if field != EXTENDS}
        parent = self._definitions[name].get(EXTENDS)
        if parent is None:
            return without_nulls(own)
        if not isinstance(parent, str) or parent not in self._definitions:
            raise FieldError(Fault(EXTENDS, f"no profile is called {parent!r}"))
        if parent in (*through, name):
            circle = " extends ".join([*through, name, parent])
            raise FieldError(Fault(EXTENDS, f"forms a cycle: {circle}"))
        return without_nulls(merged(self._whole(parent, (*through, name)), own))

    def _messages(self, refused: Mapping[str, Sequence[Fault]]) -> Iterator[str]:
        """One message for each fault; faults that a profile inherits are reported once."""
        for name in sorted(refused):
            parent = self._definitions[name].get(EXTENDS)
            of_another = isinstance(parent, str) and parent != name
            inherited = refused.get(str(parent), ()) if of_another else ()
            where = f" (file {self.files[name]})" if name in self.files else ""
            for fault in refused[name]:
                if fault not in inherited:
                    yield f"profile {name!r}{where}: {fault}"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merges two definitions recursively; fields of `above` override.

    `depth` and `depth_per_limit` override each other.
    """
    whole = dict(below)
    for field, rival in (("depth", "depth_per_limit"), ("depth_per_limit", "depth")):
        if above.get(rival) and field not in above:
            whole.pop(field, None)
    for field, value in above.items():
        if isinstance(value, Mapping) and isinstance(whole.get(field), Mapping):
            whole[field] = merged(whole[field], value)
        else:
            whole[field] = value
    return whole


def without_nulls(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A definition without the legs and signals that are null."""
    return {
        field: {name: each for name, each in of.items() if each is not None}
        if field in ("legs", "signals") and isinstance(of, Mapping)
        else of
        for field, of in whole.items()
    }


def _reachable(profile: Profile) -> Profile:
    """Returns the profile if all its legs are reachable and none crowds out the others."""
    found = [Fault(*each) for each in contradictions(profile)]
    found += [Fault(f"legs.{leg}", why) for leg, why in faults(profile)]
    if found:
        raise FieldError(*found)
    return profile


def _own(
    name: str, definition: Mapping[str, Any], shipped: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """A user's definition, merged with the shipped one if it extends its own name."""
    if name not in shipped or definition.get(EXTENDS) != name:
        return definition
    changes = {field: of for field, of in definition.items() if field != EXTENDS}
    return merged(shipped[name], changes)


def _files(folder: Path) -> list[Path]:
    """The profile files of a folder; raises `ValueError` if two define the same profile."""
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    for earlier, later in pairwise(files):
        if earlier.stem == later.stem:
            raise ValueError(f"profile files {earlier} and {later} define the same profile")
    return files


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"profile file {path} is not valid YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"profile file {path} must contain a mapping of fields")
    return cast(Mapping[str, Any], found)
