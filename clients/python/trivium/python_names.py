"""Knows what the names of a Python project mean, by its syntax alone; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


class Import(NamedTuple):
    """A name that an import binds, and what it means by it.

    It means the module `module`, or what that one calls `attribute`; `imported` is the
    module that is named, of which `module` may be only the first part. The name "*"
    stands for all that the module has.
    """

    bound: str
    module: str
    attribute: str
    imported: str


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A file of the project. `path` is relative to the project, with slashes."""

    name: str
    path: str
    tree: ast.Module
    is_package: bool = False

    @property
    def package(self) -> str:
        """The package that relative imports count from; of a script, the folder it is in."""
        return self.name if self.is_package else self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A function, class or method, with all the definitions that it has.

    `title` is its name within the module, and `owner` the qualified name of the class it is in.
    """

    name: str
    title: str
    owner: str
    module: Module
    definitions: list[Definition] = field(default_factory=list)

    @property
    def definition(self) -> Definition:
        """The one to show: the first that is no `@overload`."""
        plain = (each for each in self.definitions if not _decorated(each, "overload"))
        return next(plain, self.definitions[0])


@dataclass(frozen=True, slots=True)
class _Names:
    """The names within a function or class body.

    `itself` is the name of the object that a method is called on, `imports` what is
    imported here, and `hidden` what is bound to something unknown.
    """

    module: Module
    owner: str = ""
    itself: str = ""
    imports: Mapping[str, Import] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


class Project:
    """The modules of a project, the symbols in them, and what each uses of the others."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.symbols = {
            symbol.name: symbol
            for module in modules
            for symbol in _symbols(module)
            if symbol.name not in self.modules  # as a function of its package often is called
        }
        self._packages = {prefix for module in modules for prefix in _prefixes(module.name)}
        self._by_path = {_dotted_path(module): module.name for module in modules}
        self._imports = {each.name: list(_imports(each.tree, each)) for each in modules}
        self._bound = {
            name: {each.bound: each for each in imports} for name, imports in self._imports.items()
        }
        self._looking_for: set[tuple[str, str]] = set()

    def imported(self, module: Module) -> list[str]:
        """The names of the project's modules that a module imports, each once, but itself."""
        found = (self._imported_module(each, module) for each in self._imports[module.name])
        return [name for name in dict.fromkeys(found) if name and name != module.name]

    def called(self, symbol: Symbol) -> list[str]:
        """The names of the symbols that a symbol calls, each once, but itself."""
        found: dict[str | None, None] = {}
        for definition in symbol.definitions:
            names = _names_within(definition, symbol)
            found |= dict.fromkeys(self._callee(call, names) for call in _calls(definition))
        return [name for name in found if name in self.symbols and name != symbol.name]

    # ------------------------------------------------------------ modules

    def _imported_module(self, import_: Import, near: Module) -> str | None:
        module = self._module(import_.imported, near)
        if module is None:
            return None
        found = (f"{module}.{import_.attribute}", module)
        return next((name for name in found if name in self.modules), None)

    def _module(self, name: str, near: Module) -> str | None:
        """The module or package of that name: the project's, or one beside a script."""
        beside = f"{near.package}.{name}"
        for each in (name, self._by_path.get(name, "")):
            if self._has(each):
                return each
        return beside if near.package not in self.modules and self._has(beside) else None

    def _has(self, module: str) -> bool:
        return module in self.modules or module in self._packages

    # ------------------------------------------------------------ names

    def _callee(self, call: ast.Call, names: _Names) -> str | None:
        function = call.func
        if isinstance(function, ast.Attribute) and _is_super(function.value):
            return self._inherited(names.owner, function.attr)
        chain = _chain(function)
        return self._meaning(chain, names) if chain else None

    def _meaning(self, chain: Sequence[str], names: _Names) -> str | None:
        """The qualified name of what a chain of names means."""
        found = self._first(chain[0], names)
        for name in chain[1:]:
            found = self._member(found, name) if found else None
        return found

    def _first(self, name: str, names: _Names) -> str | None:
        if name == names.itself:
            return names.owner
        if name in names.imports:
            return self._of_import(names.imports[name], names.module)
        return None if name in names.hidden else self._in_module(names.module.name, name)

    def _member(self, of: str, name: str) -> str | None:
        """What a module, package or class calls so."""
        if of in self.symbols:
            own = f"{of}.{name}"
            return own if own in self.symbols else self._inherited(of, name)
        found = self._in_module(of, name) if of in self.modules else None
        within = f"{of}.{name}"
        return found or (within if self._has(within) else None)

    def _in_module(self, module: str, name: str) -> str | None:
        """What a module itself calls so: what it defines, or else imports."""
        if f"{module}.{name}" in self.symbols:
            return f"{module}.{name}"
        if (module, name) in self._looking_for:
            return None  # modules that import it from each other
        self._looking_for.add((module, name))
        try:
            return self._imported_as(self.modules[module], name)
        finally:
            self._looking_for.remove((module, name))

    def _imported_as(self, module: Module, name: str) -> str | None:
        if name in self._bound[module.name]:
            return self._of_import(self._bound[module.name][name], module)
        for import_ in self._imports[module.name]:
            if import_.bound == "*":
                found = self._of_import(import_._replace(attribute=name), module)
                if found is not None:
                    return found
        return None

    def _of_import(self, import_: Import, near: Module) -> str | None:
        module = self._module(import_.module, near)
        if module is None or not import_.attribute:
            return module
        return self._member(module, import_.attribute)

    def _inherited(self, class_: str, name: str) -> str | None:
        """The method of that name of the nearest class that this one extends."""
        if class_ not in self.symbols or (class_, name) in self._looking_for:
            return None
        self._looking_for.add((class_, name))
        try:
            found = (self._member(base, name) for base in self._bases(self.symbols[class_]))
            return next(filter(None, found), None)
        finally:
            self._looking_for.remove((class_, name))

    def _bases(self, class_: Symbol) -> Iterator[str]:
        for definition in class_.definitions:
            for base in definition.bases if isinstance(definition, ast.ClassDef) else ():
                chain = _chain(base.value if isinstance(base, ast.Subscript) else base)
                found = self._meaning(chain, _Names(class_.module)) if chain else None
                if found in self.symbols:
                    yield found


