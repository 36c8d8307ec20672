"""What the pipeline needs from the outside, as protocols; the adapters fulfil them.

Unless said otherwise a method raises `StoreUnavailableError` or `DependencyError`
when what it stands on cannot be reached, gives up when its deadline passes
(`TimeoutError`), and honours cancellation. Implementations are used from one event
loop and must not block it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from serving.domain.budget import Deadline
from serving.domain.consistency import ConsistencyToken, Snapshot
from serving.domain.index_policy import CurvePoint
from serving.domain.leg_options import Walk, WordsSearch
from serving.domain.period import Period
from serving.domain.profile import Yields
from serving.domain.query import Filter, Query, Scope
from serving.domain.ranking import Candidate
from serving.domain.records import Fact, Item, ItemId, ItemKind, Segment, TenantName
from serving.domain.text import TextForm
from serving.domain.validity import Closing, final_end

Vector = NDArray[np.float32]
"""float32 (dimension,), of unit length, on the host."""

Vectors = NDArray[np.float32]
"""float32 (n, dimension), rows of unit length, C-contiguous, on the host."""


class VectorLike(Protocol):
    """What numpy makes a `Vector` of: one, or a question's that is still where it was computed.

    An index on the same device reads it there. `numpy.asarray` brings it to the host, and so does
    whatever sends it to another process.
    """

    def __len__(self) -> int:
        """Its dimension."""
        ...

    def __array__(self) -> Vector:
        """Its values, on the host."""
        ...


Projection = Literal["embedding", "graph"]
"""What is derived from PostgreSQL by the projector."""

# ---------------------------------------------------------------- meaning


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Which model an embedder runs. Vectors of different fingerprints do not compare.

    `text_form` is how segments are to be written for it; its fingerprint tells that too.
    """

    fingerprint: str
    dimension: int
    text_form: TextForm = TextForm.QUOTED


@dataclass(frozen=True, slots=True)
class Device:
    """What computes a model, as far as those who make batches for it must know.

    An accelerator computes while the thread that called it waits; a CPU is that thread.
    `token_budget` is the most tokens of one pass, padding included; one window may have more.
    """

    is_accelerator: bool
    token_budget: int


TokenIds = Sequence[int]
"""The tokens of one window, special ones included."""


class TextEncoder(Protocol):
    """A sentence encoder on one device. Synchronous.

    One thread encodes at a time; others may tokenize meanwhile.
    """

    def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        ...

    def device(self) -> Device:
        """What computes it."""
        ...

    def tokenize_query(self, text: str) -> TokenIds:
        """Tokenizes a question with its prompt; what exceeds the window is cut."""
        ...

    def tokenize_document(self, text: str) -> list[TokenIds]:
        """Tokenizes a text into at least one window; each begins within the one before."""
        ...

    def encode(self, windows: Sequence[TokenIds]) -> Vectors:
        """Makes one row per window, in their order; a row does not depend on the others."""
        ...

    def encode_queries(self, windows: Sequence[TokenIds]) -> Sequence[VectorLike | None]:
        """Makes the same rows, which stay where they are computed.

        Returns:
            One per window, in their order; None for a row that is zero or not finite.
        """
        ...


class QuestionEmbedder(Protocol):
    """Questions into unit vectors."""

    async def embed_query(self, text: str, deadline: Deadline) -> VectorLike:
        """Embeds a question; it waits behind one batch of bulk work at most.

        Raises:
            OverloadedError: The queue is full.
            TimeoutError: The deadline passed first.
        """
        ...


