# /// script
# requires-python = ">=3.11"
# dependencies = ["graphiti-core==0.31.1", "zep-cloud==4.0.1"]
# ///
"""Writes `graphiti.jsonl` and `zep.jsonl`, the models of graphiti-core and zep-cloud."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphiti_core.edges import (
    CommunityEdge,
    EntityEdge,
    EpisodicEdge,
    HasEpisodeEdge,
)
from graphiti_core.nodes import (
    CommunityNode,
    EntityNode,
    EpisodeType,
    EpisodicNode,
    SagaNode,
)
from zep_cloud import Edge, Episode, Node  # type: ignore[import-not-found]

WRITTEN = datetime(2026, 6, 2, 12, tzinfo=UTC)
OF_ALL: dict[str, Any] = {"group_id": "nora", "created_at": WRITTEN}


def id_(number: int) -> str:
    """A UUID that is the same in every run."""
    return f"00000000-0000-4000-8000-{number:012}"


def edge(kind: type[Any], number: int, source: int, target: int, **fields: Any) -> Any:
    """An edge between two nodes."""
    ends = {"source_node_uuid": id_(source), "target_node_uuid": id_(target)}
    return kind(uuid=id_(number), **ends, **OF_ALL, **fields)


def graphiti() -> list[Any]:
    """What `get_by_group_ids` of each class of nodes and edges returns."""
    return [
        EpisodicNode(
            uuid=id_(1),
            name="call-1 turn 1",
            source=EpisodeType.message,
            source_description="phone call",
            content="Nora: I left Acme in March and work for Umbra now.",
            valid_at=datetime(2026, 6, 1, 9, tzinfo=UTC),
            entity_edges=[id_(11), id_(12)],
            **OF_ALL,
        ),
        EpisodicNode(
            uuid=id_(2),
            name="letter",
            source=EpisodeType.text,
            source_description="",
            content="Umbra has its seat in Porto.",
            valid_at=datetime(2026, 6, 1, 10, tzinfo=UTC),
            episode_metadata={"channel": "post"},
            **OF_ALL,
        ),
        EntityNode(
            uuid=id_(3),
            name="Nora",
            labels=["Entity", "Person"],
            summary="Nora left Acme in March 2026 and works for Umbra.",
            attributes={"age": 34, "skills": ["sailing"]},
            name_embedding=[0.25, 0.5],
            **OF_ALL,
        ),
        EntityNode(uuid=id_(4), name="Acme", labels=["Entity"], **OF_ALL),
        EntityNode(uuid=id_(5), name="Umbra", labels=["Entity"], **OF_ALL),
        CommunityNode(uuid=id_(6), name="Nora's work", summary="Acme and Umbra.", **OF_ALL),
        SagaNode(uuid=id_(7), name="call-1", first_episode_uuid=id_(1), **OF_ALL),
        edge(EpisodicEdge, 8, 1, 3),
        edge(EpisodicEdge, 9, 2, 5),
        edge(HasEpisodeEdge, 10, 7, 1),
        edge(
            EntityEdge,
            11,
            3,
            4,
            name="WORKS_AT",
            fact="Nora works at Acme.",
            episodes=[id_(1)],
            valid_at=datetime(2024, 1, 15, tzinfo=UTC),
            invalid_at=datetime(2026, 3, 1, tzinfo=UTC),
            expired_at=WRITTEN,
            fact_embedding=[0.25, 0.5],
        ),
        edge(
            EntityEdge,
            12,
            3,
            5,
            name="WORKS_AT",
            fact="Nora works for Umbra.",
            episodes=[id_(1)],
            valid_at=datetime(2026, 3, 1, tzinfo=UTC),
            reference_time=datetime(2026, 6, 1, 9, tzinfo=UTC),
            attributes={"contract": "permanent"},
        ),
        edge(
            EntityEdge,
            13,
            5,
            4,
            name="OWNS",
            fact="Umbra owns Acme.",
            expired_at=datetime(2026, 6, 3, tzinfo=UTC),
        ),
        edge(CommunityEdge, 14, 6, 4),
    ]


def zep() -> list[Any]:
    """What the lists of episodes, nodes and edges of a graph have."""
    return [
        Episode(
            uuid=id_(21),
            content="I sold the boat.",
            created_at="2026-06-02T12:00:00Z",
            reference_time="2026-06-01T09:00:00Z",
            role="user",
            role_name="Nora",
            source="message",
            thread_uuid=id_(31),
            user_uuid=id_(41),
            metadata={"channel": "phone"},
            processed=True,
        ),
        Node(
            uuid=id_(22),
            name="boat",
            labels=["Object"],
            summary="A boat that Nora sold.",
            episode_uuids=[id_(21)],
            episode_uuids_truncated=False,
            user_uuid=id_(41),
        ),
        Edge(
            uuid=id_(23),
            name="OWNS",
            fact="Nora owns a boat.",
            source_node_uuid=id_(24),
            source_node_name="Nora",
            target_node_uuid=id_(22),
            target_node_name="boat",
            episode_uuids=[id_(21)],
            created_at="2026-06-02T12:00:00Z",
            invalid_at="2026-06-01T09:00:00Z",
            user_uuid=id_(41),
        ),
    ]


def main() -> None:
    """Writes both files."""
    for name, records in (("graphiti", graphiti()), ("zep", zep())):
        lines = (each.model_dump_json() if name == "graphiti" else each.json() for each in records)
        text = "".join(f"{line}\n" for line in lines)
        Path(__file__).with_name(f"{name}.jsonl").write_text(text, encoding="utf-8")


main()
