"""The endpoints of the five published designs, each over the profile of its design.

Each one translates the request of its document into a RetrieveRequest, and the response back; the
ranking is the profile's (docs/profiles.md). None of the documents knows tenants: credentials of one
tenant need not name it, and others do so by `?tenant=`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from serving.config.profiles.form import MAX_FAULTS
from serving.domain.ranking.profile import MAX_DEPTH, MAX_LIMIT
from serving.http.calls import answer
from serving.http.connect import JSON, Endpoint, require_content_type
from serving.http.failures import json_response
from serving.http.faults import each_name_once
from serving.http.messages import encoded, from_value, url_pairs
from serving.rpc.message_bounds import off_loop
from serving.rpc.registration import Malformed
from serving.rpc.service import TriviumService
from trivium.v1 import retrieval_service_pb2 as retrieval_pb
from trivium.v1.segment_pb2 import Segment


class DesignRequest(BaseModel):
    """A request of a design; unknown fields are errors, as a filter that is ignored is none."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    verb: ClassVar[Literal["GET", "POST"]] = "POST"
    path: ClassVar[str]
    about: ClassVar[str]

    tenant: str = Field(default="", description="Needless with credentials of one tenant.")

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        """The fields of the RetrieveRequest that it becomes; `path` has those of its URL."""
        raise NotImplementedError

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        """The answer of the design."""
        raise NotImplementedError


def design_routes(service: TriviumService) -> list[Route]:
    """The routes of all designs."""
    return [Route(each.path, _endpoint(service, each), methods=[each.verb]) for each in DESIGNS]