class Embedder(QuestionEmbedder, Protocol):
    """Texts into unit vectors."""

    async def model(self) -> EmbeddingModel:
        """The model that makes the vectors."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """Embeds texts in the bulk lane; one row per window of a text that exceeds the model's.

        Raises:
            OverloadedError: The queue is full.
        """
        ...


@dataclass(frozen=True, slots=True)
class WantedNeighbours:
    """Which of the items near to a question are wanted: the `depth` nearest that `scope` accepts.

    An item with several vectors counts by its best one. A fact must hold by `scope.clocks`; where
    the filter restricts, one of its evidence segments must pass it.

    Attributes:
        kind: Segments or facts.
        scope: What the items must pass.
        depth: The most of them.
        only: Items beside which nothing is considered; None considers all.
        token: A write to wait for. An engine, which follows no log, does not look at it.
    """

    kind: ItemKind
    scope: Scope
    depth: int
    only: Collection[ItemId] | None = None
    token: ConsistencyToken | None = None


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What the vector index found, best first, and whether it knows the caller's write.

    `evidence` has, for each fact found, the ids of its segments that the scope
    accepts, strongest first. `embedding_s` is what a `SemanticSearch` waited for the vector.
    `unsearched` says why some of the rows were not searched; empty if all were. `twins` are the
    parts, "embedder" and "index", in whose place their twins on a CPU have answered.
    """

    candidates: list[Candidate]
    epoch: int
    stale: bool = False
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    embedding_s: float = 0.0
    unsearched: str = ""
    twins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTier:
    """How the rows of one kind of a tenant are searched, and how well.

    Without lists the numbers about them are 0 and the curve is empty. `rows` are those that
    live, `tail` those of all that no lists have, `dead` those that are gone but take memory.
    `recall` is the last that was audited, or else that of the calibration. `rebuilding` says how
    far new lists are, `failure` why there are none; both are empty otherwise. `memory_bytes` is a
    plan, not a count.
    """

    kind: ItemKind
    rows: int
    dead: int
    memory_bytes: int
    tail: int = 0
    n_lists: int = 0
    n_probes: int = 0
    recall_target: float = 1.0
    recall: float = 1.0
    audited: bool = False
    curve: tuple[CurvePoint, ...] = ()
    rebuilding: str = ""
    failure: str = ""

    @property
    def dead_share(self) -> float:
        """The share of the dead among all rows; 0 if there are none."""
        return self.dead / (self.rows + self.dead) if self.dead else 0.0


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """The state of a vector index.

    Ready, it has a `reason` if its twin answers in its place. Not `ready`, it is `incomplete` if
    rows of its model are still being made, as after a change of the model; else it is being
    filled, or has failed. `epoch` counts how often it was filled or put its rows into another
    shape, from 1. `tiers` are of one tenant.
    """

    ready: bool
    vector_count: int
    epoch: int
    reason: str = ""
    incomplete: bool = False
    tiers: tuple[IndexTier, ...] = ()


Question = TypeVar("Question", contravariant=True)


class NeighbourSearch(Protocol[Question]):
    """What is nearest to a question, which comes as a vector or as a text."""

    async def search(
        self, question: Question, /, wanted: WantedNeighbours, deadline: Deadline
    ) -> IndexAnswer:
        """Finds the wanted neighbours of the question; scores are cosines.

        Waits for the token until the deadline, then answers all the same with `stale` set.

        Raises:
            ValueError: The question is a vector of another dimension than the index.
            OverloadedError: It is a text, and the embedder's queue is full.
            TimeoutError: The deadline passed first.
            DependencyError: The index is not ready; `why` says what it waits for.
        """
        ...


