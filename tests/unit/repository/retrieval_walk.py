"""The functions that run for an answer, for ARCHITECTURE.md.

`python -m tests.unit.repository.retrieval_walk` counts them over the fakes of the tests, and writes
the counts and the stops of a vector search; a test compares them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from serving.adapters.vector_index import ExactIndex
from serving.deployments.handles import SpaceHandles, remote_space
from serving.domain.breaker import Breaker
from serving.domain.english.dates import EnglishDates
from serving.domain.items.text import text_to_embed
from serving.pipeline.index.log_following import LogFollowingIndex
from serving.pipeline.index.vector_space import VectorSpace
from serving.pipeline.inference.embedder import BatchedEmbedder
from serving.pipeline.retrieval import legs
from serving.pipeline.retrieval.leg_runner import LegRunner
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.steps import RetrievalSteps
from serving.ports.graph import GraphChanges
from serving.rpc.service import TriviumService
from tests.fakes import deployment
from tests.fakes.deployment import FakeHandle
from tests.fakes.graph import InMemoryGraph
from tests.fakes.meaning import FAKE_MODEL, FakeEncoder, FakeFeed, fact_row, segment_row
from tests.fakes.names import InMemoryNameResolver
from tests.fakes.pipeline import FixedConsistency
from tests.fakes.store import InMemoryStore
from tests.fakes.times import InMemoryAccessLog, InMemoryTimeline
from tests.fakes.words import InMemoryWords
from tests.support.builders import A_DAY_LATER, TENANT, batch_of, fact, segment
from tests.unit.pipeline.retrieval.retrieving import soon
from tests.unit.rpc.calling import Call, service_over
from trivium.v1 import retrieval_service_pb2 as retrieval_pb

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- counted -->\n", "<!-- /counted -->\n"
SERVING, FAKES = (f"{ROOT / name}/" for name in ("serving", "tests/fakes"))
START = ("serving/pipeline/retrieval/leg_runner.py", "LegRunner._run")
STOPS = ("QuestionQueue.add", "QuestionQueue._encode", "scan_nearest")
"""The way of a vector search leads to these: into the queue of the embedder, from there through its
thread to the encoder, and to the scan of the vectors."""

HEAD = "| file | name | what it does |\n| --- | --- | --- |\n"
ROW = re.compile(r"^\| `(?P<file>[\w/]+\.py)` \| `(?P<name>[\w.]+)` \| (?P<said>.+) \|$", re.M)
COUNTS = """\
In the placement `split`, a vector search passes {stops} functions in {files} files. A whole
answer of the default profile runs {single}, in
`single`, and {split}, in `split`.
"""

QUESTION = "When is the dentist?"
SAID = (
    "The dentist is on Monday.",
    "We moved to Lisbon in May.",
    "Nora likes the balcony.",
    "The dentist moved to Tuesday at noon.",
    "He sailed to Goa last summer.",
    "The boat is called Marlin.",
)


class Walk:
    """What one answer ran.

    Attributes:
        functions: Those of `serving`, in the order of their first calls.
        tasks: The number of asyncio tasks that were made.
        requests: The number of requests to other deployments.
        stops: The functions on the way to `STOPS`, in order, each once.
    """

    def __init__(self) -> None:
        self.functions: dict[CodeType, None] = {}
        self.tasks = self.requests = 0
        self.stops: dict[CodeType, None] = {}
        self._origins: dict[asyncio.Task[Any] | None, list[CodeType]] = {}

    def counts(self) -> str:
        """The counts in words."""
        files = len({code.co_filename for code in self.functions})
        return (
            f"{len(self.functions)} functions in {files} files, {self.tasks} tasks and "
            f"{self.requests} requests to other replicas"
        )

    @asynccontextmanager
    async def noted(self) -> AsyncIterator[None]:
        """Notes what runs meanwhile for this task, the tasks that it makes, and the threads."""
        loop = asyncio.get_running_loop()
        self._origins[asyncio.current_task()] = []
        loop.set_task_factory(self._task)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            loop.set_task_factory(None)
            self._origins = {}

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Notes a call; threads are to call it too."""
        code = frame.f_code
        if event != "call" or not _is_counted(code) or (way := self._way(frame)) is None:
            return
        self.functions.update(dict.fromkeys(way))
        if code.co_qualname in STOPS:
            self.stops.update(dict.fromkeys(way))

    def _task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **named: Any) -> Any:
        task = asyncio.Task(coroutine, loop=loop, **named)
        if (way := self._way(sys._getframe(1))) is not None:
            self.tasks += 1
            self._origins[task] = way
        return task

    def _way(self, frame: FrameType | None) -> list[CodeType] | None:
        """The functions from the first task to a frame; None if it is not of the answer."""
        codes: list[CodeType] = []
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(FAKES) and file != deployment.__file__:
                return None
            if _is_counted(frame.f_code):
                codes.insert(0, frame.f_code)
            frame = frame.f_back
        try:
            task = asyncio.current_task()
        except RuntimeError:  # a thread
            return codes if self._origins else None
        origin = self._origins.get(task)
        return None if origin is None else [*origin, *codes]


