"""The texts of a collection with the vectors that the service gives them, for every peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from bench.harness.collection import Collection
from bench.peers.peer import Passage, StatedFact
from serving.domain.items import records
from serving.domain.items.text import text_of, text_to_embed
from serving.ports.embedding import Embedder
from trivium.values import Fact, Segment

CHUNK = 256
_UNDATED = datetime(1970, 1, 1, tzinfo=UTC)


async def passages_of(
    collection: Collection, embedder: Embedder
) -> Mapping[str, Sequence[Passage]]:
    """Embeds the segments of each tenant, in the form that the service embeds.

    A text longer than the model's window is searched by its first window: a peer has one vector
    for each text. Sensitive segments are left out, because they are never embedded.
    """
    memories: dict[str, list[Passage]] = {}
    for tenant, memory in collection.memories.items():
        items = [_stored(segment) for segment in memory.segments if not segment.sensitive]
        passages = memories[tenant] = []
        for start in range(0, len(items), CHUNK):
            chunk = items[start : start + CHUNK]
            rows = await embedder.embed_documents([text_to_embed(item) for item in chunk])
            passages += [
                Passage(item.id, text_of(item), windows[0])
                for item, windows in zip(chunk, rows, strict=True)
            ]
    return memories


async def facts_of(
    collection: Collection, embedder: Embedder
) -> Mapping[str, Sequence[StatedFact]]:
    """Embeds the facts of each tenant that rest on segments; only of tenants with such facts."""
    facts: dict[str, list[StatedFact]] = {}
    for tenant, memory in collection.memories.items():
        stated = [fact for fact in memory.facts if fact.evidence and not fact.sensitive]
        for start in range(0, len(stated), CHUNK):
            chunk = stated[start : start + CHUNK]
            sentences = [fact.sentence or _sentence(fact) for fact in chunk]
            rows = await embedder.embed_documents(sentences)
            facts.setdefault(tenant, []).extend(
                StatedFact(
                    subject=fact.subject,
                    relation=fact.relation,
                    object=fact.object,
                    sentence=sentence,
                    vector=windows[0],
                    evidence=fact.evidence,
                )
                for fact, sentence, windows in zip(chunk, sentences, rows, strict=True)
            )
    return facts


def _sentence(fact: Fact) -> str:
    return f"{fact.subject} {fact.relation} {fact.object}"


def _stored(segment: Segment) -> records.Segment:
    return records.Segment(
        id=segment.id,
        text=segment.text,
        title=segment.title,
        speaker=segment.speaker,
        event_time=segment.event_time or _UNDATED,
    )
