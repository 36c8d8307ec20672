"""The faults of JSON that is no message: in words of the API, with their place."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import Message

from serving.http.messages import from_json
from serving.rpc.registration import Malformed
from trivium.v1.ingest_service_pb2 import IngestRequest
from trivium.v1.retrieval_service_pb2 import RetrieveRequest

TIME = 'a time with its zone, such as "2026-05-01T12:00:00Z"'
INTEGER = "an integer of 32 bits"


def fault(body: str | bytes, message_class: type[Message], *, strict: bool = True) -> str:
    data = body.encode() if isinstance(body, str) else body
    read: Any = from_json(data, message_class, strict=strict)
    assert isinstance(read, Malformed), read
    assert read.why.startswith(f"is not JSON of {message_class.DESCRIPTOR.name}: ")
    return read.why.partition(": ")[2]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"query": 3}', "query must be a text"),
        ('{"query": "\\ud800"}', "query must be a text"),
        ('{"limit": "x"}', f"limit must be {INTEGER}"),
        ('{"limit": 1.5}', f"limit must be {INTEGER}"),
        ('{"limit": 99999999999}', f"limit must be {INTEGER}"),
        ('{"limit": NaN}', f"limit must be {INTEGER}"),
        ('{"explain": "yes"}', "explain must be true or false"),
        ('{"filter": 3}', "filter must be an object"),
        ('{"filter": {"speakers": "a"}}', "filter.speakers must be a list"),
        ('{"filter": {"speakers": ["a", 3]}}', "filter.speakers[1] must be a text"),
        ('{"vector": ["x"]}', "vector[0] must be a number"),
        ('{"timeBudget": 5}', 'timeBudget must be seconds, such as "0.1s"'),
        ('{"as_of": "yesterday"}', f"as_of must be {TIME}"),
        ('{"filter": {"eventTime": {"start": ""}}}', f"filter.eventTime.start must be {TIME}"),
        ('{"profileOverrides": "x"}', "profileOverrides must be an object"),
        ('{"nope": 1}', "there is no field nope"),
        ('{"filter": {"nope": 1}}', "there is no field filter.nope"),
        ('{"query": "a", "query": "b"}', "it has a name twice"),
        ('{"query"', "Expecting ':' delimiter in line 1, column 9"),
        (b'{"query": "\xff"}', "it is not UTF-8"),
        ('{"a":' * 20_000, "it is nested too deeply"),
    ],
)
def test_fault_of_a_question_has_its_place(body: str | bytes, expected: str) -> None:
    assert fault(body, RetrieveRequest) == expected


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("3", " must be an object"),
        ("null", " must be an object"),
        ('{"segment": {"labels": {"a": 3}}}', ".segment.labels.a must be a text"),
        ('{"segment": {"labels": ["a"]}}', ".segment.labels must be an object"),
        ('{"segment": {"sensitive": 1}}', ".segment.sensitive must be true or false"),
        ('{"segment": {}, "fact": {}}', ".fact cannot be set together with segment"),
    ],
)
def test_fault_of_an_item_has_its_number(item: str, expected: str) -> None:
    body = f'{{"items": [{{"segment": {{"text": "Fine."}}}}, {item}]}}'

    assert fault(body, IngestRequest) == f"items[1]{expected}"


def test_unknown_field_is_no_fault_to_connect() -> None:
    body = '{"nope": 1, "limit": "x"}'

    assert fault(body, RetrieveRequest, strict=False) == f"limit must be {INTEGER}"
