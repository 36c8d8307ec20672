from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from serving.adapters.maven_jars import LockedJar
from serving.desk.embedded_neo4j import launcher
from serving.domain.errors import DependencyError


def jar(name: str, content: str | None = None) -> LockedJar:
    """A jar whose content is its name, or the given content."""
    digest = hashlib.sha256((content or name).encode()).hexdigest()
    return LockedJar(digest, "org.example", name, "", "1.0")


JARS = [jar(f"part{n}") for n in range(20)]


class Repository:
    """Serves jars by name; some are missing, some truncated."""

    def __init__(self, *, missing: str = "", cut_short: str = "") -> None:
        self.missing = missing
        self.cut_short = cut_short
        self.asked: list[str] = []

    def __call__(self, wanted: LockedJar, below: Path) -> Path:
        self.asked.append(wanted.artifact)
        if wanted.artifact == self.missing:
            raise ConnectionError("https://example.org is down")
        below.mkdir(parents=True, exist_ok=True)
        path = below / wanted.file_name
        path.write_text("" if wanted.artifact == self.cut_short else wanted.artifact)
        return path


Fetch = Callable[..., Path]


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetch:
    """Fetches `JARS` from a repository; returns their folder."""

    def fetch(repository: Repository, on_progress: Callable[[str], None] = lambda _: None) -> Path:
        monkeypatch.setattr(launcher, "locked_jars", lambda: JARS)
        monkeypatch.setattr(launcher, "download_by_jgo", repository)
        return launcher.jar_directory(tmp_path, on_progress)

    return fetch


def fetched(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_locked_jars_are_distinct_files_of_one_neo4j() -> None:
    jars = launcher.locked_jars()

    assert len({each.file_name for each in jars}) == len(jars) > 200
    assert {each.version for each in jars if each.artifact == "neo4j-kernel"} == {"5.26.30"}


def test_a_line_of_the_lock_may_have_a_classifier() -> None:
    epoll = LockedJar.parse("00ff  io.netty:epoll:jar:linux-x86_64:4.1.137.Final")

    assert epoll == LockedJar("00ff", "io.netty", "epoll", "linux-x86_64", "4.1.137.Final")
    assert epoll.file_name == "epoll-4.1.137.Final-linux-x86_64.jar"


def test_every_jar_is_fetched_and_the_progress_reported(fetch: Fetch) -> None:
    reported: list[str] = []

    directory = fetch(Repository(), reported.append)

    assert fetched(directory) == sorted(each.file_name for each in JARS)
    assert len(reported) == 20
    assert reported[-1].endswith("20 of 20 jars")


def test_a_second_time_asks_for_nothing(fetch: Fetch) -> None:
    fetch(Repository())
    repository = Repository()

    fetch(repository)

    assert repository.asked == []


def test_an_interrupted_run_is_taken_up_where_it_stopped(fetch: Fetch) -> None:
    with pytest.raises(DependencyError, match=r"part7-1.0.jar cannot be downloaded \(Connection"):
        fetch(Repository(missing="part7"))
    repository = Repository()

    directory = fetch(repository)

    assert "part7" in repository.asked
    assert len(fetched(directory)) == 20
    assert len(repository.asked) < 20


@pytest.mark.parametrize("bad", [Repository(cut_short="part3"), Repository(missing="part3")])
def test_incomplete_download_is_retried_and_then_named(
    tmp_path: Path, fetch: Fetch, bad: Repository
) -> None:
    with pytest.raises(DependencyError) as raised:
        fetch(bad)

    assert bad.asked.count("part3") == 3
    assert "part3-1.0.jar" in str(raised.value)
    assert "example.org" not in str(raised.value)
    assert not (tmp_path / "neo4j-5.26.30" / "part3-1.0.jar").exists()


def test_leftovers_of_a_killed_run_are_not_used(tmp_path: Path, fetch: Fetch) -> None:
    left = tmp_path / "neo4j-5.26.30" / "staging" / "0" / "part0-1.0.jar"
    left.parent.mkdir(parents=True)
    left.write_text("par")

    directory = fetch(Repository())

    assert (directory / "part0-1.0.jar").read_text() == "part0"
    assert not left.exists()