def _endpoint(service: TriviumService, design: type[DesignRequest]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        body = await request.body()
        if body:
            require_content_type(request, JSON)
        query, path = request.scope["query_string"], request.path_params
        read = await off_loop(partial(_read, design, query, path, body), len(body))
        if isinstance(read, Malformed):
            await answer(service, "Retrieve", read, request)
            raise AssertionError("what is malformed has no answer; this is a bug")
        asked, message = read
        response = await answer(service, "Retrieve", message, request)
        return json_response(encoded(asked.to_answer(response)))

    return endpoint


def _read(
    design: type[DesignRequest], query: bytes, path: Mapping[str, str], body: bytes
) -> tuple[DesignRequest, retrieval_pb.RetrieveRequest] | Malformed:
    """The request of a design, and the RetrieveRequest that it becomes."""
    try:
        fields = _fields(query, body)
        asked = design.model_validate(fields)
    except ValidationError as error:
        if (count := error.error_count()) > MAX_FAULTS:
            return Malformed(f"has {count:,} faults")
        faults = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return Malformed("; ".join(faults))
    except RecursionError:
        return Malformed("is nested too deeply")
    except ValueError as error:
        return Malformed(str(error))
    message = from_value(
        {"tenant": asked.tenant, **asked.to_retrieve(path)}, retrieval_pb.RetrieveRequest
    )
    return message if isinstance(message, Malformed) else (asked, message)


def _fields(query: bytes, body: bytes) -> dict[str, Any]:
    """The fields of a request: those of the query of its URL, and those of its JSON.

    Raises `ValueError` if one of them cannot be read.
    """
    pairs = url_pairs(query)
    if isinstance(pairs, Malformed):
        raise ValueError(pairs.why)
    try:
        given = json.loads(body, object_pairs_hook=each_name_once) if body else {}
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("is not JSON") from None
    if not isinstance(given, dict):
        raise ValueError("is no object of JSON")
    fields = each_name_once(pairs)
    for name in fields.keys() & given.keys():
        if fields[name] != given[name]:
            raise ValueError(f"has {name!r} in its URL and in its JSON, with other values")
    return {**fields, **given}


# ------------------------------------------------------------------ annie


class ContextRequest(DesignRequest):
    """The request of a voice assistant before somebody speaks."""

    verb = "GET"
    path = "/v1/context"
    about = "The memory block for a prompt, and what is in it (annie)"

    query: str = Field(description="The question.")
    limit: int = Field(default=0, ge=0, le=MAX_LIMIT, description="0: the profile's.")
    profile: str = Field(default="annie", description="The ranking profile.")

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        return _with_block(self.query, self.limit, self.profile)

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        return {
            "results": [_retrieval_result(hit) for hit in response.hits],
            "context": response.briefing,
        }


def _retrieval_result(hit: retrieval_pb.Hit) -> dict[str, Any]:
    fact, segment = hit.fact, hit.segment
    if hit.HasField("fact"):
        text = fact.sentence or f"{fact.subject} -> {fact.object}: {fact.relation}"
        since, entities = fact.recorded_at, [fact.subject, fact.object]
    else:
        text, since, entities = segment.text, segment.event_time, list(segment.entities)
    return {
        "text": text,
        "source_session": segment.session,
        "timestamp": since.ToJsonString(),
        "relevance_score": hit.score,
        "entities": entities,
        "speaker": segment.speaker,
    }


# ------------------------------------------------------------------ AMP

SOURCES = {"dense": "vector", "graph": "graph", "temporal": "temporal"}
"""The names that AMP gives to the legs of the profile `object_graph`."""


class ObjectFilters(BaseModel):
    """The objects to consider."""

    model_config = ConfigDict(extra="forbid")

    object_types: list[str] = Field(default=[], description="Kinds of segments.")
    project_id: str | None = Field(default=None, description="The value of the label project_id.")
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None


class ObjectQuery(DesignRequest):
    """A question about objects, such as the symbols of a program."""

    path = "/v1/query"
    about = "Objects by meaning, relations and time (AMP)"

    text: str = Field(description="The question.")
    hybrid: bool = Field(default=True, description="False: by meaning alone.")
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT)
    filters: ObjectFilters = ObjectFilters()

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        alone = [] if self.hybrid else [name for name in SOURCES if name != "dense"]
        filters = self.filters
        labels = [] if filters.project_id is None else [_label("project_id", filters.project_id)]
        return {
            "query": self.text,
            "limit": self.limit,
            "profile": "object_graph",
            "explain": True,
            "leg_overrides": [{"leg": name, "weight": 0} for name in alone],
            "filter": {
                "kinds": filters.object_types,
                "labels": labels,
                "created_at": _range(filters.created_after, filters.created_before),
                "updated_at": _range(filters.updated_after, filters.updated_before),
            },
        }

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        counts = {SOURCES[each.leg]: each.candidate_count for each in response.leg_reports}
        total = response.statistics.candidate_count
        return {
            "results": [_object(hit) for hit in response.hits],
            "total": total,
            "limit": self.limit,
            "retrieval_stats": {
                **{f"{source}_count": counts.get(source, 0) for source in SOURCES.values()},
                "fused_count": total,
            },
        }


def _object(hit: retrieval_pb.Hit) -> dict[str, Any]:
    ranks = {SOURCES[term.leg]: term.rank for term in hit.ledger.leg_terms}
    return {
        "id": hit.segment.id,
        "type": hit.segment.kind,
        "name": hit.segment.title or hit.segment.entity or hit.segment.id,
        "score": hit.score,
        "sources": list(ranks),
        # Ranks that several objects share are halves; all others are whole.
        "ranks": {name: int(rank) if rank.is_integer() else rank for name, rank in ranks.items()},
    }


# ------------------------------------------------------------------ two stages

STAGES = {
    retrieval_pb.STAGE_RERANKED: "reranked",
    retrieval_pb.STAGE_COARSE: "coarse",
    retrieval_pb.STAGE_COARSE_FALLBACK: "coarse_fallback",
    retrieval_pb.STAGE_UNSPECIFIED: "coarse",
}


class HybridRequest(DesignRequest):
    """A question about the episodes of an agent, in two stages."""

    path = "/agents/{agent_id}/retrieve-hybrid"
    about = "Episodes of an agent, reranked by a cross-encoder"

    query: str = Field(description="The question.")
    coarse_top_k: int = Field(default=100, ge=1, le=MAX_DEPTH, description="The first stage.")
    rerank_top_k: int = Field(
        default=50, ge=1, le=MAX_LIMIT, description="The hits that are reranked and returned."
    )
    use_reranking: bool = Field(default=True, description="False: the first stage alone.")

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        overrides: dict[str, Any] = {"legs": {"dense": {"depth": self.coarse_top_k}}}
        if self.use_reranking:
            overrides["rerank"] = {"head": self.rerank_top_k}
        return {
            **_of_agent(self.query, path),
            "limit": self.rerank_top_k,
            "profile": "two_stage" if self.use_reranking else "two_stage_baseline",
            "profile_overrides": overrides,
        }

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        return {"results": [{**_episode(hit), "stage": STAGES[hit.stage]} for hit in response.hits]}


