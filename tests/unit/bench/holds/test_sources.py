"""Tests that memories in the source format become sets."""

from __future__ import annotations

from pathlib import Path

from bench.harness.collection import read_collection
from bench.holds.sources import read_memory, write_set

MEMORY = """
scope: shop
as_of: 2026-05-29
bot: Till
style: asr
@ 2026-02-02 07:40
Odile [open1]: We open at eight, on weekdays.
Till: Okay, I'll remember that.
@ 2026-02-23 08:05
Odile [open2]: From next week it's half past seven.
Odile [beans]: The beans are in the loft.
Odile [beans2]: The cups are in the cellar.
---
change | When do we open? | open2 | open1
hold | Where are the beans? | beans | beans2
history | When did we open before? | open1 | | 2026-02-20
"""


def test_memory_becomes_a_set_with_judgments(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    write_set(folder, [read_memory(MEMORY)])

    found = read_collection(folder)

    assert {query.text: (query.current, query.outdated) for query in found.queries} == {
        "When do we open?": (frozenset({"shop:t002"}), frozenset({"shop:t000"})),
        "Where are the beans?": (frozenset({"shop:t003"}), frozenset()),
        "When did we open before?": (frozenset({"shop:t000"}), frozenset()),
    }
    assert (folder / "traps.tsv").read_text() == "shop:q02\tshop:t004\n"
    assert (folder / "holds.tsv").read_text() == "shop:q02\tshop:t003\n"


def test_raw_speech_has_no_punctuation_but_the_bot_has() -> None:
    texts = [turn["text"] for turn in read_memory(MEMORY).turns]

    assert texts[:3] == [
        "we open at eight on weekdays",
        "Okay, I'll remember that.",
        "from next week it's half past seven",
    ]
