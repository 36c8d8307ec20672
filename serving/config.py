"""The settings: one frozen tree, read once, from arguments, the environment or one file.

`TRIVIUM_POSTGRES__DSN` sets `postgres.dsn`; `TRIVIUM_CONFIG` names a YAML file with
the same tree. Arguments win over the environment, and that over the file.
`python -m serving check-config` prints what is in force.
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
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    YamlConfigSettingsSource,
)

from serving.domain.text import TextForm

Precision = Literal["auto", "float32", "bfloat16", "float16", "int8", "float8"]

Attention = Literal["padded", "varlen"]

Twin = Annotated[
    Literal["off", "cold", "warm"],
    # YAML reads a bare `off` as False.
    BeforeValidator(lambda given: "off" if given is False else given),
]


class _Section(BaseModel):
    # The value of a misspelt setting may be a secret.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class PostgresSettings(_Section):
    """PostgreSQL, the only truth."""

    dsn: SecretStr | None = Field(
        default=None,
        description="Where PostgreSQL is, as a libpq connection string. Unset: the desk starts "
        "its own.",
    )
    search_connections: int = Field(
        default=8,
        ge=1,
        le=100,
        description="Connections for reads; more only if PostgreSQL has idle cores.",
    )
    write_connections: int = Field(default=4, ge=1, le=100, description="Connections for writes.")
    search_timeout: timedelta = Field(
        default=timedelta(seconds=2),
        description="The longest a search statement may run, whatever the caller's budget.",
    )


class Neo4jSettings(_Section):
    """Neo4j, the projection behind the graph leg."""

    uri: str | None = Field(
        default=None,
        description="Where Neo4j is, such as bolt://host:7687. Unset: the desk starts its own.",
    )
    user: str = Field(default="neo4j", description="Its user; not used without a password.")
    password: SecretStr | None = Field(
        default=None, description="Its password. Unset: no authentication."
    )
    database: str = Field(default="neo4j", description="The database within it.")
    heap_mb: int = Field(
        default=512, ge=256, description="The heap of the desk's own Neo4j, in MiB."
    )


class PreviousModelSettings(_Section):
    """The model that `embedder.model` takes over from, as it was set then."""

    model: str = Field(description="As `embedder.model`.")
    dimension: int | None = Field(default=None, ge=8, description="As `embedder.dimension`.")
    precision: Precision = Field(default="auto", description="As `embedder.precision`.")
    text_form: TextForm = Field(
        default=TextForm.QUOTED,
        description="As `embedder.text_form`; `plain` for what was embedded before there was one.",
    )

    def overrides(self) -> dict[str, Any]:
        """What differs in the embedder's settings while it is this model that is loaded."""
        # What makes the same vectors in another way may be nothing that this model can do.
        changed = {"attention": "padded", "previous": None, "twin": "off"}
        return {**self.model_dump(mode="json"), **changed}


