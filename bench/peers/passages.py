"""The texts and facts of a collection with the vectors that the service gives them, for peers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.harness.collection import Collection, Memory, as_embedded, as_stored
from bench.harness.writing import batches
from bench.peers.peer import Memories, Passage
from serving.domain.items.text import text_of
from serving.ports.embedding import Embedder


async def passages_of(collection: Collection, embedder: Embedder) -> Memories:
    """Embeds the segments and the facts of each tenant, in the form that the service embeds.

    A text longer than the model's window is searched by its first window: a peer has one vector
    for each text. What is sensitive is left out, because it is never embedded, and so are facts
    without evidence, which answer no question of a set.
    """
    memories: dict[str, list[Passage]] = {}
    for tenant, memory in collection.memories.items():
        passages = memories[tenant] = []
        for batch in batches(list(_texts_of(memory))):
            made = await embedder.embed_documents([to_embed for _, _, to_embed, _ in batch])
            passages += [
                Passage(id_, text, each.vectors[0], evidence)
                for (id_, text, _, evidence), each in zip(batch, made, strict=True)
            ]
    return memories


def _texts_of(memory: Memory) -> Iterator[tuple[str, str, str, Sequence[str]]]:
    """The id, the text, its form to embed and the evidence of each passage."""
    for segment in memory.segments:
        if not segment.sensitive:
            text = text_of(as_stored(segment))
            yield segment.id, text, as_embedded(segment), (segment.id,)
    for fact in memory.facts:
        if fact.evidence and not fact.sensitive:
            sentence = fact.sentence or f"{fact.subject} {fact.relation} {fact.object}"
            yield f"fact {fact.id}", sentence, sentence, fact.evidence
