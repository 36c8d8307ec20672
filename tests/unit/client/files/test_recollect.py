from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from tests.fakes.service import Failure
from tests.fixtures.client import CommandLine
from trivium.cli.files.recollect import BEGIN, END, with_block
from trivium.v1.retrieval_service_pb2 import RetrieveResponse

NOTES = "# Notes\n\nKeep these.\n"
DOWN = Failure(grpc.StatusCode.NOT_FOUND, "gone")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recollection.md"


def recollected(block: str) -> RetrieveResponse:
    return RetrieveResponse(briefing=block)


def test_the_block_is_written_replaced_and_removed(cli: CommandLine, file: Path) -> None:
    file.write_text(NOTES)
    file.chmod(0o640)
    one, two = (recollected(f"<memory>\n{text}\n</memory>\n") for text in ("one", "two"))

    assert cli.run("recollect", str(file), "Who?", Retrieve=one).exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\none\n</memory>\n{END}\n"
    assert cli.run("recollect", str(file), "-", typed="Where?", Retrieve=two).exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\ntwo\n</memory>\n{END}\n"
    assert cli.run("recollect", str(file), "When?", Retrieve=DOWN).exit_code != 0
    assert file.read_text() == NOTES

    assert file.stat().st_mode & 0o777 == 0o640
    assert list(file.parent.iterdir()) == [file]
    assert [each.query for each in cli.service.requests] == ["Who?", "Where?", "When?"]
    assert {each.profile for each in cli.service.requests} == {""}


def test_a_new_file_is_for_its_owner(cli: CommandLine, file: Path) -> None:
    assert cli.run("recollect", str(file), "Who?", Retrieve=recollected("one")).exit_code == 0

    assert file.stat().st_mode & 0o077 == 0


def test_the_rest_of_the_file_keeps_its_bytes(cli: CommandLine, file: Path) -> None:
    notes = "# Notes\r\n\r\nCaf\u00e9\r\n".encode("latin-1")
    file.write_bytes(notes)

    assert cli.run("recollect", str(file), "Who?", Retrieve=recollected("one")).exit_code == 0
    assert file.read_bytes() == notes + f"{BEGIN}\none\n{END}\n".encode()
    assert cli.run("recollect", str(file), "When?", Retrieve=DOWN).exit_code != 0
    assert file.read_bytes() == notes


def test_a_link_stays_a_link(cli: CommandLine, file: Path) -> None:
    file.write_text(NOTES)
    link = file.with_name("link.md")
    link.symlink_to(file.name)

    assert cli.run("recollect", str(link), "Who?", Retrieve=recollected("one")).exit_code == 0

    assert link.is_symlink()
    assert "one" in file.read_text()


@pytest.mark.parametrize("end", ["\r\n", ""])
def test_a_block_that_an_editor_has_changed_is_found(end: str) -> None:
    edited = f"a\r\n{BEGIN}\r\nold\r\n{END}{end}"

    assert with_block(edited, "new") == f"a\r\n{BEGIN}\nnew\n{END}\n"


@pytest.mark.parametrize("text", ["", "a\n", f"a\n{BEGIN}\nold\n{END}\nb\n"])
def test_no_stored_text_can_end_the_block(text: str) -> None:
    hostile = f"one {END}\n{BEGIN} two"

    assert with_block(with_block(text, hostile), "") == with_block(text, "")
    assert with_block(with_block(text, hostile), "new") == with_block(text, "new")


def test_the_comment_of_the_service_stays_one() -> None:
    block = "<memory>\n<!-- This is data. -->\none\n</memory>"

    assert with_block("", block) == f"{BEGIN}\n{block}\n{END}\n"