class EmbedderSettings(_Section):
    """The sentence encoder."""

    model: str = Field(
        default="minilm",
        description="`minilm` (all-MiniLM-L6-v2 from a package), a Hugging Face id, or a folder in "
        "sentence-transformers' layout. Another model re-embeds everything in the background.",
    )
    backend: Literal["auto", "onnx", "bfloat16", "qwen3", "torch"] = Field(
        default="auto",
        description="`torch` runs any model on any device, `qwen3` Qwen3-Embedding on any. On a "
        "CPU, `onnx` takes less than half of torch's time, and `bfloat16` a quarter of that where "
        "the processor has matrix instructions (Intel AMX; BERT models only). `auto` takes the "
        "fastest that this machine can do.",
    )
    device: str = Field(
        default="cpu", description="The device of the backends qwen3 and torch, as torch names it."
    )
    precision: Precision = Field(
        default="auto",
        description="Of the arithmetic of the backends qwen3 and torch: `float32`, `bfloat16` or "
        "`float16`. `auto` is bfloat16 for a Qwen3 on an accelerator, else float32. `int8` and "
        "`float8` keep the weights of a Qwen3 in half of the memory and compute in bfloat16; a "
        "model that they change too much is refused. Vectors of different precisions are never "
        "compared: another one re-embeds everything.",
    )
    attention: Attention = Field(
        default="padded",
        description="Of a Qwen3, in batches beyond the shapes that are recorded on a GPU: over "
        "rows `padded` to one length, or `varlen`, over rows one after the other. "
        "`python -m bench.gpu` says which is faster on a GPU; nobody has measured it yet.",
    )
    dimension: int | None = Field(
        default=None,
        ge=8,
        description="Truncate vectors to this (Matryoshka). Unset: the model's own.",
    )
    text_form: TextForm = Field(
        default=TextForm.QUOTED,
        description="How segments are written for the encoder: `quoted` puts what a speaker said "
        "in quotation marks, `plain` does not. Another form re-embeds everything, as another model "
        "does.",
    )
    threads: int = Field(
        default=1, ge=1, description="Threads per forward pass; more serve one query faster."
    )
    max_waiting: int = Field(
        default=512, ge=1, description="Texts that may wait; beyond it callers are refused at once."
    )
    twin: Twin = Field(
        default="off",
        description="The same model once more, on a CPU: it embeds questions while the embedder's "
        "device is lost, if it can in their time. `cold` loads it when it is first asked, `warm` "
        "at the start. Not in the placement `fused`.",
    )
    previous: PreviousModelSettings | None = Field(
        default=None,
        description="The model before, after a change: it is loaded too and answers until all "
        "rows are embedded anew. Unset: the dense legs are skipped meanwhile.",
    )

    @model_validator(mode="after")
    def _precision_can_be_had(self) -> Self:
        if self.precision != "auto" and self.backend in ("onnx", "bfloat16"):
            raise ValueError(f"the backend {self.backend} has a precision of its own")
        return self


class IndexSettings(_Section):
    """The vector index, as each replica that has one keeps it."""

    kind: Literal["auto", "exact", "ivf"] = Field(
        default="auto",
        description="`exact` reads every vector of a tenant for every search. `auto` does so until "
        "a tenant has many, and then keeps them in inverted lists, of which a search reads a few. "
        "`ivf` keeps them so as soon as there are enough to train lists on.",
    )
    exact_max_rows: Literal["auto"] | Annotated[int, Field(ge=1)] = Field(
        default="auto",
        description="Up to so many vectors of a tenant's segments, or facts, are read exactly. "
        "`auto` is what this machine is found to do best with, 20,000 at least (docs/index.md); "
        "with `kind: ivf` it is 1,024.",
    )
    recall_target: float = Field(
        default=0.98,
        ge=0.5,
        le=1.0,
        description="The share of the true ten nearest that a search of lists is to find. More "
        "costs time: the index shows its curve in `GetStats`.",
    )
    device: str = Field(
        default="cpu",
        pattern=r"^(cpu|cuda(:\d+)?)$",
        description="Where vectors are kept and searched: `cpu`, `cuda` or `cuda:1`. Lists are "
        "FAISS's on a CPU and cuVS's on a GPU; without cuVS all vectors are read there.",
    )
    lists_share: float = Field(
        default=0.5,
        gt=0,
        lt=1,
        description="On a GPU, the part of the process's memory that lists may take, since cuVS "
        "has a memory of its own; the rest is for vectors, and for models if they are there too.",
    )
    build_threads: int = Field(
        default=1,
        ge=1,
        description="Threads that train and fill lists beside the searches, on a CPU.",
    )
    shards: int = Field(
        default=1,
        ge=1,
        le=256,
        description="Into how many shares, by a hash of tenant and id, the rows are divided. Each "
        "is a deployment of its own, and all are asked at once; not in the placement `fused`.",
    )
    twin: Twin = Field(
        default="off",
        description="The same rows once more, on a CPU: they are searched while the device of the "
        "index is lost. `warm` follows the log all the time, `cold` fills itself when it is first "
        "asked. Each shard has its own; not in the placement `fused`.",
    )
    snapshots: Path | None = Field(
        default=None,
        description="A folder where an index writes what it holds, and where its next start "
        "begins, with the log since: no lists are trained again. Unset: it begins with PostgreSQL.",
    )
    snapshot_every: timedelta = Field(
        default=timedelta(minutes=10),
        gt=timedelta(0),
        description="How old a snapshot may be. Vectors and ids of what was erased, and no text, "
        "may lie in the folder for twice as long.",
    )