class VectorIndex(NeighbourSearch[VectorLike], Protocol):
    """Nearest neighbours of a vector, among those of the segments and of the facts."""

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        ...

    async def caught_up(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the index has seen the write; False if the deadline passes first."""
        ...

    async def status(self, tenant: TenantName | None = None) -> IndexStatus:
        """Its state, with how the rows of a tenant are searched if one is named."""
        ...


class SemanticSearch(NeighbourSearch[str], Protocol):
    """An embedder and the index of its vectors in one place: one call with a text asks both."""


# ---------------------------------------------------------------- words


class LexicalSearch(Protocol):
    """The leg of words."""

    async def search(
        self, query: Query, words: WordsSearch, depth: int, enough: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds segments by words, best first; nothing for a question of stop words only.

        Args:
            query: The question.
            words: How to match and score.
            depth: The most candidates.
            enough: With fewer of them ALL_THEN_ANY takes rows with any of the words.
            deadline: When to give up.
        """
        ...


class NameResolver(Protocol):
    """Which known names a question's unknown words stand for."""

    async def meant(
        self, tenant: TenantName, words: Sequence[str], deadline: Deadline
    ) -> Mapping[str, str]:
        """The words of the tenant's names that some of these words stand for, by these.

        A word stands for a name only if no segment of the tenant has it, in any of its forms; then
        `NameIndex` of the tenant's names decides.

        Args:
            tenant: Whose names.
            words: Single words, as the question writes them, of `LEAST_LETTERS` and more.
            deadline: When to give up.
        """
        ...


# ---------------------------------------------------------------- relations


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSegment:
    """A segment as the graph keeps it."""

    tenant: TenantName
    segment: Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphFact:
    """A fact as the graph keeps it."""

    tenant: TenantName
    fact: Fact


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChanges:
    """What to bring the graph to: these rows as they are, those gone."""

    segments: Sequence[GraphSegment] = ()
    facts: Sequence[GraphFact] = ()
    removed: Sequence[tuple[TenantName, ItemId]] = ()


class Graph(Protocol):
    """The leg of relations, and the projection it stands on."""

    async def search(
        self,
        query: Query,
        walk: Walk,
        seeds: Sequence[ItemId] | None,
        depth: int,
        yields: Yields,
        deadline: Deadline,
    ) -> list[Candidate]:
        """Walks from its seeds, one and two hops.

        Returns segments (mentions and evidence), or with `Yields.FACTS` the
        facts in place of their evidence; best first, each with the path that
        found it and, if evidence, the facts.

        Args:
            query: The question, whose scope all that is found must pass.
            walk: What is followed, how far, and how what is reached is ordered.
            seeds: The segments to start from, the best first: at the entities that they stand
                for. None means the entities that the question names.
            depth: The most candidates.
            yields: Whether facts or segments are asked for.
            deadline: When to give up.
        """
        ...

    async def related(
        self, query: Query, seeds: Sequence[ItemId], depth: int, deadline: Deadline
    ) -> list[Candidate]:
        """Finds the segments that mention what the seeds mention and the question does not.

        An entity that m segments mention gives `1 / ((r + 1) * m)` to each of them by the seed
        of rank r, counted from 1; with more than some dozens of mentions it gives nothing, nor
        if the question names it (`domain.text.names_entity`): what that leads to, other legs
        find. What arrives is added up. A seed is found only by another one.

        Args:
            query: The question, and what may be found.
            seeds: Segments, the best first; others are left out.
            depth: The most candidates.
            deadline: When to give up.

        Returns:
            Segments, best first, each with the entities that it shares.
        """
        ...

    async def apply(self, changes: GraphChanges) -> None:
        """Brings the graph to the given state in one transaction; a repeat changes nothing."""
        ...

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        ...

    async def count_entities(self, tenant: TenantName) -> int:
        """How many entities it holds for the tenant."""
        ...

    async def prepare(self) -> None:
        """Sets up constraints and indexes; a repeat changes nothing."""
        ...


class EntityExtractor(Protocol):
    """Names the entities of a segment that comes without."""

    def extract(self, segment: Segment, known_names: Mapping[str, str]) -> tuple[str, ...]:
        """The names found, in the order of the text.

        Args:
            segment: The segment.
            known_names: The tenant's names, by `name_key`.
        """
        ...


# ---------------------------------------------------------------- reading the question


class DateReader(Protocol):
    """Finds what a question says of time."""

    def periods(self, question: str, as_of: datetime) -> tuple[Period, ...]:
        """The periods that the question names, in its order.

        Args:
            question: Any text.
            as_of: When it is asked, with its zone: what "last week" goes by.
        """
        ...


# ---------------------------------------------------------------- reranking


@dataclass(frozen=True, slots=True)
class Pair:
    """The tokens of a question and a text; `types` tells one from the other, in some models."""

    ids: Sequence[int]
    types: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.ids)


class CrossEncoder(Protocol):
    """Reads question and text together, on one device. Synchronous.

    One thread scores at a time; one other may tokenize meanwhile.
    """

    def device(self) -> Device:
        """What computes it."""
        ...

    def tokenize(self, query: str, texts: Sequence[str]) -> list[Pair]:
        """Makes one row of each text; what exceeds the window is cut from the text."""
        ...

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """The raw logit of each text's relevance, in the order of the pairs; higher is better."""
        ...


class Reranker(Protocol):
    """A second opinion on the head of a list."""

    async def rerank(self, query: str, texts: Sequence[str], deadline: Deadline) -> list[float]:
        """The raw logit of each text's relevance, in their order; higher is better.

        Raises:
            NotReadyError: There is no model, or it is being loaded; `why` says which.
            DependencyError: The model failed.
            OverloadedError: The queue is full.
            TooSlowError: It would take longer than until the deadline.
            TimeoutError: The deadline passed first.
        """
        ...


# ---------------------------------------------------------------- truth