# ---------------------------------------------------------------- what is defined


def _symbols(module: Module) -> list[Symbol]:
    found: dict[str, Symbol] = {}
    for prefix, definition in _definitions(module.tree):
        title = f"{prefix}{definition.name}"
        name = f"{module.name}.{title}"
        owner = f"{module.name}.{prefix[:-1]}" if prefix else ""
        found.setdefault(name, Symbol(name, title, owner, module)).definitions.append(definition)
    return list(found.values())


def _definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """What a module and its classes define, under conditions too, but not within functions.

    Each comes with the names of the classes around it, such as "Outer.Inner.".
    """
    waiting: list[tuple[str, ast.AST]] = [("", tree)]  # a recursion could go too deep
    while waiting:
        prefix, node = waiting.pop()
        if isinstance(node, _DEFINITIONS):
            yield prefix, node
        if not isinstance(node, (*_FUNCTIONS, ast.expr)):
            within = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
            waiting += [(within, each) for each in reversed(list(ast.iter_child_nodes(node)))]


def _decorated(definition: Definition, by: str) -> bool:
    chains = (_chain(decorator) for decorator in definition.decorator_list)
    return any(chain and chain[-1] == by for chain in chains)


# ---------------------------------------------------------------- what is imported


def _imports(tree: ast.AST, module: Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield Import(bound, alias.name if alias.asname else bound, "", alias.name)
        elif isinstance(node, ast.ImportFrom):
            source = _source(node, module)
            for alias in node.names if source else ():
                attribute = "" if alias.name == "*" else alias.name
                yield Import(alias.asname or alias.name, source, attribute, source)


def _source(node: ast.ImportFrom, module: Module) -> str:
    """The full name of the module imported from; empty if that is outside of the project."""
    if not node.level:
        return node.module or ""
    package = module.package.split(".")
    kept = package[: max(0, len(package) - node.level + 1)]
    return ".".join(filter(None, [*kept, node.module])) if kept else ""


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))


def _dotted_path(module: Module) -> str:
    """How a module is called if every folder counts as a package."""
    return module.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


# ---------------------------------------------------------------- what is called


def _calls(definition: Definition) -> Iterator[ast.Call]:
    """The calls in a body, in the order of the text, functions within a function included.

    What a class calls is what its body does, without its methods and classes.
    """
    body: Sequence[ast.stmt] = definition.body
    if isinstance(definition, ast.ClassDef):
        body = [each for each in body if not isinstance(each, _DEFINITIONS)]
    calls = [node for each in body for node in ast.walk(each) if isinstance(node, ast.Call)]
    return iter(sorted(calls, key=lambda call: (call.lineno, call.col_offset)))


def _names_within(definition: Definition, symbol: Symbol) -> _Names:
    if isinstance(definition, ast.ClassDef):
        return _Names(symbol.module, owner=symbol.name)
    return _Names(
        symbol.module,
        owner=symbol.owner,
        itself=_itself(definition) if symbol.owner else "",
        imports={each.bound: each for each in _imports(definition, symbol.module)},
        hidden=frozenset(_bound(definition)),
    )


def _itself(method: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The name of a method's first argument, the object or class that it is called on."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    return "" if not arguments or _decorated(method, "staticmethod") else arguments[0].arg


def _bound(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """The names that a function binds, by arguments, assignments and definitions."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, _DEFINITIONS) and node is not function:
            yield node.name


def _chain(expression: ast.expr) -> tuple[str, ...] | None:
    """The names of `a.b.c`; None if it is anything else."""
    names = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    return (expression.id, *reversed(names)) if isinstance(expression, ast.Name) else None


def _is_super(expression: ast.expr) -> bool:
    return (
        isinstance(expression, ast.Call)
        and isinstance(expression.func, ast.Name)
        and expression.func.id == "super"
    )