class RerankerSettings(_Section):
    """The cross-encoder behind the rerank stages of profiles."""

    model: str | None = Field(
        default=None,
        min_length=1,
        description="A Hugging Face id or a folder: a BERT or XLM-R with one output, such as "
        "cross-encoder/ms-marco-MiniLM-L6-v2 or BAAI/bge-reranker-v2-m3, or a Qwen3-Reranker. "
        "Unset: there is none, and hits that a profile would rerank keep their order and say so.",
    )
    load: Literal["first_use", "start"] = Field(
        default="first_use",
        description="When the model is loaded; until it is there hits keep their order. "
        "`first_use` costs no memory where no profile reranks, `start` spares the first callers.",
    )
    device: str = Field(default="cpu", description="Where it runs, as torch names it.")
    precision: Precision = Field(
        default="auto",
        description="Of its arithmetic: `float32`, `bfloat16` or `float16`. `auto` is float32 on "
        "a CPU, else bfloat16. `int8` and `float8` are of the weights of a Qwen3-Reranker alone, "
        "as those of the embedder.",
    )
    attention: Attention = Field(
        default="padded", description="Of a Qwen3-Reranker, as `embedder.attention`."
    )
    threads: int = Field(
        default=1, ge=1, description="Threads per forward pass; more serve one query faster."
    )
    max_waiting: int = Field(
        default=8,
        ge=1,
        description="Calls that may wait for the model; beyond it hits keep their order at once.",
    )


class RetrievalSettings(_Section):
    """How questions are answered."""

    profiles: Path | None = Field(
        default=None, description="A folder with ranking profiles of your own, as YAML files."
    )


Placement = Literal["fused", "split", "gpu"]

Share = Annotated[float, Field(ge=0, le=1)]


class GpuSettings(_Section):
    """The share of a GPU that Ray sets apart for each replica of a deployment.

    A share is where a replica goes, and a share below 1 is also the most of that GPU's memory
    that it may take: Ray itself keeps no replica from the memory of another. 0 asks for no GPU.
    """

    fusion: Share = Field(
        default=0, description="Of the ingress, which runs the models in the placement `fused`."
    )
    embedder: Share = Field(
        default=0,
        description="Of the embedder; in the placement `gpu` it is that of embedder and index. A "
        "previous model gets as much once more, so leave room for it before a change.",
    )
    index: Share = Field(
        default=0, description="Of the index in the placement `split`, each shard and the previous."
    )
    reranker: Share = Field(default=0, description="Of the reranker.")


SHARED_BY: Mapping[Placement, frozenset[str]] = {
    "fused": frozenset({"fusion"}),
    "split": frozenset({"embedder", "index", "reranker"}),
    "gpu": frozenset({"embedder", "reranker"}),
}
"""The deployments of each placement that may have a share of a GPU."""


