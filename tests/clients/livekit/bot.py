"""A session of LiveKit Agents whose ears, model and voice follow a script."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from livekit import rtc
from livekit.agents import Agent, AgentSession, LanguageCode, llm, stt, tts
from livekit.agents.types import DEFAULT_API_CONNECT_OPTIONS
from livekit.agents.voice.io import AudioInput, AudioOutput, AudioOutputCapabilities

from tests.clients.recalling_service import PATIENCE_S, Messages
from trivium import AsyncClient
from trivium_livekit import TriviumAgent, TriviumMemory

SAMPLE_RATE = 16_000


def messages_of(chat_ctx: llm.ChatContext) -> Messages:
    messages = [each for each in chat_ctx.items if isinstance(each, llm.ChatMessage)]
    return [(each.role, each.text_content or "") for each in messages]


class ScriptedModel(llm.LLM):  # type: ignore[misc]
    """Gives the same answer each time; hands out what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.given: asyncio.Queue[Messages] = asyncio.Queue()

    def chat(self, *, chat_ctx: llm.ChatContext, **options: Any) -> llm.LLMStream:
        self.given.put_nowait(messages_of(chat_ctx))
        tools = options.get("tools") or []
        return _Answer(
            self, chat_ctx=chat_ctx, tools=tools, conn_options=DEFAULT_API_CONNECT_OPTIONS
        )


class _Answer(llm.LLMStream):  # type: ignore[misc]
    async def _run(self) -> None:
        delta = llm.ChoiceDelta(role="assistant", content="I see.")
        self._event_ch.send_nowait(llm.ChatChunk(id="1", delta=delta))


class ScriptedEars(stt.STT):  # type: ignore[misc]
    def __init__(self) -> None:
        capabilities = stt.STTCapabilities(streaming=True, interim_results=True)
        super().__init__(capabilities=capabilities)
        self.script: asyncio.Queue[stt.SpeechEvent] = asyncio.Queue()

    async def _recognize_impl(self, *_: Any, **__: Any) -> stt.SpeechEvent:
        raise NotImplementedError

    def stream(self, **_: Any) -> stt.RecognizeStream:
        return _Heard(stt=self, conn_options=DEFAULT_API_CONNECT_OPTIONS)


class _Heard(stt.RecognizeStream):  # type: ignore[misc]
    async def _run(self) -> None:
        while True:
            self._event_ch.send_nowait(await self._stt.script.get())


class ScriptedVoice(tts.TTS):  # type: ignore[misc]
    """Says everything in ten milliseconds of silence; keeps what it said."""

    def __init__(self) -> None:
        super().__init__(
            capabilities=tts.TTSCapabilities(streaming=False),
            sample_rate=SAMPLE_RATE,
            num_channels=1,
        )
        self.said: list[str] = []

    def synthesize(self, text: str, **_: Any) -> tts.ChunkedStream:
        self.said.append(text)
        return _Said(tts=self, input_text=text, conn_options=DEFAULT_API_CONNECT_OPTIONS)


