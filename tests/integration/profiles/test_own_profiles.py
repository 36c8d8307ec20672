"""A user's own profiles: a folder that a setting names, used by a running service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes.placed import PlacedEmbedder
from tests.fixtures.local_service import local_service
from tests.fixtures.shared_service import NOW, note, remember
from tests.support.answers import ids
from trivium.aio import AsyncClient

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(240)]

COSINES = {"tide": 0.9, "wind": 0.8, "rain": 0.7}


async def depth_of_words(memory: AsyncClient, profile: str, lexical: Mapping[str, int]) -> int:
    """The depth of the leg `lexical` in an answer of two hits."""
    explained = await memory.explain_absence(
        "?!",
        segment_id="tide",
        profile=profile,
        profile_overrides={"legs": {"lexical": lexical}},
        limit=2,
        as_of=NOW,
    )
    return next(leg.depth for leg in explained.legs if leg.leg == "lexical")


async def test_profiles_of_the_configured_folder_win(
    postgres_dsn: str, neo4j_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: annie\ndescription: The best of annie's.\nlimit: 1\n"
    )
    (tmp_path / "annie.yaml").write_text(
        "extends: annie\nlegs: {lexical: {depth: 7}, dense: {floor: 0.75}}\n"
    )
    (tmp_path / "wide.yaml").write_text("extends: mine\nlegs: {lexical: {depth_per_limit: 3}}\n")
    monkeypatch.setenv("TRIVIUM_RETRIEVAL__PROFILES", str(tmp_path))
    said = [note(text, f"the {text}", place) for place, text in enumerate(COSINES)]

    async with local_service(postgres_dsn, neo4j_uri, embedder=PlacedEmbedder(COSINES)) as client:
        memory = client.for_tenant("own profiles")
        await remember(memory, said)
        listed = {profile.name: profile.description async for profile in memory.list_profiles()}
        mine = await memory.retrieve("?!", profile="mine", as_of=NOW)
        annie = await memory.retrieve("?!", profile="annie", as_of=NOW)
        shipped = await memory.retrieve("?!", profile="two_stage_baseline", as_of=NOW)
        depths = {
            name: await depth_of_words(memory, name.partition(",")[0], lexical)
            for name, lexical in (
                ("mine", {}),
                ("wide", {}),
                ("wide, depth 5", {"depth": 5}),
                ("mine, depth_per_limit 2", {"depth_per_limit": 2}),
            )
        }

    assert listed["mine"] == "The best of annie's."
    assert (mine.profile, ids(mine)) == ("mine", ["tide"])
    assert sorted(ids(annie)) == ["tide", "wind"]
    assert sorted(ids(shipped)) == sorted(COSINES)
    assert depths == {"mine": 7, "wide": 6, "wide, depth 5": 5, "mine, depth_per_limit 2": 4}
