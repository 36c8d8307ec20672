"""Each rule of `python -m tests.lint` finds what is wrong, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import lint
from tests.support.tracked_files import ROOT


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test_unreachable_postgres_fails_the_request", ""),
        ("test_a_revoked_key_is_rejected_within_5_s", ""),
        ("test_what_is_sensitive_is_not_sent", "begins with 'what'"),
        ("test_the_one_that_gives_up_is_cancelled", "begins with 'one'"),
        ("test_leg_of_nine_words_is_not_accepted_here_either", "has 9 words"),
    ],
)
def test_fault_of_a_name_is_found(name: str, expected: str) -> None:
    assert lint.fault_of_name(name).startswith(expected)
    assert bool(lint.fault_of_name(name)) is bool(expected)


@pytest.mark.parametrize(
    ("name", "size", "allowed"),
    [
        ("README.md", 7_001, 7_000),
        ("docs/gpu.md", 15_361, 15_360),
        ("clients/mcp/README.md", 15_361, 15_360),
    ],
)
def test_page_above_its_bound_is_named(name: str, size: int, allowed: int) -> None:
    [fault] = lint.too_long(name, size)

    assert fault.startswith(f"{name} has {size} bytes, at most {allowed}")
    assert list(lint.too_long(name, allowed)) == []


def test_reference_may_exceed_the_bound() -> None:
    assert list(lint.too_long("docs/rpcs.md", 100_000)) == []


def test_retired_word_is_found_with_its_line() -> None:
    retired = "class As" + "Told:"  # which this file may not have in one piece

    [fault] = lint.retired_words(f"fine\n{retired}\n", "a.py")

    assert fault == f"a.py:2: the retired word 'told': {retired}"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`TRIVIUM_SERVE__NOTHING`", "no setting TRIVIUM_SERVE__NOTHING"),
        ("`serving/nothing.py`", "no serving/nothing.py"),
        ("`tests/lint.py::test_nothing`", "tests/lint.py has no test_nothing"),
        ("[a](nothing.md)", "leads nowhere"),
        ("[a](guarantees.md#nothing)", "leads nowhere"),
        ("| one | `tests/lint.py` | `nothing` |", "tests/lint.py has no nothing"),
        ("x" * 120, "a line has 120 characters"),
    ],
)
def test_fault_of_a_page_is_found(text: str, fault: str) -> None:
    [found] = lint.faults_of_page(ROOT / "docs/any.md", f"{text}\n")

    assert fault in found


def test_page_that_names_existing_things_is_faultless() -> None:
    named = "`TRIVIUM_SERVE__GRPC_PORT`, `tests/lint.py`, [a](guarantees.md#above-capacity)"
    text = f"{named}\n| a | `tests/lint.py` | `main` |\n"

    assert [*lint.faults_of_page(ROOT / "docs/any.md", text)] == []


def test_roles_without_a_row_of_the_admin_are_none() -> None:
    page = (ROOT / "docs/security.md").read_text()

    assert lint.table_of_roles(page)["Retrieve"] == "reader"
    assert lint.table_of_roles(page.replace("everything", "nothing")) == {}


def test_pin_without_a_hash_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/desk.txt").write_text("# pins\na==1 \\\n  --hash=sha256:1\nb==2\n")
    (tmp_path / "Makefile").write_text(
        "x:\n\tpip install -r a.txt\n\tpip install --require-hashes -r b.txt\n"
    )
    monkeypatch.setattr(lint, "ROOT", tmp_path)

    assert [each.partition(":")[0] for each in lint.pins()] == ["desk.txt", "Makefile"]