class _Said(tts.ChunkedStream):  # type: ignore[misc]
    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="1", sample_rate=SAMPLE_RATE, num_channels=1, mime_type="audio/pcm"
        )
        output_emitter.push(bytes(2 * SAMPLE_RATE // 100))
        output_emitter.flush()


class Speaker(AudioOutput):  # type: ignore[misc]
    """Has played what it is given at once."""

    def __init__(self) -> None:
        super().__init__(
            label="speaker",
            capabilities=AudioOutputCapabilities(pause=False),
            sample_rate=SAMPLE_RATE,
        )
        self._played_s = 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._played_s:
            self.on_playback_started(created_at=time.time())
        self._played_s += frame.duration

    def flush(self) -> None:
        super().flush()
        self._finish(interrupted=False)

    def clear_buffer(self) -> None:
        self._finish(interrupted=True)

    def _finish(self, *, interrupted: bool) -> None:
        if self._played_s:
            self.on_playback_finished(playback_position=self._played_s, interrupted=interrupted)
        self._played_s = 0.0


class Silence(AudioInput):  # type: ignore[misc]
    """Audio that never comes."""

    def __init__(self) -> None:
        super().__init__(label="silence")

    async def __anext__(self) -> rtc.AudioFrame:
        await asyncio.Event().wait()
        raise StopAsyncIteration


@dataclass
class Call:
    memory: TriviumMemory | None
    session: AgentSession[None]
    model: ScriptedModel
    ears: ScriptedEars
    voice: ScriptedVoice
    added: asyncio.Queue[Any]

    def hears_event(self, kind: stt.SpeechEventType, text: str = "") -> None:
        heard = stt.SpeechData(language=LanguageCode("en"), text=text, confidence=1.0)
        event = stt.SpeechEvent(type=kind, alternatives=[heard] if text else [])
        self.ears.script.put_nowait(event)

    async def model_given(self) -> Messages:
        return await asyncio.wait_for(self.model.given.get(), PATIENCE_S)

    async def given(self) -> Messages:
        given = await self.model_given()
        await self.answered()
        return given

    async def answered(self) -> None:
        """Waits until the next answer is part of the history."""
        role = ""
        while role != "assistant":
            added = await asyncio.wait_for(self.added.get(), PATIENCE_S)
            role = getattr(added.item, "role", "")

    async def begins(self) -> None:
        self.hears_event(stt.SpeechEventType.START_OF_SPEECH)

    def is_stable(self, so_far: str) -> None:
        """Lets LiveKit begin to generate an answer to what is heard so far."""
        self.hears_event(stt.SpeechEventType.PREFLIGHT_TRANSCRIPT, so_far)

    async def says(self, so_far: str) -> None:
        self.hears_event(stt.SpeechEventType.INTERIM_TRANSCRIPT, so_far)

    async def transcribed(self, text: str) -> None:
        self.hears_event(stt.SpeechEventType.FINAL_TRANSCRIPT, text)

    async def ends(self, text: str) -> None:
        await self.transcribed(text)
        self.hears_event(stt.SpeechEventType.END_OF_SPEECH)

    async def hears(self, text: str) -> Messages:
        return (await self.turn(text))[-1]

    async def turn(self, text: str) -> list[Messages]:
        """A whole turn: all that the model was given, the preemptive attempt first."""
        await self.begins()
        self.is_stable(text)
        given = [await self.model_given()]
        await self.ends(text)
        await self.answered()
        while not self.model.given.empty():
            given.append(self.model.given.get_nowait())
        return given

    def history(self) -> Messages:
        return messages_of(self.session.history)


@asynccontextmanager
async def calling(agent: Agent, memory: TriviumMemory | None = None) -> AsyncIterator[Call]:
    """A session with the agent, and with the memory attached, until the end of the block."""
    model, ears, voice = ScriptedModel(), ScriptedEars(), ScriptedVoice()
    session: AgentSession[None] = AgentSession(
        stt=ears,
        llm=model,
        tts=voice,
        vad=None,
        turn_handling={
            "turn_detection": "stt",
            "endpointing": {"min_delay": 0.0, "max_delay": 0.0},
        },
    )
    session.input.audio = Silence()
    session.output.audio = Speaker()
    added: asyncio.Queue[Any] = asyncio.Queue()
    session.on("conversation_item_added", added.put_nowait)
    await session.start(agent)
    if memory is not None:
        memory.attach(session)
    try:
        yield Call(memory, session, model, ears, voice, added)
    finally:
        await session.aclose()
        if memory is not None:
            await memory.aclose()


@asynccontextmanager
async def remembering(client: AsyncClient, **options: Any) -> AsyncIterator[Call]:
    memory = TriviumMemory(client, **options)
    agent = TriviumAgent(memory=memory, instructions="You are brief.")
    async with calling(agent, memory) as call:
        yield call