def _is_counted(code: CodeType) -> bool:
    return code.co_filename.startswith(SERVING) and not code.co_name.startswith("<")


class CountedHandle(FakeHandle):
    """A handle that counts the requests."""

    def __init__(self, walk: Walk, **ports: Any) -> None:
        super().__init__(**ports)
        self._walk = walk

    async def remote(self, *arguments: Any, **named: Any) -> object:
        self._walk.requests += 1
        return await super().remote(*arguments, **named)


async def walked(*, split: bool, only: str = "") -> Walk:
    """Asks a service over fakes of the stores and of the encoder, with its own index.

    Args:
        split: Embeds and searches in other deployments.
        only: The only leg, as the profile's other legs have the weight 0; empty for all.
    """
    walk = Walk()
    threading.setprofile(walk.note)
    async with AsyncExitStack() as stack:
        embedder = await stack.enter_async_context(BatchedEmbedder(FakeEncoder(window=64)))
        store, graph, feed = InMemoryStore(), InMemoryGraph(), FakeFeed()
        segments = [
            segment(f"s{number}", text, speaker="Mara", session="talk")
            for number, text in enumerate(SAID)
        ]
        known = fact("f", "Mara", "sees", "the dentist", evidence=("s0",))
        await store.write(batch_of(*segments, known))
        await graph.apply(
            GraphChanges(segments=[(TENANT, each) for each in segments], facts=[(TENANT, known)])
        )
        texts = [*map(text_to_embed, segments), "Mara sees the dentist"]
        *rows, of_fact = await embedder.embed_documents(texts)
        feed.put(*map(segment_row, segments, (row[0] for row in rows)), fact_row(known, of_fact[0]))
        feed.embed()
        index = await stack.enter_async_context(
            LogFollowingIndex(feed, FAKE_MODEL, lambda: ExactIndex(FAKE_MODEL.dimension))
        )
        threading.setprofile(None)
        assert await index.ready(soon())
        space = VectorSpace.here(embedder, index, kept=1)
        if split:
            parts: Any = (
                CountedHandle(walk, embedder=embedder),
                [CountedHandle(walk, index=index)],
            )
            remote: Any = remote_space(SpaceHandles(*parts), kept_questions=1)
            space = VectorSpace(
                remote.embedder, remote.index, remote.text_search, remote.whole_index
            )
        service = _service(store, graph, space)
        request = retrieval_pb.RetrieveRequest(
            tenant=TENANT, query=QUESTION, as_of=A_DAY_LATER, time_budget=timedelta(seconds=5)
        )
        for leg in service.profiles["default"].legs if only else ():
            request.leg_overrides.add(leg=leg.name, weight=float(leg.name == only))
        for query in (QUESTION, "Where is it?"):  # fills caches, but that of the last vector
            request.query = query
            await service.Retrieve(request, Call())
        request.query = QUESTION
        walk.requests = 0
        async with walk.noted():
            answer = await service.Retrieve(request, call := Call())
        assert answer.hits, f"the service over fakes found nothing: {call.details}; this is a bug"
    return walk


def _service(store: InMemoryStore, graph: InMemoryGraph, space: VectorSpace) -> TriviumService:
    consistency, timeline, access = (
        FixedConsistency(),
        InMemoryTimeline(store),
        InMemoryAccessLog(store),
    )
    all_legs = (
        legs.LexicalLeg(InMemoryWords(store)),
        legs.DenseLeg(access),
        legs.ContextLeg(),
        legs.FactsLeg(),
        legs.GraphLeg(graph, consistency),
        legs.RelatedLeg(graph, consistency),
        legs.TemporalLeg(timeline),
        legs.ImportantLeg(timeline),
        legs.HoldingLeg(timeline),
    )
    breakers = {leg.dependency: Breaker(leg.dependency) for leg in all_legs if leg.dependency}
    steps = RetrievalSteps(
        legs=LegRunner({leg.name: leg for leg in all_legs}, consistency, breakers),
        space=space,
        store=store,
        access=access,
        dates=EnglishDates(),
        names=InMemoryNameResolver(store),
        store_breaker=Breaker("store"),
    )
    return service_over({"retriever": Retriever(steps, access)})


def text() -> str:
    """The whole page; what it says of a function stays.

    Raises:
        ValueError: It says nothing of a function on the way.
    """
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(BEGIN)
    old, _, tail = rest.partition(END)
    said = {(row["file"], row["name"]): row["said"] for row in ROW.finditer(old)}
    single, split = (asyncio.run(walked(split=each)) for each in (False, True))
    stops = list(asyncio.run(walked(split=True, only=legs.DenseLeg.name)).stops)
    names = [(str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname) for code in stops]
    names = names[names.index(START) :]
    if undescribed := [name for name in names if name not in said]:
        raise ValueError(f"{PAGE.name}: the table of the walk lacks rows of {undescribed}")
    rows = "".join(f"| `{file}` | `{name}` | {said[file, name]} |\n" for file, name in names)
    counts = COUNTS.format(
        stops=len(names),
        files=len({file for file, _ in names}),
        single=single.counts(),
        split=split.counts(),
    )
    return f"{head}{BEGIN}{counts}\n{HEAD}{rows}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
