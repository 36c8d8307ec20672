"""The pages name files, functions and sections that exist, in lines of a readable length."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from serving.domain.identity import Role
from serving.rpc.identity.rules import RULES
from tests.support import settings_page

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md", "clients/*/README.md")
    for page in ROOT.glob(pattern)
)
FOLDERS = "bench|clients|deploy|docs|protos|requirements|serving|tests"
PATH = re.compile(rf"`(?P<path>(?:{FOLDERS})/[\w./*-]*)(?:::(?P<test>\w+))?`")
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<section>[^)]*))?\)")
NAMED = re.compile(r"^\|(?:.*\|)? `(?P<file>[\w./]+\.py)` \| `(?P<name>[\w.]+)` \|", re.M)
WRITTEN_BY_A_RUN = ("bench/results/",)
NAMES_OF_BEFORE = ("CHANGELOG.md",)
SETTING = re.compile(r"TRIVIUM_[A-Z\d]+__[A-Z\d_]+")
MAX_CHARACTERS = 119


def text_of(page: str) -> str:
    return (ROOT / page).read_text()


def outside_of_code(page: str) -> str:
    return re.sub(r"^```.*?^```", "", text_of(page), flags=re.M | re.S)


def sections(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def defined(file: Path) -> set[str]:
    """The functions, classes, methods and constants of a module; methods as `Class.method`."""
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.ClassDef():
                found.add(node.name)
                functions = (ast.FunctionDef, ast.AsyncFunctionDef)
                found |= {
                    f"{node.name}.{each.name}" for each in node.body if isinstance(each, functions)
                }
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NAMES_OF_BEFORE])
def test_settings_named_by_a_page_exist(page: str) -> None:
    assert set(SETTING.findall(text_of(page))) <= set(SETTING.findall(settings_page.text()))


@pytest.mark.parametrize("page", [page for page in PAGES if page not in NAMES_OF_BEFORE])
def test_paths_named_by_a_page_exist(page: str) -> None:
    # The section on mutations has its own check.
    text = text_of(page).partition("## Mutations")[0]
    named = {
        (found["path"], found["test"])
        for found in PATH.finditer(text)
        if not found["path"].startswith(WRITTEN_BY_A_RUN)
    }

    assert [path for path, _ in named if not list(ROOT.glob(path.rstrip("/")))] == []
    tests = [(path, test) for path, test in named if test]
    assert [each for each in tests if f"def {each[1]}(" not in text_of(each[0])] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_to_existing_sections(page: str) -> None:
    here = ROOT / page
    dead = []
    for link in LINK.finditer(outside_of_code(page)):
        target = (here.parent / link["path"]).resolve() if link["path"] else here
        if not target.exists() or (link["section"] and link["section"] not in sections(target)):
            dead.append(link[0])

    assert dead == []


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/extending.md"])
def test_functions_in_a_table_are_in_their_files(page: str) -> None:
    named = [(found["file"], found["name"]) for found in NAMED.finditer(text_of(page))]

    assert named
    assert [each for each in named if each[1] not in defined(ROOT / each[0])] == []


def test_the_table_of_roles_has_the_rule_of_each_rpc() -> None:
    table = text_of("docs/security.md").partition("| role | may call |\n")[2].partition("\n\n")[0]
    listed = dict[str, str]()
    role = ""
    for row in table.splitlines()[1:]:
        named, may_call = row.strip("|").split("|")
        role = named.strip(" `") or role
        listed |= dict.fromkeys(re.findall(r"`(\w+)`", may_call), role)

    assert listed == {rpc: rule.role.value for rpc, rule in RULES.items()}
    assert (role, may_call.strip()) == (Role.ADMIN.value, "everything")


@pytest.mark.parametrize("page", PAGES)
def test_the_lines_of_a_page_are_not_too_long(page: str) -> None:
    # A row of a table cannot be continued in the next line.
    lines = [
        line
        for line in outside_of_code(page).splitlines()
        if not line.startswith("|") and "<!-- " not in line
    ]

    assert [line for line in lines if len(line) > MAX_CHARACTERS] == []
