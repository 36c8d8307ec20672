"""Which facts a scope shows by their evidence, for the references in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from serving.domain.items.records import Fact, Segment
from serving.domain.questions.query import Scope
from serving.domain.questions.visibility import visible


def is_shown(fact: Fact, scope: Scope, segments: Mapping[str, Segment]) -> bool:
    """Whether a fact holds, and one of its evidence segments passes the filter.

    Without a known evidence segment it is enough that the filter selects nothing.
    """
    of_evidence = replace(scope, filter=scope.filter.of_evidence)
    evidence = [segments[id_] for id_ in fact.evidence if id_ in segments]
    if not visible(fact, scope):
        return False
    if not evidence:
        return not of_evidence.filter.selects
    return not of_evidence.filter.restricts or any(visible(each, of_evidence) for each in evidence)