Outcome = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """What one transaction did, item by item in the order given."""

    outcomes: list[Outcome]
    token: ConsistencyToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """What to erase: exactly one of these."""

    items: tuple[ItemId, ...] | None = None
    session: str | None = None
    speaker: str | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class EraseReceipt:
    """What was erased."""

    items: list[ItemId]
    token: ConsistencyToken


@dataclass(frozen=True, slots=True)
class TenantCounts:
    """What is stored for a tenant. `text_search_config` is empty for an unknown one."""

    segments: int
    sensitive_segments: int
    facts: int
    embedded: int
    embeddable: int
    text_search_config: str


class MemoryStore(Protocol):
    """The truth: what was written, transactionally."""

    async def write(
        self,
        tenant: TenantName,
        items: Sequence[Item],
        text_search_config: str = "",
        extracted: frozenset[ItemId] = frozenset(),
        undated: frozenset[ItemId] = frozenset(),
    ) -> WriteReceipt:
        """Stores the items, which are distinct by name, in one transaction.

        An item whose content is stored already is left alone; the token covers
        the write that stored it. The entities of the segments in `extracted`
        and the time of the items in `undated` were given by the service, and
        so are no part of their content: a repeat changes neither.

        Raises:
            TextSearchConfigConflictError: The tenant has another one.
            InvalidRequestError: `text_search_config` names none that exists.
        """
        ...

    async def erase(self, tenant: TenantName, selector: Selector) -> EraseReceipt:
        """Erases what is selected, and the facts left without any evidence."""
        ...

    async def load(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> dict[ItemId, Item]:
        """Reads the rows of the items that exist."""
        ...

    async def known_names(self, tenant: TenantName) -> Mapping[str, str]:
        """The names of the tenant's entities, by `name_key`."""
        ...

    async def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it still holds."""
        ...

    async def ready(self) -> bool:
        """Whether a call would succeed now. Never raises."""
        ...


class Catalog(Protocol):
    """Reading back, in pages by id."""

    async def list_segments(
        self, tenant: TenantName, filter_: Filter, after: str, limit: int
    ) -> list[Segment]:
        """The segments whose id follows `after`, by id."""
        ...

    async def list_facts(
        self,
        tenant: TenantName,
        entities: Sequence[str],
        valid_at: datetime | None,
        after: str,
        limit: int,
    ) -> list[Fact]:
        """The facts whose id follows `after`, by id."""
        ...

    async def tenant_counts(self, tenant: TenantName, model: EmbeddingModel | None) -> TenantCounts:
        """What is stored for the tenant."""
        ...

    async def set_aside(self, tenant: TenantName, limit: int) -> list[SetAside]:
        """The tenant's rows that a projection could not take, newest first."""
        ...


class AccessLog(Protocol):
    """Remembers what was shown, off the read path."""

    def record(self, tenant: TenantName, items: Iterable[ItemId]) -> None:
        """Counts one access of each item; returns at once."""
        ...

    async def shown_counts(
        self, tenant: TenantName, items: Sequence[ItemId], deadline: Deadline
    ) -> Mapping[ItemId, int]:
        """How often each item was shown, what is not stored yet included; 0 may be left out."""
        ...

    async def recently_accessed(self, scope: Scope, limit: int, deadline: Deadline) -> list[ItemId]:
        """The segments of the scope that were shown last, latest first; no sensitive one.

        What was never shown, or said since, counts by when it was said.
        """
        ...


class Timeline(Protocol):
    """Segments by time alone."""

    async def latest(self, scope: Scope, depth: int, deadline: Deadline) -> list[Candidate]:
        """The latest segments of the scope; a score is the time of the event, in seconds."""
        ...


# ---------------------------------------------------------------- projections


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row that a projection could not take."""

    projection: Projection
    item: ItemId
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Change:
    """One changed item; what became of it is read from the tables."""

    key: int
    tenant: TenantName
    item: ItemId
    xid: int


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Whole transactions from the log, oldest first, and where the reader is after them.

    `last` if the log held no more.
    """

    changes: list[Change]
    position: Snapshot
    last: bool


@dataclass(frozen=True, slots=True)
class EmbeddingTask:
    """A text to embed. `text_hash` tells whether the row is still the same when it is saved."""

    change: Change
    text: str
    text_hash: bytes


@dataclass(frozen=True, slots=True)
class ProjectionStatus:
    """How far a projection is."""

    projection: Projection
    pending: int
    lag_s: float
    set_aside: int


class ChangeLog(Protocol):
    """The log of changes, as the projector reads it."""

    def leadership(
        self, projection: Projection, model: EmbeddingModel | None
    ) -> AbstractAsyncContextManager[None]:
        """Waits until this process leads the projection to `model`; leads until the exit.

        The lead is lost with the connection: then the context's next use
        raises `StoreUnavailableError`.
        """
        ...

    async def next_batch(
        self, projection: Projection, model: EmbeddingModel | None, limit: int
    ) -> ChangeBatch:
        """The next changes; whole transactions, so it may exceed `limit` by the last of them.

        `model` is that of the embedding projection (each model has its own
        position) and None for the graph. An empty batch still moves on.
        """
        ...

    async def embedding_tasks(
        self, changes: Sequence[Change], model: EmbeddingModel
    ) -> list[EmbeddingTask]:
        """What of the changes needs a vector: neither gone, nor sensitive, nor up to date."""
        ...

    async def save_embeddings(
        self, model: EmbeddingModel, vectors: Sequence[tuple[EmbeddingTask, Vectors]]
    ) -> None:
        """Stores vectors (fp16) of the rows that are still as they were, and logs that."""
        ...

    async def graph_changes(self, changes: Sequence[Change]) -> GraphChanges:
        """What the changed rows should be in the graph now; the sensitive are removed."""
        ...

    async def set_aside(
        self, projection: Projection, model: EmbeddingModel | None, change: Change, reason: str
    ) -> None:
        """Notes that the projection could not take the row, in place of an older note."""
        ...

    async def advance(
        self,
        projection: Projection,
        model: EmbeddingModel | None,
        position: Snapshot,
        *,
        complete: bool = False,
    ) -> None:
        """Notes that everything in `position` is projected.

        Args:
            projection: The projection.
            model: Its model, if it has one.
            position: Up to where.
            complete: Whether `model` lacks no vector. From then on it lacks only the latest, until
                another model is complete.
        """
        ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""
        ...

    async def status(self, model: EmbeddingModel | None) -> list[ProjectionStatus]:
        """How far each projection is."""
        ...

    async def compact(self) -> int:
        """Deletes what no reader needs any more, and returns how many rows; for now and then."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRow:
    """An item as the vector index keeps it: vectors, and what filters need.

    `vectors`: float16 (windows, dimension); a segment without any is there for filters on the
    facts that rest on it, and is not found. For a segment `terms` are its
    `segment_terms`; for a fact `evidence` are its segments' ids, and `valid_to` is what was
    stated, which `closings` may precede.
    """

    tenant: TenantName
    item: ItemId
    vectors: NDArray[np.float16]
    terms: frozenset[str] = frozenset()
    importance: float = 0.0
    event_time: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    recorded_at: datetime | None = None
    retracted_at: datetime | None = None
    closings: tuple[Closing, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def final_end(self) -> datetime | None:
        """When the truth of a fact ended, as it is known for good; None if it had not."""
        return final_end(self.valid_to, self.closings)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What an index engine found, best first; `evidence` as in `IndexAnswer`.

    `generation` counts how often the engine had put its rows into another shape before.
    """

    candidates: list[Candidate]
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    generation: int = 0


class DamagedSnapshotError(Exception):
    """The files of a snapshot cannot be read, or are another's; the message says what is wrong."""


class UnsoundRowsError(ValueError):
    """Rows have a vector that is zero or not finite, which no search could score.

    Args:
        names: All of them; at least one.
    """

    def __init__(self, names: Sequence[tuple[TenantName, ItemId]]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        more = f" and of {len(self.names) - 1} more" if len(self.names) > 1 else ""
        return f"a vector of {self.names[0][1].id!r}{more} is zero or not finite"


class IndexEngine(Protocol):
    """The searchable rows of a vector index. Synchronous.

    One thread at a time applies changes; others may search meanwhile, and see
    the rows as before or after a change, never in between.
    """

    def apply(self, rows: Sequence[IndexRow], removed: Sequence[tuple[TenantName, ItemId]]) -> None:
        """Puts rows in the place of those of the same name, and removes others.

        Of rows of one name the last counts.

        Raises:
            ValueError: A row's vectors have another dimension than the engine; nothing was
                changed.
            UnsoundRowsError: One of them is zero or not finite; nothing was changed.
        """
        ...

    def search(self, vector: VectorLike, wanted: WantedNeighbours) -> Neighbours:
        """Finds the wanted neighbours of a vector; scores are cosines.

        Raises:
            ValueError: `vector` has another dimension than the engine, or is zero or not finite.
        """
        ...

    def scan_size(self, tenant: TenantName, kind: ItemKind) -> int:
        """How many vectors a search of the tenant reads at most."""
        ...

    def count(self, tenant: TenantName, items: Sequence[ItemId]) -> int:
        """How many of the items it holds."""
        ...

    @property
    def vector_count(self) -> int:
        """How many vectors it holds."""
        ...

    def save(self, folder: Path) -> None:
        """Writes what it holds into an empty folder.

        The thread that calls `maintain` calls it; others may apply changes and search meanwhile.

        Raises:
            OSError: The files cannot be written.
        """
        ...

    def restore(self, folder: Path) -> None:
        """Takes over what `save` wrote, in the place of what it holds; before anything else.

        Raises:
            DamagedSnapshotError: The files are cut short, changed, or of another dimension.
        """
        ...

    @property
    def generation(self) -> int:
        """How often it has put rows into another shape; does not change once it is closed."""
        ...

    def tiers(self, tenant: TenantName | None = None) -> list[IndexTier]:
        """How rows are searched, by tenant and kind: those of one tenant, or of all."""
        ...

    def maintain(self) -> None:
        """Does what is due about the shape of its rows, which may take minutes.

        One thread calls it, beside the one that applies changes and those that search.
        Returns early when the engine is closed.
        """
        ...

    def close(self) -> None:
        """Ends maintenance, also one under way. Returns at once; searches go on."""
        ...


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """Where an index is: the log up to `log`, with all embeddings of the writes in `embedded`.

    `complete` if the model was the last to have a vector of everything.
    """

    epoch: str
    log: Snapshot
    embedded: Snapshot
    complete: bool


@dataclass(frozen=True, slots=True)
class FeedDelta:
    """What changed since a position. A row replaces the one of its name."""

    rows: list[IndexRow]
    removed: list[tuple[TenantName, ItemId]]
    position: FeedPosition


class FeedLostError(Exception):
    """The log no longer reaches back to the position: start again from `bootstrap`."""


@dataclass(frozen=True, slots=True)
class SnapshotLabel:
    """Whose vectors a snapshot holds, and where it is in the log.

    `epoch` is that of the index when it was written.
    """

    model: EmbeddingModel
    position: FeedPosition
    epoch: int


class IndexSnapshots(Protocol):
    """What an index held before, over a restart. Synchronous; each call may take minutes."""

    def save(self, engine: IndexEngine, label: SnapshotLabel) -> None:
        """Writes what the engine holds; the thread that maintains it calls this.

        The engine may be ahead of the label's position: what is applied twice changes nothing.

        Raises:
            OSError: It cannot be written; those there are stay.
        """
        ...

    def restore(self, engine: IndexEngine, model: EmbeddingModel) -> SnapshotLabel | None:
        """Fills an empty engine with the newest that is whole; None if there is none."""
        ...


class IndexFeed(Protocol):
    """PostgreSQL as the source of a vector index."""

    def bootstrap(
        self, model: EmbeddingModel
    ) -> AbstractAsyncContextManager[tuple[FeedPosition, AsyncIterator[list[IndexRow]]]]:
        """All rows of one snapshot that have a current vector of `model`, in batches."""
        ...

    async def changes_since(self, position: FeedPosition, model: EmbeddingModel) -> FeedDelta:
        """What was committed since; deletions and sensitive rows at once, vectors when made.

        Raises:
            FeedLostError: The position is of another epoch, or too old.
        """
        ...

    async def lag_s(self, position: FeedPosition) -> float:
        """The age in seconds of the oldest change since; 0 if there is none."""
        ...

    async def embedded_share(self, model: EmbeddingModel) -> float:
        """The share, 0 to 1, of what should have a vector of `model` and has one."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when something changed, or after the timeout."""
        ...


class Consistency(Protocol):
    """How far the projections are, for a read that carries a token."""

    async def graph_has_seen(self, token: ConsistencyToken, deadline: Deadline) -> bool:
        """Waits until the graph holds the write; False if the deadline passes first."""
        ...

    async def set_aside_counts(self, token: ConsistencyToken) -> Mapping[Projection, int]:
        """How many rows of the write each projection set aside."""
        ...

    async def epoch(self) -> str:
        """The log's epoch."""
        ...
