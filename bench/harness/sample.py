"""Multiplies the sample conversation into many tenants, to measure speed without an evaluation set.

Each tenant has the conversation with different names of speakers, so words, vectors and entities
differ. Its ten questions do not measure quality.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.harness.collection import Collection, Memory, Query
from trivium.files.reading import read_items, read_questions
from trivium.files.records import Problem
from trivium.values import Fact, Item, Segment

FOLDER = Path(__file__).parents[2] / "serving" / "desk" / "sample"
TENANTS = 36
"""About as many segments as LoCoMo has."""

NAMES = (
    *("Abel", "Ada", "Agnes", "Amir", "Anouk", "Bela", "Bruno", "Carla", "Cyril", "Dara"),
    *("Edda", "Emil", "Farid", "Fleur", "Gideon", "Greta", "Hana", "Hugo", "Ines", "Ivo"),
    *("Jana", "Jonas", "Kaito", "Klara", "Lev", "Lotte", "Malik", "Mira", "Noam", "Odile"),
    *("Pavel", "Petra", "Quentin", "Rafa", "Runa", "Selma", "Tariq", "Ulla", "Viktor", "Wanda"),
    *("Xenia", "Yusuf", "Zora"),
)


def multiplied_sample(tenants: int = TENANTS) -> Collection:
    """Reads the sample, and makes as many memories of it."""
    problems: list[Problem] = []
    paths = [str(FOLDER / name) for name in ("conversation.jsonl", "facts.jsonl")]
    items = [found.item for found in read_items(paths, problems.append)]
    questions = read_questions(str(FOLDER / "questions.jsonl"), problems.append)
    speakers = sorted({item.speaker for item in items if isinstance(item, Segment)})
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, speakers))})\b")
    draw = random.Random(0)
    memories: dict[str, Memory] = {}
    queries: list[Query] = []
    for number in range(1, tenants + 1):
        tenant = f"sample-{number:03}"
        names = dict(zip(speakers, draw.sample(NAMES, len(speakers)), strict=True))
        rename = partial(pattern.sub, lambda match, names=names: names[match[0]])
        memories[tenant] = Memory()
        for item in items:
            memories[tenant].add(_renamed(item, rename))
        queries += [
            Query(
                id=f"{tenant}:{question.id}",
                tenant=tenant,
                text=rename(question.text),
                as_of=question.as_of,
                category=question.retriever,
                grades=dict.fromkeys(question.answer, 1.0),
            )
            for question in questions
        ]
    draw.shuffle(queries)
    return Collection(name="sample", memories=memories, queries=queries, problems=problems)


def _renamed(item: Item, rename: Callable[[str], str]) -> Item:
    if isinstance(item, Fact):
        return replace(
            item,
            subject=rename(item.subject),
            object=rename(item.object),
            sentence=rename(item.sentence),
        )
    return replace(
        item,
        text=rename(item.text),
        speaker=rename(item.speaker),
        entities=tuple(rename(name) for name in item.entities),
    )
