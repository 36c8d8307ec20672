"""The profiles that a service has: read, inherited, checked, and changed live."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import yaml

from serving.domain.profile import Profile
from serving.domain.reachability import contradictions, faults, notes
from serving.profiles.faults import Fault, FieldError
from serving.profiles.form import ProfileForm, to_form

logger = logging.getLogger(__name__)

DEFAULT_PROFILE = "default"
SHIPPED = Path(__file__).parent
SUFFIXES = (".yaml", ".yml")
EXTENDS = "extends"
"""The field by which a profile takes over all of another that it does not say itself."""


class ProfileBook(Mapping[str, Profile]):
    """Profiles by name, each checked; a change makes another book, or none.

    Args:
        definitions: What each profile says itself, by name, in the form of `ProfileForm` and
            with `extends`.
        files: Where those were read that come from a file, to be named in what is refused.

    Raises:
        ValueError: Profiles are malformed, or cannot be heard; names each and the fields' paths.
    """

    def __init__(
        self,
        definitions: Mapping[str, Mapping[str, Any]],
        files: Mapping[str, Path] | None = None,
    ) -> None:
        self._definitions = dict(definitions)
        self._forms: dict[str, ProfileForm] = {}
        self._profiles: dict[str, Profile] = {}
        refused: dict[str, tuple[Fault, ...]] = {}
        for name in self._definitions:
            try:
                self._forms[name] = to_form(self._whole(name, ()))
                self._profiles[name] = _heard(self._forms[name].to_profile(name))
            except FieldError as error:
                refused[name] = error.faults
        if refused:
            raise ValueError("; ".join(self._told(refused, files or {})))

    @classmethod
    def load(cls, own_folder: Path | None = None) -> ProfileBook:
        """Reads the shipped profiles and those of a user's folder, which win.

        One of the folder that extends its own name extends the shipped profile of that name.

        Raises:
            ValueError: Files are malformed; the message names them and the fields.
            OSError: The folder, or a file of it, cannot be read.
        """
        shipped = {path.stem: _read(path) for path in _files(SHIPPED)}
        if own_folder is None:
            return cls(shipped)
        files = {path.stem: path for path in _files(own_folder)}
        own = {name: _read(path) for name, path in files.items()}
        return cls(shipped | {name: _own(name, own[name], shipped) for name in own}, files)

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def definition(self, name: str) -> dict[str, Any]:
        """A profile as data of JSON's types, with every field; durations as ISO 8601 has them."""
        return self._forms[name].to_data("json")

    def changed(self, name: str, changes: Mapping[str, Any]) -> Profile:
        """A profile with some fields changed for one call, which may silence a leg on purpose.

        Raises:
            KeyError: There is no such profile.
            FieldError: A field is unknown, or its value not as it must be.
        """
        if EXTENDS in changes:
            raise FieldError(Fault(EXTENDS, "is for profiles that are kept"))
        whole = merged(self._forms[name].to_data(), changes)
        return to_form(without_nulls(whole)).to_profile(name)

    def reconfigured(self, changes: Mapping[str, Mapping[str, Any]]) -> ProfileBook:
        """The book with some profiles changed or added; this one stays as it is.

        Raises:
            ValueError: Profiles would be malformed, or could not be heard.
        """
        if not isinstance(changes, Mapping):
            raise ValueError(f"profiles must be a mapping by name, is {changes!r}")
        definitions = dict(self._definitions)
        for name, change in changes.items():
            if not isinstance(name, str):
                raise ValueError(f"profile {name!r}: a name must be text; put it in quotes")
            if not isinstance(change, Mapping):
                raise ValueError(f"profile {name!r}: must be a mapping of fields, is {change!r}")
            definitions[name] = merged(definitions.get(name, {}), change)
        return ProfileBook(definitions)

    def log_notes(self) -> None:
        """Logs what is worth knowing of the profiles, such as which leg agreement can silence."""
        for name, profile in self._profiles.items():
            for leg, note in notes(profile):
                logger.info("a leg of a profile", extra={"profile": name, "leg": leg, "note": note})

    def _whole(self, name: str, through: tuple[str, ...]) -> Mapping[str, Any]:
        """A profile's definition with all that it inherits."""
        own = {field: of for field, of in self._definitions[name].items() if field != EXTENDS}
        parent = self._parent(name)
        if parent is None:
            return without_nulls(own)
        if parent in (*through, name):
            circle = " extends ".join([*through, name, parent])
            raise FieldError(Fault(EXTENDS, f"goes in a circle: {circle}"))
        return without_nulls(merged(self._whole(parent, (*through, name)), own))

    def _parent(self, name: str) -> str | None:
        parent = self._definitions[name].get(EXTENDS)
        if parent is None:
            return None
        if not isinstance(parent, str) or parent not in self._definitions:
            raise FieldError(Fault(EXTENDS, f"no profile is called {parent!r}"))
        return parent

    def _told(
        self, refused: Mapping[str, Sequence[Fault]], files: Mapping[str, Path]
    ) -> Iterator[str]:
        """A sentence for each fault; none for one that a profile inherits from another."""
        for name in sorted(refused):
            parent = self._definitions[name].get(EXTENDS)
            of_another = isinstance(parent, str) and parent != name
            inherited = refused.get(str(parent), ()) if of_another else ()
            where = f" (file {files[name]})" if name in files else ""
            for fault in refused[name]:
                if fault not in inherited:
                    yield f"profile {name!r}{where}: {fault}"


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Lays one definition over another, field by field."""
    whole = dict(below)
    for field, value in above.items():
        if isinstance(value, Mapping) and isinstance(whole.get(field), Mapping):
            whole[field] = merged(whole[field], value)
        else:
            whole[field] = value
    return whole


def without_nulls(whole: Mapping[str, Any]) -> dict[str, Any]:
    """A definition without the legs and signals that it sets to null."""
    return {
        field: {name: each for name, each in of.items() if each is not None}
        if field in ("legs", "signals") and isinstance(of, Mapping)
        else of
        for field, of in whole.items()
    }


def _heard(profile: Profile) -> Profile:
    """The profile, if each of its legs can be heard and none drowns out all others."""
    found = [Fault(*each) for each in contradictions(profile)]
    found += [Fault(f"legs.{leg}", why) for leg, why in faults(profile)]
    if found:
        raise FieldError(*found)
    return profile


def _own(
    name: str, definition: Mapping[str, Any], shipped: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """A user's definition, laid over the shipped one of its name if it extends that."""
    if name not in shipped or definition.get(EXTENDS) != name:
        return definition
    changes = {field: of for field, of in definition.items() if field != EXTENDS}
    return merged(shipped[name], changes)


def _files(folder: Path) -> list[Path]:
    """The profile files of a folder.

    Raises:
        ValueError: Two of them are of one profile.
        OSError: It cannot be read, or is no folder.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES)
    for earlier, later in pairwise(files):
        if earlier.stem == later.stem:
            raise ValueError(f"profile files {earlier} and {later} are of one profile")
    return files


def _read(path: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"profile file {path} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"profile file {path} must hold a mapping of fields")
    return cast(Mapping[str, Any], found)
