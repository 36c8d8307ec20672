# /// script
# requires-python = ">=3.11"
# dependencies = ["cognee==1.6.5"]
# ///
"""Writes `cogx`, an archive of cognee's own writer."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

AT = datetime(2026, 6, 1, 9, tzinfo=UTC)


def cogx() -> Any:
    """The module of the format, which needs pydantic alone, without the rest of cognee."""
    package = importlib.util.find_spec("cognee")
    assert package is not None, "cognee is installed"
    assert package.submodule_search_locations is not None, "cognee is a package"
    file = Path(package.submodule_search_locations[0]) / "modules/migration/cogx.py"
    spec = importlib.util.spec_from_file_location("cogx", file)
    assert spec is not None, "the module exists"
    assert spec.loader is not None, "the module can be loaded"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(of: Any) -> list[Any]:
    """A record of each kind."""
    nora = of.COGXScope(user_id="nora", session_id="call-1")
    return [
        of.COGXDocument(
            external_id="doc-1",
            content="The boiler was serviced in April.",
            title="letter.pdf",
            mime_type="application/pdf",
            created_at=AT,
            scope=nora,
            metadata={"page": 3},
        ),
        of.COGXEpisode(
            external_id="episode-1",
            title="A call",
            scope=nora,
            turns=[
                of.COGXTurn(role="user", content="When is the wedding?", occurred_at=AT),
                of.COGXTurn(role="assistant", content="On the eighth of November."),
            ],
            created_at=datetime(2026, 6, 1, 10, tzinfo=UTC),
        ),
        of.COGXEntity(
            external_id="entity-1",
            name="Nora",
            entity_type="Person",
            description="Nora works for Umbra.",
            aliases=["Nora Lind"],
            attributes={"age": 34},
        ),
        of.COGXEntity(external_id="entity-2", name="Umbra"),
        of.COGXFact(
            external_id="fact-1",
            subject_ref="entity-1",
            predicate="works_at",
            object_ref="entity-2",
            fact_text="Nora works for Umbra.",
            valid_at=datetime(2026, 3, 1, tzinfo=UTC),
            confidence=0.9,
            provenance=["doc-1"],
            created_at=AT,
        ),
        of.COGXFact(
            external_id="doc-1:contains:entity-2",
            subject_ref="doc-1",
            predicate="contains",
            object_ref="entity-2",
        ),
        of.COGXFact(
            external_id="fact-2",
            subject_ref="entity-1",
            predicate="is_a",
            object_ref="type-1",
            invalid_at=datetime(2027, 1, 1, tzinfo=UTC),
        ),
        of.COGXFact(
            external_id="fact-3",
            subject_ref="summary-1",
            predicate="made_from",
            object_ref="doc-1",
        ),
        of.COGXMemory(
            external_id="memory-1",
            content="Prefers the aisle seat.",
            categories=["travel"],
            scope=nora,
            created_at=AT,
            metadata={"mem0_metadata": {"source": "phone"}},
        ),
        of.COGXMemoryBlock(
            external_id="block-1", label="human", value="Lives in Lisbon.", limit=5000
        ),
    ]


def main() -> None:
    """Writes the archive."""
    of = cogx()
    folder = Path(__file__).with_name("cogx")
    with of.COGXArchiveWriter(folder) as writer:
        for record in records(of):
            writer.write(record)
        writer.write_raw_node({"id": "type-1", "type": "EntityType", "name": "person"})
        writer.write_raw_node({"id": "summary-1", "type": "TextSummary", "text": "A boiler."})
    manifest = of.read_manifest(folder)
    fixed = manifest.model_copy(update={"exported_at": AT})
    (folder / of.MANIFEST_FILE).write_text(fixed.model_dump_json(indent=2) + "\n", encoding="utf-8")


main()
