from __future__ import annotations

from dataclasses import replace

import pytest

from serving.domain.items.records import fact_id, segment_id
from serving.pipeline.retrieval.explain_absence import Absence
from serving.pipeline.retrieval.explain_leg_absence import LegAbsence
from serving.pipeline.retrieval.leg_runner import LegState
from serving.pipeline.retrieval.order.hit import Hit, Stage
from serving.pipeline.retrieval.order.loss import Loss
from serving.rpc.explain_absence import from_absence, to_explain_absence_call
from tests.support.builders import NOON, segment
from tests.support.refusals import refused_for
from tests.unit.rpc.test_retrieve import A_LEDGER, PROFILES, retrieve
from trivium import Absence as AbsenceRead
from trivium import ItemKind, ItemRef
from trivium.v1 import item_pb2
from trivium.v1.retrieval_service_pb2 import ExplainAbsenceRequest, ExplainAbsenceResponse
from trivium.wire import responses

FOUND = LegAbsence(
    leg="dense", state=LegState.OK, rank=3, score=0.25, depth=20, reason="", loss=Loss.NONE
)
LOST = Absence(
    loss=Loss.DISPLACED,
    reason="the item is at rank 3",
    by=segment_id("other"),
    rank=3,
    hit=Hit(item=segment("a"), ledger=A_LEDGER, stage=Stage.COARSE),
    legs=(
        FOUND,
        replace(
            FOUND,
            leg="graph",
            state=LegState.TIMED_OUT,
            rank=None,
            score=None,
            depth=9,
            reason="late",
            loss=Loss.UNANSWERED,
        ),
    ),
)


def explain(**fields: object) -> ExplainAbsenceRequest:
    return ExplainAbsenceRequest(**fields)  # type: ignore[arg-type]


def read_absence(absence: Absence) -> AbsenceRead:
    """The explanation as the client has it."""
    sent = from_absence(absence).SerializeToString()
    return responses.to_absence(ExplainAbsenceResponse.FromString(sent))


def test_the_item_that_is_missed_is_a_segment_or_a_fact() -> None:
    _, item = to_explain_absence_call(
        explain(retrieve=retrieve(), item=item_pb2.ItemRef(fact_id="f")), PROFILES, NOON
    )

    assert item == fact_id("f")


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (explain(retrieve=retrieve()), "item"),
        (explain(retrieve=retrieve(), item=item_pb2.ItemRef(segment_id=" ")), "item.segment_id"),
        (
            explain(retrieve=retrieve(limit=-1), item=item_pb2.ItemRef(segment_id="a")),
            "retrieve.limit",
        ),
    ],
)
def test_a_malformed_miss_names_its_field(request_: ExplainAbsenceRequest, field: str) -> None:
    with refused_for(field):
        to_explain_absence_call(request_, PROFILES, NOON)


def test_an_absence_crosses_the_wire_whole() -> None:
    found = read_absence(LOST)

    assert (found.loss.name, found.reason, found.rank) == ("DISPLACED", "the item is at rank 3", 3)
    assert found.by == ItemRef(ItemKind.SEGMENT, "other")
    assert found.hit is not None
    assert (found.hit.id, found.hit.rank, found.hit.score) == ("a", 3, 0.5 / 63)
    assert found.hit.ledger is not None
    (term,) = found.hit.ledger.leg_terms
    assert (term.path, term.fact_ids, term.leg_score) == ("a way", ("f1",), 0.25)
    assert [
        (each.leg, each.state.name, each.rank, each.score, each.depth, each.reason)
        for each in found.legs
    ] == [("dense", "OK", 3, 0.25, 20, ""), ("graph", "TIMED_OUT", None, None, 9, "late")]


@pytest.mark.parametrize("loss", Loss)
def test_every_loss_has_a_name_that_the_client_knows(loss: Loss) -> None:
    assert read_absence(Absence(loss=loss, reason="")).loss.name == loss.name


def test_item_without_rank_or_rival_is_reported_so() -> None:
    found = read_absence(Absence(loss=Loss.NOT_MATCHED, reason="no leg finds it"))
    folded = read_absence(Absence(loss=Loss.FOLDED, reason="", by=fact_id("f2")))

    assert (found.by, found.rank, found.hit, found.legs) == (None, None, None, ())
    assert folded.by == ItemRef(ItemKind.FACT, "f2")
