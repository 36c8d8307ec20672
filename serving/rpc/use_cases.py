"""The use cases behind the RPCs, and what the RPCs of all services share."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from serving.config.profiles import ProfileBook
from serving.pipeline.retrieval.describe import Describer
from serving.pipeline.retrieval.explain_absence import AbsenceExplainer
from serving.pipeline.retrieval.retrieve import Retriever
from serving.pipeline.retrieval.warm import Warmer
from serving.pipeline.writes.forget import Eraser
from serving.pipeline.writes.ingest import Ingestor
from serving.pipeline.writes.patch import Patcher
from serving.pipeline.writes.stats import Observer
from serving.pipeline.writes.watch import ChangeWatcher
from serving.ports.api_keys import ApiKeys
from serving.ports.audit_log import AuditLog
from serving.ports.embedding import Embedder
from serving.ports.memory_store import Catalog, MemoryStore
from serving.rpc.bounds import OpenStreams
from serving.rpc.identity.authenticator import OPEN, Authenticator
from serving.rpc.recent_legs import RecentLegs
from serving.telemetry import NoRecorder, Recorder, Tracer

logger = logging.getLogger(__name__)

MAX_STREAMS = 32


def now_utc() -> datetime:
    """The current time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCases:
    """The use cases and stores behind the RPCs."""

    retriever: Retriever
    warmer: Warmer
    describer: Describer
    explainer: AbsenceExplainer
    ingestor: Ingestor
    patcher: Patcher
    eraser: Eraser
    observer: Observer
    watcher: ChangeWatcher
    store: MemoryStore
    catalog: Catalog
    embedder: Embedder
    keys: ApiKeys
    audit_log: AuditLog


class Rpcs:
    """The base of the services.

    `streams` are those of callers with credentials, of all edges. `rejected_profiles` says why the
    last change of the profiles was rejected; it is empty if it was not.
    """

    def __init__(
        self,
        use_cases: UseCases,
        profiles: ProfileBook,
        *,
        recorder: Recorder | None = None,
        tracer: Tracer | None = None,
        authenticator: Authenticator = OPEN,
        streams: OpenStreams | None = None,
        now: Callable[[], datetime] = now_utc,
    ) -> None:
        self.use_cases = use_cases
        self._first_profiles = profiles
        self.profiles = profiles
        self.rejected_profiles = ""
        self.recorder = recorder or NoRecorder()
        self.tracer = tracer
        self.authenticator = authenticator
        self.streams = streams or OpenStreams(MAX_STREAMS)
        self._now = now
        self._recent_legs = RecentLegs()

    def reconfigure(self, user_config: Mapping[str, Any]) -> None:
        """Applies `{"profiles": {name: fields to change}}` to the profiles of the start.

        An invalid change is rejected as a whole: the current profiles stay in use, and the log
        and GetStats report the reason.
        """
        try:
            if unknown := [name for name in user_config if name != "profiles"]:
                raise ValueError(f"unknown field {unknown[0]!r}; only 'profiles' can be set")
            changed = self._first_profiles.reconfigured(user_config.get("profiles", {}))
            changed.log_notes()
        except ValueError as error:
            self.rejected_profiles = str(error)
            logger.error("profiles rejected", extra={"reason": self.rejected_profiles})
        except Exception:
            # If this were raised, Serve would restart the replica with the same configuration
            # again and again.
            self.rejected_profiles = "unexpected error, see the log"
            logger.exception("profiles rejected")
        else:
            self.profiles = changed
            self.rejected_profiles = ""
