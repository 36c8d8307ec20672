"""Short ways to read what the client brings back."""

from __future__ import annotations

import base64
from urllib.parse import quote

from google.rpc import status_pb2

from trivium import Hit, ImportanceTerm, Ledger, LegState, Retrieval

MAX_HEADER_BYTES = 8192
"""Clients of gRPC may refuse more of metadata, and report RESOURCE_EXHAUSTED."""

PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
MARGIN = 256
"""For the names of the fields, and the other fields of a response."""


def header_bytes(status: status_pb2.Status) -> int:
    """What a status takes of the metadata of a response, at most."""
    details = status.SerializeToString()
    return len(quote(status.message, safe=PRINTABLE)) + len(base64.b64encode(details)) + MARGIN


def ids(answer: Retrieval) -> list[str]:
    return [hit.id for hit in answer.hits]


def by_id(answer: Retrieval) -> dict[str, Hit]:
    return {hit.id: hit for hit in answer.hits}


def ranks(hit: Hit) -> dict[str, float]:
    return {term.leg: term.rank for term in ledger(hit).leg_terms}


def ledger(hit: Hit) -> Ledger:
    assert hit.ledger is not None
    return hit.ledger


def aged(hit: Hit) -> float:
    decay = ledger(hit).decay
    assert decay is not None
    return decay.multiplier


def importance(hit: Hit) -> ImportanceTerm:
    term = ledger(hit).importance
    assert term is not None
    return term


def states(answer: Retrieval) -> dict[str, LegState]:
    return {report.leg: report.state for report in answer.leg_reports}


def counts(answer: Retrieval) -> dict[str, int]:
    """How many candidates each leg brought."""
    return {report.leg: report.candidate_count for report in answer.leg_reports}
