"""`python -m tests.lint`, a part of `make lint`: what is said about the code agrees with it.

Names of tests, retired words, docstrings, pages, pins, and files that are written from the code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from serving.config.settings import ServeSettings
from serving.domain.identity import Role
from serving.domain.languages import LANGUAGE_NAMES
from serving.rpc.identity.rules import RULES
from tests.support import languages_page, settings_page
from tests.support.listing import listed
from tests.support.tracked_files import ROOT, tracked_files
from tests.support.written import WRITERS

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# ---- names of tests: subject, condition, result (CONTRIBUTING.md)

MAX_WORDS = 8
ARTICLES = ("a", "an", "the")
"""They are not counted, nor are numbers."""
PRONOUN = re.compile(
    r"both|each|everything|how|it|none|nobody|nothing|one|somebody|something|that|there|these"
    r"|they|those|what|when|where|which|who|whom|whose|why"
)
"""A name that begins with one of them hides its subject."""


def fault_of_name(name: str) -> str:
    """What is wrong with the name of a test; empty if nothing is."""
    words = [word for word in name.removeprefix("test_").split("_") if word not in ARTICLES]
    if PRONOUN.fullmatch(words[0]):
        return f"begins with {words[0]!r}"
    if "what" in words:
        return "has 'what', where a noun can stand"
    for word, pattern in retired_patterns().items():
        if pattern.search(" ".join(words)):
            return f"has the retired word {word!r}"
    count = sum(not word.isdigit() for word in words)
    return f"has {count} words, at most {MAX_WORDS} are allowed" if count > MAX_WORDS else ""


def names_of_tests() -> Iterator[str]:
    """Faults of the names of tests."""
    for path in tracked_files("tests/*.py"):
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            name = node.name if isinstance(node, FUNCTIONS) else ""
            if name.startswith("test_") and (fault := fault_of_name(name)):
                yield f"{path}: {name} {fault}"


# ---- words that the glossary retires

RETIRED = re.compile(r"^\| (?P<word>[a-z, ]+) \| (?P<ticks>`+)(?P<pattern>.+?)(?P=ticks) \|", re.M)
EXEMPT = (
    "CHANGELOG.md",
    "docs/glossary.md",
    "bench/baselines/",
    "bench/quality/pairs/",
    "bench/results/",
    "clients/python/trivium/v1/",
    "serving/domain/languages/english_further_words.txt",
    "serving/domain/languages/english_words.txt",
)
"""Names of before, the table itself, data, memories as people speak, generated code, and a list of
English words."""


@cache
def retired_patterns() -> Mapping[str, re.Pattern[str]]:
    """The patterns of retired words, by word."""
    # A bar is escaped in a table of Markdown.
    return {
        row["word"]: re.compile(row["pattern"].replace(r"\|", "|"))
        for row in RETIRED.finditer((ROOT / "docs/glossary.md").read_text())
    }


def retired_words(text: str, path: str) -> Iterator[str]:
    """The lines of a text with a word that the glossary retires."""
    for word, pattern in retired_patterns().items():
        if pattern.search(text):
            for number, line in enumerate(text.splitlines(), start=1):
                if pattern.search(line):
                    yield f"{path}:{number}: the retired word {word!r}: {line.strip()}"


def words() -> Iterator[str]:
    """Retired words in the tracked texts."""
    for path in tracked_files():
        if path.endswith(".jsonl") or path.startswith(EXEMPT):
            continue
        try:
            text = (ROOT / path).read_text()
        except (UnicodeDecodeError, FileNotFoundError):
            continue
        yield from retired_words(text, path)


# ---- docstrings: a noun, not a clause

CLAUSE = re.compile(r"(How|That|Those|What|Where|Which|Who|Whose)\b")
"""A docstring that begins so says what a thing does instead of what it is."""


def clauses(text: str, path: str) -> Iterator[str]:
    """The docstrings of a module that begin with a clause, those of its constants too."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str(docstring))) if CLAUSE.match(docstring):
                yield f"{path}:{node.lineno}: begin with a noun: {docstring.splitlines()[0]}"


def docstrings() -> Iterator[str]:
    """Docstrings of the service and the client that begin with a clause."""
    for path in tracked_files("serving/*.py", "clients/python/trivium/*.py"):
        if "_pb2" not in path:
            yield from clauses((ROOT / path).read_text(), path)


# ---- pages: what they name exists

PAGES = sorted(
    str(page.relative_to(ROOT))
    for pattern in (
        "*.md",
        "docs/**/*.md",
        "bench/*.md",
        "clients/*/README.md",
        "examples/*.md",
        "serving/*.md",
    )
    for page in ROOT.glob(pattern)
)
FOLDERS = "bench|clients|deploy|docs|examples|protos|requirements|serving|tests"
PATH = re.compile(rf"`(?P<path>(?:{FOLDERS})/[\w./*-]*)(?:::(?P<test>\w+))?`")
LINK = re.compile(r"\]\((?!https?:)(?P<path>[^)#\s]*)(?:#(?P<section>[^)]*))?\)")
NAMED = re.compile(r"^\|(?:.*\|)? `(?P<file>[\w./]+\.py)` \| `(?P<name>[\w.]+)` \|", re.M)
SETTING = re.compile(r"TRIVIUM_[A-Z\d]+__[A-Z\d_]+")
WRITTEN_BY_A_RUN = "bench/results/"
NAMES_OF_BEFORE = "CHANGELOG.md"
MAX_CHARACTERS = 119
MAX_README_BYTES = 7_000
MAX_PAGE_BYTES = 15 * 1024
REFERENCES = frozenset(
    f"docs/{name}.md"
    for name in ("benchmarks", "commands", "configuration", "languages", "profiles", "rpcs")
)
"""Pages in which one looks something up, and which nobody reads through."""


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
                methods = [each.name for each in node.body if isinstance(each, FUNCTIONS)]
                found |= {node.name, *(f"{node.name}.{method}" for method in methods)}
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.add(node.name)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                found.add(name)
    return found


