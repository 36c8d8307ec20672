from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from serving.ports.memory_store import Selector
from serving.rpc.forget import to_selector
from tests.support.refusals import refused_for
from trivium.v1.filter_pb2 import Exclusion, Filter, LabelFilter, TimeRange
from trivium.v1.ingest_service_pb2 import ForgetRequest, ItemIds


def selected(**fields: Any) -> Selector:
    return to_selector(ForgetRequest(**{"tenant": "acme", **fields}))[1]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "selector"),
        ({"everything": False}, "everything"),
        ({"session": ""}, "session"),
        ({"everything": True, "tenant": ""}, "tenant"),
        ({"ids": ItemIds()}, "ids"),
    ],
)
def test_a_malformed_erasure_names_its_field(fields: dict[str, Any], field: str) -> None:
    with refused_for(field):
        selected(**fields)


@pytest.mark.parametrize(
    ("filter_", "field"),
    [
        (Filter(), ""),
        (Filter(min_importance=0), ""),
        (Filter(none_of=Exclusion(sessions=["now"])), ""),
        (Filter(all_of=[Filter(none_of=Exclusion(sessions=["now"]))]), ""),
        (
            Filter(kinds=["note"], any_of=[Filter(event_time=TimeRange(start=Timestamp()))]),
            ".any_of[0].event_time.start",
        ),
        (
            Filter(labels=[LabelFilter(key="due", date=TimeRange(end=Timestamp()))]),
            ".labels[0].date.end",
        ),
        (Filter(created_at=TimeRange()), ".created_at"),
        (Filter(kinds=["note"], event_time=TimeRange()), ".event_time"),
        (Filter(event_time=TimeRange(start=Timestamp())), ".event_time.start"),
        (Filter(created_at=TimeRange(end=Timestamp())), ".created_at.end"),
        (Filter(kinds=["note"], updated_at=TimeRange(start=Timestamp())), ".updated_at.start"),
        (
            Filter(event_time=TimeRange(start=Timestamp(), end=Timestamp(seconds=86_400))),
            ".event_time.start",
        ),
        (Filter(labels=[LabelFilter(key="project")]), ".labels[0].values"),
        (Filter(labels=[LabelFilter(values=["goa"])]), ".labels[0].key"),
    ],
)
def test_erasure_by_unrestricted_filter_is_rejected(filter_: Filter, field: str) -> None:
    with refused_for(f"filter{field}"):
        selected(filter=filter_)


def test_erasure_by_label_and_time_requires_both() -> None:
    start = Timestamp(seconds=86_400)
    filter_ = Filter(
        labels=[LabelFilter(key="project", values=["goa"])], event_time=TimeRange(start=start)
    )

    selector = selected(filter=filter_)

    assert selector.filter is not None
    assert selector.filter.labels == {"project": ("goa",)}
    assert selector.filter.event_time.start == datetime(1970, 1, 2, tzinfo=UTC)
