"""Reads a Python project as objects and their relations: its files, and what is defined in them.

An object is a segment that stands for an entity: of kind `file` for a module, of kind
`symbol` for a function, class or method. The facts between them are

* `defined_in`, from a symbol to its file;
* `imports`, from a file to a file;
* `calls`, from a symbol to a symbol. A class is called where it is made. Calls are told by
  the names bound in the module: what it defines and imports, `self.method` with what
  that inherits, and what is reached from these by dots. Where a name alone does not tell,
  as with the type of a variable, the call is left out.

Everything is read with `ast`; nothing is imported or run. Functions within functions
count as parts of these. Entities are named in full, such as `package.module.Class.method`,
so names that differ only by case are one entity to the service.
"""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trivium.python_names import Definition, Module, Project, Symbol
from trivium.reading import Found, stable_id
from trivium.records import Place, Problem, Report
from trivium.values import Fact, Item, Segment

FILE = "file"
SYMBOL = "symbol"
CALLS = "calls"
DEFINED_IN = "defined_in"
IMPORTS = "imports"

MAX_TEXT_CHARS = 8000
"""So that no text exceeds the service's 32 KiB, whatever its letters."""

_SKIPPED = frozenset({"__pycache__", "node_modules"})


def read_python(folder: str, report: Report) -> Iterator[Found[Item]]:
    """Reads the objects of a project, then their relations.

    Folders whose names begin with a dot, and virtual environments, are left out.

    Args:
        folder: The project, or a package.
        report: Called with each file that cannot be parsed.
    """
    reader = _Reader(Path(folder), report)
    project = Project(reader.modules())
    for module in project.modules.values():
        yield reader.file(module)
    for symbol in project.symbols.values():
        yield reader.symbol(symbol)
    yield from reader.facts(project)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the files of a project, and writes its items."""

    folder: Path
    report: Report

    # ------------------------------------------------------------ files

    def modules(self) -> list[Module]:
        """The modules that can be parsed, by path."""
        found: dict[str, Module] = {}
        for file in _python_files(self.folder):
            tree = self._parsed(file)
            if tree is not None:
                path = file.relative_to(self.folder)
                name = _module_name(file, self.folder)
                if name in found:  # packages of the same name in several places
                    name = ".".join(path.parts)
                found[name] = Module(name, path.as_posix(), tree, file.name == "__init__.py")
        return list(found.values())

    def _parsed(self, file: Path) -> ast.Module | None:
        try:
            with warnings.catch_warnings(action="ignore"):
                return ast.parse(file.read_bytes())
        except OSError as error:
            self.report(Problem(Place(str(file), 1), f"cannot be read: {error.strerror}"))
        except SyntaxError as error:
            place = Place(str(file), error.lineno or 1)
            self.report(Problem(place, f"is not Python: {error.msg}"))
        except (ValueError, RecursionError, MemoryError) as error:
            self.report(Problem(Place(str(file), 1), f"is not Python: {error}"))
        return None

    # ------------------------------------------------------------ objects

    def file(self, module: Module) -> Found[Segment]:
        """A file, by its docstring."""
        name = module.path.rpartition("/")[2]
        text = ast.get_docstring(module.tree) or module.path
        called = [module.path] if name == "__init__.py" else [module.path, name]
        return self._object(module, FILE, module.name, module.path, text, called, line=1)

    def symbol(self, symbol: Symbol) -> Found[Segment]:
        """A symbol, by its signature and what its docstring begins with."""
        definition = symbol.definition
        called = [symbol.title]
        if not definition.name.startswith("__"):
            called.append(definition.name)
        return self._object(
            symbol.module,
            SYMBOL,
            symbol.name,
            symbol.title,
            _described(definition),
            called,
            line=definition.lineno,
        )

    def _object(
        self,
        module: Module,
        kind: str,
        entity: str,
        title: str,
        text: str,
        called: list[str],
        *,
        line: int,
    ) -> Found[Segment]:
        file = self.folder / module.path
        segment = Segment(
            id=_segment_id(entity),
            text=_storable(text),
            title=title,
            kind=kind,
            event_time=datetime.fromtimestamp(file.stat().st_mtime, UTC),
            labels={"project": self.folder.resolve().name, "path": module.path},
            # What it is called by, lest the service look for names in code.
            entities=tuple(dict.fromkeys(called)),
            entity=entity,
        )
        return Found(segment, "", Place(str(file), line))

    # ------------------------------------------------------------ relations

    def facts(self, project: Project) -> Iterator[Found[Fact]]:
        """What each file imports, and where each symbol is defined and what it calls."""
        for module in project.modules.values():
            for name in project.imported(module):
                yield self._fact(module, module.name, IMPORTS, name)
        for symbol in project.symbols.values():
            module, line = symbol.module, symbol.definition.lineno
            yield self._fact(module, symbol.name, DEFINED_IN, module.name, line)
            for name in project.called(symbol):
                yield self._fact(module, symbol.name, CALLS, name, line)

    def _fact(
        self, module: Module, subject: str, relation: str, object_: str, line: int = 1
    ) -> Found[Fact]:
        fact = Fact(
            id=stable_id("python", subject, relation, object_),
            subject=subject,
            relation=relation,
            object=object_,
            evidence=(_segment_id(subject),),
        )
        return Found(fact, "", Place(str(self.folder / module.path), line))


# ---------------------------------------------------------------- files


def _python_files(folder: Path) -> Iterator[Path]:
    """The files of a project, in the order of their paths."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if _belongs(Path(place, each)))
        for name in sorted(files):
            if name.endswith(".py"):
                yield Path(place, name)


def _belongs(folder: Path) -> bool:
    its_own = folder.name not in _SKIPPED and not folder.name.startswith(".")
    return its_own and not (folder / "pyvenv.cfg").exists()


def _module_name(file: Path, project: Path) -> str:
    """What a file is imported as, by the packages around it, even those around the project."""
    package = _package_name(file.parent.resolve(), project.resolve())
    parts = [package, "" if file.name == "__init__.py" else file.stem]
    return ".".join(filter(None, parts)) or file.stem


def _package_name(folder: Path, project: Path) -> str:
    """What a folder is imported as; empty for one that is not part of a package.

    A folder without `__init__.py` counts as one within the project, as Python has it,
    but packages in it are not called by it: mostly they are imported from there.
    """
    is_package = (folder / "__init__.py").exists()
    if not is_package and (folder == project or project not in folder.parents):
        return ""
    if is_package and not (folder.parent / "__init__.py").exists():
        return folder.name
    return ".".join(filter(None, [_package_name(folder.parent, project), folder.name]))


# ---------------------------------------------------------------- texts


def _described(definition: Definition) -> str:
    """The signature, and the first paragraph of the docstring."""
    first, _, _ = (ast.get_docstring(definition) or "").partition("\n\n")
    return f"{_signature(definition)}\n{first}".strip()


def _signature(definition: Definition) -> str:
    if isinstance(definition, ast.ClassDef):
        bases = ", ".join(map(_written, [*definition.bases, *definition.keywords]))
        return f"class {definition.name}({bases})" if bases else f"class {definition.name}"
    keyword = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    returns = f" -> {_written(definition.returns)}" if definition.returns else ""
    return f"{keyword} {definition.name}({_written(definition.args)}){returns}"


def _written(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _storable(text: str) -> str:
    """The text without what cannot be stored: halves of characters, and NUL."""
    return text[:MAX_TEXT_CHARS].encode(errors="replace").decode().replace("\x00", " ")


def _segment_id(entity: str) -> str:
    return f"python:{entity}"