class BaselineRequest(DesignRequest):
    """The first stage alone."""

    path = "/agents/{agent_id}/retrieve-baseline"
    about = "Episodes of an agent, by meaning alone"

    query: str = Field(description="The question.")
    top_k: int = Field(default=50, ge=1, le=MAX_LIMIT, description="The hits.")

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        return {**_of_agent(self.query, path), "limit": self.top_k, "profile": "two_stage_baseline"}

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        return {"results": [_episode(hit) for hit in response.hits]}


def _of_agent(query: str, path: Mapping[str, str]) -> dict[str, Any]:
    return {"query": query, "filter": {"labels": [_label("agent_id", path["agent_id"])]}}


def _episode(hit: retrieval_pb.Hit) -> dict[str, Any]:
    return {"episode_id": hit.segment.id, "relevance_score": hit.score}


# ------------------------------------------------------------------ hybrid recall

SORTED_BY: Mapping[str, dict[str, Any]] = {
    "relevance": {},
    # Importance then breaks ties, instead of being a factor.
    "importance": {"sort": "importance", "importance": {"style": "off"}},
    "recency": {"sort": "recency"},
}


class RecallRequest(DesignRequest):
    """A question about memories."""

    path = "/api/memories/recall"
    about = "Memories by words, meaning and relations (hybrid recall)"

    query: str = Field(
        validation_alias=AliasChoices("query", "context"), description="The question."
    )
    sort_by: Literal["relevance", "importance", "recency"] = "relevance"
    category: str | None = Field(default=None, description="The kind of segments.")
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT)

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        return {
            "query": self.query,
            "limit": self.limit,
            "profile": "hybrid_recall",
            "profile_overrides": SORTED_BY[self.sort_by],
            "filter": {"kinds": [] if self.category is None else [self.category]},
        }

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        return {"memories": [{**_memory(hit.segment), "score": hit.score} for hit in response.hits]}


def _memory(segment: Segment) -> dict[str, Any]:
    return {
        "id": segment.id,
        "content": segment.text,
        "category": segment.kind,
        "tags": list(segment.keywords),
        "importance": segment.importance,
        "is_sensitive": segment.sensitive,
        "created_at": segment.event_time.ToJsonString(),
    }


# ------------------------------------------------------------------ recollection


class RecollectRequest(DesignRequest):
    """A request for the statements of a user to a coding agent."""

    path = "/recollect"
    about = "Episodes for the prompt of a coding agent (recollection)"

    prompt: str = Field(description="The prompt.")
    limit: int = Field(default=3, ge=1, le=MAX_LIMIT)

    def to_retrieve(self, path: Mapping[str, str]) -> dict[str, Any]:
        return _with_block(self.prompt, self.limit, "recollection")

    def to_answer(self, response: retrieval_pb.RetrieveResponse) -> dict[str, Any]:
        return {
            "episodes": [{**_memory(hit.segment), "score": hit.score} for hit in response.hits],
            "recollection": response.briefing,
        }


DESIGNS: tuple[type[DesignRequest], ...] = (
    ContextRequest,
    ObjectQuery,
    HybridRequest,
    BaselineRequest,
    RecallRequest,
    RecollectRequest,
)


def _with_block(query: str, limit: int, profile: str) -> dict[str, Any]:
    return {"query": query, "limit": limit, "profile": profile, "briefing": {}}


def _label(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "values": [value]}


def _range(start: datetime | None, end: datetime | None) -> dict[str, str]:
    """As protobuf reads it; a time without a zone is of UTC."""
    return {
        name: time.isoformat() if time.tzinfo else f"{time.isoformat()}Z"
        for name, time in (("start", start), ("end", end))
        if time is not None
    }
