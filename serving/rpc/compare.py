"""Compare: reads one query under two profiles, and writes both answers and their differences."""

from __future__ import annotations

from datetime import datetime

from serving.config.profiles import ProfileBook
from serving.pipeline.retrieval.steps import Retrieval
from serving.rpc.items import from_reference
from serving.rpc.retrieve import RetrieveCall, from_retrieval, require_one_tenant, to_inner_call
from trivium.v1 import retrieval_service_pb2 as retrieval_pb


def to_compare_call(
    request: retrieval_pb.CompareRequest, profiles: ProfileBook, now: datetime
) -> tuple[RetrieveCall, RetrieveCall]:
    """Reads a CompareRequest: one query under two profiles."""
    require_one_tenant(request.retrieve)
    other = retrieval_pb.RetrieveRequest()
    other.CopyFrom(request.retrieve)
    other.profile = request.against or request.retrieve.profile
    other.ClearField("leg_overrides")
    other.profile_overrides.CopyFrom(request.against_overrides)
    names = {"profile": "against", "profile_overrides": "against_overrides"}
    retrieve = to_inner_call(request.retrieve, profiles, now)
    return retrieve, to_inner_call(other, profiles, now, **names)


def from_comparison(
    retrieved: tuple[RetrieveCall, Retrieval], against: tuple[RetrieveCall, Retrieval]
) -> retrieval_pb.CompareResponse:
    """Writes the results of one query under two profiles."""
    ranks, against_ranks = (
        {hit.item.item: rank for rank, hit in enumerate(retrieval.hits, start=1)}
        for _, retrieval in (retrieved, against)
    )
    items = dict.fromkeys([*ranks, *against_ranks])
    shared = ranks.keys() & against_ranks.keys()
    return retrieval_pb.CompareResponse(
        retrieved=from_retrieval(*retrieved),
        against=from_retrieval(*against),
        overlap=len(shared) / len(items) if items else 1.0,
        rank_changes=[
            retrieval_pb.RankChange(
                item=from_reference(item),
                rank=ranks.get(item),
                against_rank=against_ranks.get(item),
            )
            for item in items
        ],
    )
