from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

from tests.fakes.service import Failure, FakeService
from trivium.cli.app import trivium
from trivium.cli.files.recollect import BEGIN, END, with_block
from trivium.v1.retrieval_service_pb2 import RetrieveResponse

NOTES = "# Notes\n\nKeep these.\n"


def recollect(service: FakeService, file: Path, question: str, typed: str = "") -> Result:
    options = ["--address", service.address, "--tenant", "acme"]
    return CliRunner().invoke(trivium, [*options, "recollect", str(file), question], input=typed)


def test_the_block_is_written_replaced_and_removed(
    fake_service: FakeService, tmp_path: Path
) -> None:
    file = tmp_path / "recollection.md"
    file.write_text(NOTES)
    file.chmod(0o640)
    down = Failure(grpc.StatusCode.NOT_FOUND, "gone")
    fake_service.will_answer(
        "Retrieve",
        RetrieveResponse(briefing="<memory>\none\n</memory>\n"),
        RetrieveResponse(briefing="<memory>\ntwo\n</memory>\n"),
        down,
    )

    assert recollect(fake_service, file, "Who?").exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\none\n</memory>\n{END}\n"
    assert recollect(fake_service, file, "-", typed="Where?").exit_code == 0
    assert file.read_text() == f"{NOTES}{BEGIN}\n<memory>\ntwo\n</memory>\n{END}\n"
    assert recollect(fake_service, file, "When?").exit_code != 0
    assert file.read_text() == NOTES

    assert file.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [file]
    assert [each.query for each in fake_service.requests] == ["Who?", "Where?", "When?"]
    assert {each.profile for each in fake_service.requests} == {""}


def test_a_new_file_is_for_its_owner(fake_service: FakeService, tmp_path: Path) -> None:
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing="one"))
    file = tmp_path / "recollection.md"

    assert recollect(fake_service, file, "Who?").exit_code == 0

    assert file.stat().st_mode & 0o077 == 0


def test_the_rest_of_the_file_keeps_its_bytes(fake_service: FakeService, tmp_path: Path) -> None:
    file, notes = tmp_path / "notes.md", "# Notes\r\n\r\nCaf\u00e9\r\n".encode("latin-1")
    file.write_bytes(notes)
    fake_service.will_answer(
        "Retrieve", RetrieveResponse(briefing="one"), Failure(grpc.StatusCode.NOT_FOUND, "gone")
    )

    assert recollect(fake_service, file, "Who?").exit_code == 0
    assert file.read_bytes() == notes + f"{BEGIN}\none\n{END}\n".encode()
    assert recollect(fake_service, file, "When?").exit_code != 0
    assert file.read_bytes() == notes


def test_a_link_stays_a_link(fake_service: FakeService, tmp_path: Path) -> None:
    file, link = tmp_path / "notes.md", tmp_path / "link.md"
    file.write_text(NOTES)
    link.symlink_to(file.name)
    fake_service.will_answer("Retrieve", RetrieveResponse(briefing="one"))

    assert recollect(fake_service, link, "Who?").exit_code == 0

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