def faults_of_page(page: Path, text: str) -> Iterator[str]:
    """What a page names that does not exist, and its lines that are too long."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    if page.name != NAMES_OF_BEFORE:
        for setting in {*SETTING.findall(text)} - {*SETTING.findall(settings_page.text())}:
            yield f"there is no setting {setting}"
        # The section on mutations has its own check.
        for found in PATH.finditer(text.partition("## Mutations")[0]):
            path, test = found["path"], found["test"]
            if path.startswith(WRITTEN_BY_A_RUN):
                continue
            if not list(ROOT.glob(path.rstrip("/"))):
                yield f"there is no {path}"
            elif test and f"def {test}(" not in (ROOT / path).read_text():
                yield f"{path} has no {test}"
    for link in LINK.finditer(prose):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        if not target.exists() or (link["section"] and link["section"] not in sections(target)):
            yield f"the link {link[0]} leads nowhere"
    for found in NAMED.finditer(text):
        if found["name"] not in defined(ROOT / found["file"]):
            yield f"{found['file']} has no {found['name']}"
    for line in prose.splitlines():
        # A row of a table cannot be continued in the next line.
        if len(line) > MAX_CHARACTERS and not line.startswith("|") and "<!-- " not in line:
            yield f"a line has {len(line)} characters, at most {MAX_CHARACTERS} are allowed: {line}"


def too_long(name: str, size: int) -> Iterator[str]:
    """The fault of a page with more bytes than somebody reads through."""
    if name in {*REFERENCES, NAMES_OF_BEFORE}:
        return
    allowed = MAX_README_BYTES if name == "README.md" else MAX_PAGE_BYTES
    if size > allowed:
        yield f"{name} has {size} bytes, at most {allowed} are allowed: split it by subject"


def pages() -> Iterator[str]:
    """Faults of all pages."""
    for name in PAGES:
        page = ROOT / name
        yield from (f"{name}: {fault}" for fault in faults_of_page(page, page.read_text()))
        yield from too_long(name, page.stat().st_size)
    rules = {rpc: rule.role.value for rpc, rule in RULES.items()}
    if table_of_roles((ROOT / "docs/security.md").read_text()) != rules:
        yield "docs/security.md: the table of roles differs from RULES"
    ports = {
        setting.lower(): int(each.ports)
        for each in listed()
        for setting in re.findall(r"TRIVIUM_SERVE__(\w+)", each.what)
    }
    defaults = ServeSettings().model_dump().items()
    if ports != {name: port for name, port in defaults if name.endswith("_port")}:
        yield "docs/operating.md: the listed ports differ from the defaults"


def table_of_roles(page: str) -> dict[str, str]:
    """The role of each RPC in the table of a page; the last row must be that of the admin."""
    table = page.partition("| role | may call |\n")[2].partition("\n\n")[0]
    found = dict[str, str]()
    role = may_call = ""
    for row in table.splitlines()[1:]:
        named, may_call = row.strip("|").split("|")
        role = named.strip(" `") or role
        found |= dict.fromkeys(re.findall(r"`(\w+)`", may_call), role)
    return found if (role, may_call.strip()) == (Role.ADMIN.value, "everything") else {}


# ---- pins: packages come by hash

SLOW_START = "rfc3987-syntax=="
"""jsonschema, which Ray imports, compiles a grammar for a second where it finds this package."""


def pins() -> Iterator[str]:
    """Requirements without a hash, and installs that do not ask for one."""
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        listed_pins = _joined_lines(file)
        for line in listed_pins:
            if "==" not in line or "--hash=sha256:" not in line:
                yield f"{file.name}: no version or no hash: {line[:80]}"
            if file.stem in ("desk", "models", "dev") and line.startswith(SLOW_START):
                yield f"{file.name}: {SLOW_START} slows the start of Ray"
        if not listed_pins:
            yield f"{file.name}: there are no pins"
    for line in _joined_lines(ROOT / "Makefile"):
        wanted = {"--no-deps", "--no-build-isolation"} if line.endswith("-e .") else _BY_HASH
        if "pip install" in line and not wanted <= set(line.split()):
            yield f"Makefile: an install without {', '.join(sorted(wanted))}: {line}"


_BY_HASH = {"--require-hashes"}


def _joined_lines(file: Path) -> list[str]:
    lines = file.read_text().replace("\\\n", "").splitlines()
    return [line for line in lines if line and not line.lstrip().startswith("#")]


# ---- files that are written from the code

OLDER_STEMMERS = {"dutch_porter", "porter", "simple"}


def written_files() -> Iterator[str]:
    """Files that are written from the code and differ from it."""
    for file, text in WRITERS.items():
        if file.read_text(encoding="utf-8") != text():
            yield f"{file.relative_to(ROOT)} is outdated: run `make docs`"
    named = languages_page.PAGE.read_text(encoding="utf-8").replace(",", " ").split()
    for language in sorted(LANGUAGE_NAMES - OLDER_STEMMERS - set(named)):
        yield f"docs/languages.md does not name {language}"


RULES_OF_LINT = (names_of_tests, words, docstrings, pages, pins, written_files)


def main() -> int:
    """Prints all faults; returns the exit code."""
    faults = [fault for rule in RULES_OF_LINT for fault in rule()]
    print(*faults, sep="\n" if faults else "", end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
