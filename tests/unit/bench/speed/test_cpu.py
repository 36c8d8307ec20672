"""The ways to ask for CPU time, and what is said of them."""

from __future__ import annotations

from pathlib import Path

from bench.harness.results import Result
from bench.speed.cpu.__main__ import entitle
from bench.speed.cpu.figures import cpu_table, save_picture
from bench.speed.cpu.ways import LEGS, WAYS
from serving.config.profiles import ProfileBook


def test_the_legs_that_can_be_left_out_are_those_of_the_default_profile() -> None:
    assert [leg.name for leg in ProfileBook.load()["default"].legs] == list(LEGS)


def test_each_way_is_a_change_of_the_default_profile() -> None:
    profiles = ProfileBook.load()

    weighed = {
        way.name: [
            leg.name for leg in profiles.changed("default", way.overrides).legs if leg.weight
        ]
        for way in WAYS
    }

    assert weighed["default"] == list(LEGS)
    assert weighed["words alone"] == ["lexical"]
    assert weighed["meaning alone, vector given"] == ["dense", "facts"]


def test_a_row_has_the_time_of_each_process(tmp_path: Path) -> None:
    by_role = {"replica Fusion": 6.0, "neo4j": 2.5, "postgres": 1.5, "desk": 0.1}
    record = Result(
        scenario="cpu",
        parameters={"way": "default", "callers": 8},
        n=10,
        throughput_per_s=90.0,
        measured={"cpu": {"total_ms": 10.1, "by_role_ms": by_role}},
    ).as_record({})

    save_picture([record], tmp_path / "overview.png")

    row = cpu_table([record]).splitlines()[-1]
    assert row.startswith("| default | 90 | - | 10.1 | 6 | 2.5 | 1.5 |")
    assert (tmp_path / "overview.png").stat().st_size > 0


def test_the_title_of_a_flame_graph_names_the_process_and_no_path(tmp_path: Path) -> None:
    picture = tmp_path / "flame.svg"
    picture.write_text(
        '<text id="title" x="600">py-spy record --output /tmp/run/flame.svg</text><text>ask</text>'
    )

    entitle(picture)

    assert picture.read_text() == '<text id="title" x="600">replica Fusion</text><text>ask</text>'