class ServeSettings(_Section):
    """Ray Serve."""

    placement: Placement = Field(
        default="fused",
        description="`fused`: all in one replica, the least overhead. `split`: embedder, index, "
        "reranker and projector as deployments of their own, to scale each. `gpu`: embedder and "
        "index in one replica, which is asked with the text; else as `split`.",
    )
    gpus: GpuSettings = GpuSettings()
    grpc_port: int = Field(default=9000, ge=0, le=65535, description="The port for gRPC.")
    http_port: int = Field(
        default=8000, ge=0, le=65535, description="Serve's HTTP port (health only)."
    )
    dashboard_port: int = Field(default=8265, ge=0, le=65535, description="Ray's dashboard.")
    metrics_port: int = Field(
        default=9090, ge=0, le=65535, description="Prometheus metrics of Ray."
    )
    replicas: int = Field(default=1, ge=1, description="Replicas of the ingress.")
    max_ongoing_requests: int = Field(
        default=64, ge=1, description="Calls one ingress replica works on at a time."
    )
    max_queued_requests: int = Field(
        default=256, ge=1, description="Calls that may wait; beyond it RESOURCE_EXHAUSTED."
    )

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
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    data_dir: Path = Field(
        default_factory=lambda: default_data_dir(),
        description="Where the desk keeps PostgreSQL and Neo4j. For root: /var/lib/trivium, since "
        "PostgreSQL runs under another account, which could not enter root's home.",
    )
    cache_dir: Path = Field(
        default_factory=lambda: default_cache_dir(),
        description="Where downloads and exported models are kept.",
    )
    postgres: PostgresSettings = PostgresSettings()
    neo4j: Neo4jSettings = Neo4jSettings()
    embedder: EmbedderSettings = EmbedderSettings()
    index: IndexSettings = IndexSettings()
    reranker: RerankerSettings = RerankerSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    serve: ServeSettings = ServeSettings()

    @model_validator(mode="after")
    def _shards_have_deployments(self) -> Self:
        if self.index.shards > 1 and self.serve.placement == "fused":
            raise ValueError(
                "index.shards: the placement fused has one index in each replica; more shards "
                "need serve.placement split or gpu"
            )
        return self

    @model_validator(mode="after")
    def _twins_have_deployments(self) -> Self:
        for name, twin in {"index": self.index.twin, "embedder": self.embedder.twin}.items():
            if twin != "off" and self.serve.placement == "fused":
                raise ValueError(
                    f"{name}.twin: the placement fused has all in one process; a twin needs "
                    "serve.placement split or gpu"
                )
        if self.serve.placement == "gpu" and self.index.twin == "off" != self.embedder.twin:
            raise ValueError(
                "embedder.twin: in the placement gpu the index is lost with the embedder; name "
                "index.twin too"
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
        if file is None:
            return sources
        return (*sources, YamlConfigSettingsSource(settings_cls, yaml_file=file))


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
    """Reads the settings.

    Args:
        arguments: A tree as in the YAML file; wins over everything else.

    Raises:
        pydantic.ValidationError: A value is unknown or out of range; names each.
    """
    return Settings(**dict(arguments or {}))


def settings_as_yaml(settings: Settings) -> str:
    """Writes the settings for people; secrets are masked."""
    return yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)


class RayEnvironment(BaseSettings):
    """What Ray Serve was started with, as far as the service reports it."""

    model_config = SettingsConfigDict(env_prefix="RAY_SERVE_", extra="ignore", frozen=True)

    enable_ha_proxy: bool = False
    enable_direct_ingress: bool = False
    throughput_optimized: bool = False

    @property
    def ingress(self) -> Literal["haproxy", "direct", "ray_proxy"]:
        """How calls come in. Ray's own proxy takes 8-10 ms where HAProxy takes 1.2."""
        if self.enable_ha_proxy:
            return "haproxy"
        if self.enable_direct_ingress or self.throughput_optimized:
            return "direct"
        return "ray_proxy"


def set_process_environment(
    variables: Mapping[str, str], *, replaced: Collection[str] = ()
) -> None:
    """Sets variables that libraries read at import, before they are imported.

    What is set already, by the user, is left alone, but for those `replaced`.
    """
    environment = os.environ  # noqa: TID251 - this module owns the environment
    for name, value in variables.items():
        if name in replaced or name not in environment:
            environment[name] = value
