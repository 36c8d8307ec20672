"""The examples, and the sample conversation."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import pytest

from examples.english_facts import EnglishFacts
from serving.domain.english.entities import entities_in
from serving.ports.text_analysis import Conversation, ProposedFact
from tests.fakes.service import Failure, FakeService
from tests.support.builders import segment
from trivium import AsyncClient, Fact, Segment
from trivium.files.reading import Question, read_items, read_questions
from trivium.files.records import Problem
from trivium.v1.retrieval_service_pb2 import RetrieveResponse, RetrieveStreamResponse

EXAMPLE = Path(__file__).parents[4] / "examples/bot.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bot_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bot_example = load_example()


def recalled(text: str) -> RetrieveStreamResponse:
    memory = RetrieveResponse(briefing=f"<memory>{text}</memory>")
    return RetrieveStreamResponse(retrieved=memory, request_number=1, final=True)


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is late, however busy the machine is."""
    monkeypatch.setattr(bot_example, "Recall", partial(bot_example.Recall, budget=60))


@pytest.mark.usefixtures("unhurried")
async def test_bot_puts_its_memory_into_the_prompt(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_service.will_answer("RetrieveStream", recalled("the eighth"))
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    await bot.reply("When is it?")
    await bot.finish()

    prompt = capsys.readouterr().out
    assert "<memory>the eighth</memory>" in prompt
    assert prompt.index("<memory>") < prompt.index("Nora: When is it?")


async def test_bot_starts_with_the_loaded_context(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_service.will_answer("Retrieve", {"briefing": "<memory>Goa</memory>"})
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    warmed, asked = fake_service.requests
    await bot.reply("When is it?")
    await bot.finish()

    assert warmed.DESCRIPTOR.name == "WarmRequest"
    assert (asked.profile, asked.limit) == ("opening", 10)
    assert "<memory>Goa</memory>" in capsys.readouterr().out


async def test_bot_recalls_within_80_ms_and_stores_both_turns(
    async_client: AsyncClient, fake_service: FakeService
) -> None:
    bot = bot_example.Bot(async_client, "Nora")

    await bot.reply("When is it?")
    await bot.finish()

    (recall,), *stored = fake_service.requests
    assert recall.retrieve.time_budget.ToMilliseconds() == 72
    segments = [item.segment for each in stored for item in each.items]
    assert [segment.speaker for segment in segments] == ["Nora", "Bot"]
    assert len({segment.session for segment in segments}) == 1


@pytest.mark.usefixtures("unhurried")
async def test_bot_answers_without_its_memory(
    async_client: AsyncClient, fake_service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    down = Failure(grpc.StatusCode.PERMISSION_DENIED, "no")
    for method in ("Warm", "Retrieve", "RetrieveStream"):
        fake_service.will_answer(method, down)
    fake_service.will_answer("Ingest", down, down)
    bot = bot_example.Bot(async_client, "Nora")

    await bot.warm_up()
    replied = await bot.reply("When is it?")
    await bot.finish()

    assert replied == "I see."
    assert "failed=1" in (said := capsys.readouterr().out)
    assert "write_failures=2" in said


# ---------------------------------------------------------------- the hook before a prompt


HOOK = Path(__file__).parents[4] / "examples/before_prompt.py"


class Listening(ThreadingHTTPServer):
    """Answers each request with a block, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = 200
        self.requests: list[tuple[str, str | None, dict[str, Any]]] = []


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Listening)
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, self.headers["authorization"], body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps({"briefing": "We sailed to Goa “once”.", "hits": []}).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def listening() -> Iterator[Listening]:
    with Listening() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(given: bytes, port: int, host: str = "127.0.0.1", **more: str) -> tuple[str, str]:
    """What the hook prints, and what it says of failures; it imports nothing but Python's own."""
    environment = {"TRIVIUM_HTTP": f"http://{host}:{port}", "TRIVIUM_TENANT": "acme", **more}
    command = [sys.executable, "-I", "-S", str(HOOK)]
    done = subprocess.run(command, input=given, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode(), done.stderr.decode()


def test_hook_prints_memories_for_a_prompt(listening: Listening) -> None:
    given = json.dumps({"prompt": "Where did we sail?"}).encode()

    of_alice = {"TRIVIUM_TOKEN": "trv_key", "TRIVIUM_TIME_ZONE": "Asia/Tokyo"}
    printed = run(given, listening.server_port, **of_alice)

    assert printed == ("We sailed to Goa “once”.\n", "")
    ((path, authorization, body),) = listening.requests
    assert (path, authorization) == ("/v1/retrieve", "Bearer trv_key")
    assert (body["tenant"], body["query"]) == ("acme", "Where did we sail?")
    assert body["time_zone"] == "Asia/Tokyo"


@pytest.mark.parametrize("given", [b"", b"{", b"null", b"[]", b"{}", b'{"prompt": ', b"\xff\xfe"])
def test_bad_input_prints_nothing_and_says_so(given: bytes) -> None:
    out, err = run(given, 1)

    assert out == ""
    assert err.startswith("trivium: no memory for this prompt")
    assert err.count("\n") == 1


@pytest.mark.parametrize("status", [0, 401, 503])
def test_prompt_goes_on_without_the_service(listening: Listening, status: int) -> None:
    listening.status = status
    out, err = run(b'{"prompt": "x"}', listening.server_port if status else 1)

    assert out == ""
    assert (str(status) if status else "refused") in err


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not answer by HTTP"),
        (b"", "does not answer by HTTP"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n<h1>proxy</h1>", "status 502: <h1>proxy</h1>"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"briefing": "cut', "JSONDecodeError"),
    ],
)
def test_answer_of_something_else_is_said(answer: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=answer_once)
        thread.start()
        out, err = run(b'{"prompt": "x"}', server.getsockname()[1])
        thread.join()

    assert out == ""
    assert why in err


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1", ""])
def test_address_without_its_scheme_is_refused(url: str) -> None:
    _, err = run(b'{"prompt": "x"}', 1, TRIVIUM_HTTP=url)

    assert "TRIVIUM_HTTP must be such as http://" in err


def test_hook_imports_neither_http_client_nor_ssl(listening: Listening) -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK)]
    environment = {"TRIVIUM_HTTP": f"http://127.0.0.1:{listening.server_port}"}
    done = subprocess.run(
        command, input=b'{"prompt": "x"}', env=environment, capture_output=True, check=True
    )

    imported = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    assert done.stdout
    assert b"socket" in imported
    assert not imported & {b"http.client", b"email.parser", b"ssl"}


def test_hook_sends_no_token_in_clear_text(listening: Listening) -> None:
    # A name that is not of loopback, and yet leads here.
    given, port = b'{"prompt": "x"}', listening.server_port
    out, err = run(given, port, host="0.0.0.0", TRIVIUM_TOKEN="trv_key")

    assert (out, listening.requests) == ("", [])
    assert "https" in err
    run(given, port, host="0.0.0.0", TRIVIUM_TOKEN="trv_key", TRIVIUM_TOKEN_WITHOUT_TLS="1")
    assert listening.requests[0][1] == "Bearer trv_key"


# ---------------------------------------------------------------- the sample


SAMPLE = Path(__file__).parents[4] / "serving/desk/sample"


def refuse(problem: Problem) -> None:
    raise AssertionError(str(problem))


ITEMS = [
    found.item
    for found in read_items(
        [str(SAMPLE / "conversation.jsonl"), str(SAMPLE / "facts.jsonl")], refuse
    )
]
TURNS = {item.id: item for item in ITEMS if isinstance(item, Segment)}
FACTS = {item.id: item for item in ITEMS if isinstance(item, Fact)}
QUESTIONS = [
    question
    for name in ("questions.jsonl", "unanswerable.jsonl")
    for question in read_questions(str(SAMPLE / name), refuse)
]
BY_RETRIEVER = {question.retriever: question for question in QUESTIONS}


def answer_of(question: Question) -> Segment:
    (id_,) = question.answer
    return TURNS[id_]


def evidence() -> set[str]:
    return {id_ for fact in FACTS.values() for id_ in fact.evidence}


def test_sample_has_the_size_that_its_readme_says() -> None:
    sessions = {turn.session for turn in TURNS.values()}

    assert (len(TURNS), len(sessions), len(FACTS), len(QUESTIONS)) == (163, 14, 63, 10)
    assert len(TURNS) + len(FACTS) == len(ITEMS), "an id is there twice"


def test_every_fact_rests_on_turns_that_exist() -> None:
    assert evidence() <= TURNS.keys()
    assert all(fact.evidence for fact in FACTS.values())


@pytest.mark.parametrize(
    ("subject", "relation", "now"),
    [
        ("Idris", "works at", "Contour Press"),
        ("Nora", "works at", "Marshgate Wildlife Hospital"),
        ("Nora", "lives in", "Bedminster"),
        ("wedding", "planned for", "8 November 2025"),
        ("baby", "due on", "12 December 2025"),
        ("nursery", "is painted", "green"),
    ],
)
def test_changed_fact_is_closed_and_replaced(subject: str, relation: str, now: str) -> None:
    facts = [
        each for each in FACTS.values() if (each.subject, each.relation) == (subject, relation)
    ]

    (former,) = (fact for fact in facts if fact.valid_to is not None)
    (current,) = (fact for fact in facts if fact.valid_to is None)
    assert current.object == now
    assert former.valid_to is not None
    assert current.valid_from is not None
    assert former.valid_to <= current.valid_from


def test_answerable_questions_test_every_retriever() -> None:
    assert Counter(bool(question.answer) for question in QUESTIONS) == {True: 5, False: 5}
    assert all(question.answerable == bool(question.answer) for question in QUESTIONS)
    assert all(answer_of(question) for question in QUESTIONS if question.answer)
    assert set(BY_RETRIEVER) - {""} == {
        "words",
        "meaning",
        "relations",
        "words and meaning",
        "facts over time",
    }


# ---------------------------------------------------------------- facts of English turns


PATTERNS = EnglishFacts()
SAID = datetime(2024, 6, 8, 15, tzinfo=UTC)


async def facts_in(text: str, speaker: str = "Ann") -> tuple[ProposedFact, ...]:
    said = segment("t", text, speaker=speaker, event_time=SAID)
    said = replace(said, entities=entities_in(said, {}))
    return (await PATTERNS.extract(Conversation(turns=(said,)))).facts


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("I'm a nurse at the Mercy clinic.", "Ann is a nurse at the Mercy clinic."),
        ("Oh, and I have a dog called Rex!", "Ann has a dog called Rex."),
        ("My sister works at Google.", "Ann's sister works at Google."),
        ("I’ve finished my thesis.", "Ann has finished Ann's thesis."),
        ("I live in Lisbon now, with Tom.", "Ann lives in Lisbon."),
        ("I moved to Porto last month.", "Ann lives in Porto (May 2024)."),
        ("Good news: Tom Hale bought a boat.", "Tom Hale bought a boat."),
        ("We hiked up there yesterday.", "Ann hiked up there yesterday (7 June 2024)."),
        ("I just love my garden and I miss it.", "Ann loves Ann's garden."),
    ],
)
async def test_a_statement_is_restated_in_the_third_person(text: str, sentence: str) -> None:
    (found,) = await facts_in(text)

    assert found.sentence == sentence
    assert found.evidence == ("t",)


@pytest.mark.parametrize(
    "text",
    [
        "Do I like tea?",
        "I don't like tea.",
        "I never went to Rome.",
        "If I win I buy a boat.",
        "I'd love a boat.",
        "Thanks, that is great!",
        "The weather is bad.",
        "Wow!",
        "",
    ],
)
async def test_questions_negations_and_wishes_state_nothing(text: str) -> None:
    assert await facts_in(text) == ()


async def test_a_turn_without_a_speaker_says_nothing_about_anyone() -> None:
    assert await facts_in("I live in Lisbon.", speaker="") == ()


async def test_fact_begins_on_its_named_day_unless_future() -> None:
    (past,) = await facts_in("I went to Rome on 3 May 2024.")
    (ahead,) = await facts_in("I'm going to Rome tomorrow.")

    assert past.valid_from == datetime(2024, 5, 3, tzinfo=UTC)
    assert ahead.valid_from is None


async def test_a_home_and_an_employer_replace_the_former_ones() -> None:
    moved, bought = await facts_in("I moved to Porto. I bought a boat.")

    assert (moved.relation, moved.object, moved.single_valued) == ("lives in", "Porto", True)
    assert not bought.single_valued
