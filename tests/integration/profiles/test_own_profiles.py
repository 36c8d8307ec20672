"""A user's own profiles: a folder that a setting names, used by a running service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.placed import PlacedEmbedder
from tests.fixtures.local_service import local_service
from tests.fixtures.standing import NOW, ago, remember
from tests.support.answers import ids
from trivium import Segment

pytestmark = [pytest.mark.postgres, pytest.mark.neo4j, pytest.mark.timeout(240)]

COSINES = {"tide": 0.9, "wind": 0.8, "rain": 0.7}


async def test_the_profiles_of_the_folder_that_is_set_are_there_and_win(
    postgres_dsn: str, neo4j_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.yaml").write_text(
        "extends: annie\ndescription: The best of annie's.\nlimit: 1\n"
    )
    (tmp_path / "annie.yaml").write_text("extends: annie\nlegs: {dense: {floor: 0.75}}\n")
    monkeypatch.setenv("TRIVIUM_RETRIEVAL__PROFILES", str(tmp_path))
    said = [
        Segment(id=text, text=f"the {text}", event_time=ago(place))
        for place, text in enumerate(COSINES)
    ]

    async with local_service(postgres_dsn, neo4j_uri, embedder=PlacedEmbedder(COSINES)) as client:
        memory = client.for_tenant("own profiles")
        await remember(memory, said)
        listed = {profile.name: profile.description async for profile in memory.list_profiles()}
        mine = await memory.retrieve("?!", profile="mine", as_of=NOW)
        annie = await memory.retrieve("?!", profile="annie", as_of=NOW)
        shipped = await memory.retrieve("?!", profile="two_stage_baseline", as_of=NOW)

    assert listed["mine"] == "The best of annie's."
    assert (mine.profile, ids(mine)) == ("mine", ["tide"])
    assert sorted(ids(annie)) == ["tide", "wind"]
    assert sorted(ids(shipped)) == sorted(COSINES)
