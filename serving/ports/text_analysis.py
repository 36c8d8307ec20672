"""Text analysis: entities in segments, dates in questions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from serving.domain.items.records import Segment
from serving.domain.questions.period import Period


class EntityExtractor(Protocol):
    """Extracts the entities of segments that have none."""

    def extract(self, segment: Segment, known_names: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the names found, in the order of the text.

        Args:
            segment: The segment.
            known_names: The tenant's names, by `name_key`.
        """
        ...


class DateReader(Protocol):
    """Finds the dates in a question."""

    def periods(self, question: str, as_of: datetime) -> tuple[Period, ...]:
        """Returns the periods that the question names, in order.

        Args:
            question: Any text.
            as_of: The time of the question, with its zone, to which "last week" is relative.
        """
        ...
