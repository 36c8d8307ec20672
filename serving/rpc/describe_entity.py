"""DescribeEntity: reads whom to describe, and writes what holds now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from serving.domain.briefing import BriefingLimits, fitted
from serving.domain.items.records import MAX_NAME_BYTES, Fact, Segment
from serving.domain.questions.query import Filter, Query, Scope
from serving.pipeline.retrieval.describe import Description
from serving.rpc.check import Checker
from serving.rpc.items import duration, from_fact, from_segment
from serving.rpc.retrieve import to_max_chars, to_time_budget, to_token
from trivium.v1 import retrieval_service_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeCall:
    """A checked DescribeEntityRequest; the text of the query is the name."""

    query: Query
    time_budget_s: float
    limits: BriefingLimits


def to_describe_call(request: pb.DescribeEntityRequest, now: datetime) -> DescribeCall:
    """Reads a DescribeEntityRequest."""
    with Checker() as check:
        who = request.WhichOneof("who")
        name = ""
        if who is None:
            check.reject("who", "must have one of speaker, entity")
        else:
            name = check.text(who, getattr(request, who), MAX_NAME_BYTES, required=True)
        names = (name,) if name else ()
        query = Query(
            scope=Scope(
                tenant=check.tenant(request.tenant),
                as_of=check.optional_instant("as_of", request) or now,
                filter=Filter(speakers=names) if who == "speaker" else Filter(entities=names),
                known_at=check.optional_instant("known_at", request),
            ),
            text=name,
            token=to_token(check, request.consistency_token),
            time_zone=check.time_zone("time_zone", request.time_zone),
        )
        return DescribeCall(
            query=query,
            time_budget_s=to_time_budget(check, request, []),
            limits=BriefingLimits(to_max_chars(check, "max_chars", request.max_chars)),
        )


def from_description(
    call: DescribeCall, description: Description, elapsed_s: float
) -> pb.DescribeEntityResponse:
    """Writes what the block has room for."""
    block, count = fitted(description.items, description.query, call.limits)
    shown = description.items[:count]
    return pb.DescribeEntityResponse(
        facts=[from_fact(item) for item in shown if isinstance(item, Fact)],
        statements=[from_segment(item) for item in shown if isinstance(item, Segment)],
        briefing=block,
        elapsed=duration(elapsed_s),
    )
