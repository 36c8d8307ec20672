from __future__ import annotations

from bench.harness.sample import multiplied_sample


def test_each_tenant_has_the_conversation_with_other_names() -> None:
    collection = multiplied_sample(tenants=3)

    speakers = [
        frozenset(segment.speaker for segment in memory.segments)
        for memory in collection.memories.values()
    ]
    assert len(set(speakers)) == 3
    assert len({len(memory.segments) for memory in collection.memories.values()}) == 1


def test_no_trace_of_the_first_names_is_left() -> None:
    collection = multiplied_sample(tenants=1)
    (memory,) = collection.memories.values()

    written = [f"{s.speaker} {s.text} {s.title} {' '.join(s.entities)}" for s in memory.segments]
    written += [f"{fact.subject} {fact.object} {fact.sentence}" for fact in memory.facts]
    written += [query.text for query in collection.queries]
    words = set(" ".join(written).replace("'", " ").split())
    assert not words & {"Nora", "Idris"}


def test_evidence_and_answers_are_segments_of_the_same_tenant() -> None:
    collection = multiplied_sample(tenants=2)

    for tenant, memory in collection.memories.items():
        known = {segment.id for segment in memory.segments}
        evidence = {id_ for fact in memory.facts for id_ in fact.evidence}
        answers = {
            id_ for query in collection.queries if query.tenant == tenant for id_ in query.relevant
        }
        assert evidence | answers <= known


def test_the_seed_decides_everything() -> None:
    again = multiplied_sample(tenants=2, seed=7)

    assert multiplied_sample(tenants=2, seed=7) == again
    assert multiplied_sample(tenants=2, seed=8) != again
