from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from trivium import Fact, Item, Segment
from trivium.python_objects import read_python
from trivium.records import Problem

SHOP = {
    "shop/__init__.py": '''
        """Sells books."""

        from .orders import Order, place as order
    ''',
    "shop/orders.py": '''
        """Orders, and their prices.

        More than a line.
        """

        import shop.prices
        from shop import stock as stored
        from shop.stock import *


        class Base:
            """What can be saved."""

            def save(self):
                self.check()


        class Order(Base, metaclass=type):
            def __init__(self, book: str, *, count: int = 1) -> None:
                """Makes an order.

                Not shown.
                """
                super().save()
                self.price = shop.prices.price_of(book)

            @classmethod
            def free(cls):
                return cls("free")

            def check(self):
                stored.reserve(self)
                count(self.book)

            async def ship(order):
                order.save()
                order.unknown()


        def place(book):
            def ready(made):
                return made.check()

            order = Order(book)
            order.save()
            Order.free()
            return ready(order)
    ''',
    "shop/prices.py": """
        def price_of(book):
            from . import stock

            price_of(book)
            return stock.count(book) or print(book)


        def reserve(place):
            place()
    """,
    "shop/stock.py": """
        from shop import order

        try:
            from fast import count
        except ImportError:
            def count(book):
                order(book)
                Shelf.Row.find(book)


        class Shelf:
            rows = list(reserve(None))

            class Row:
                @staticmethod
                def find(self):
                    self.take()

                def take(self): ...


        def reserve(order): ...
    """,
}


class Code:
    """Python files in a folder, and what reading them reports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[Problem] = []

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")

    def items(self, of: str = "") -> list[Item]:
        found = read_python(str(self.folder / of), self.problems.append)
        return [each.item for each in found]

    def objects(self, of: str = "") -> dict[str, Segment]:
        return {each.entity: each for each in self.items(of) if isinstance(each, Segment)}

    def facts(self, relation: str) -> set[tuple[str, str]]:
        return {
            (each.subject, each.object)
            for each in self.items()
            if isinstance(each, Fact) and each.relation == relation
        }

    def called_by(self, subject: str) -> set[str]:
        return {called for caller, called in self.facts("calls") if caller == subject}


@pytest.fixture
def code(tmp_path: Path) -> Code:
    code = Code(tmp_path / "bookshop")
    code.write(SHOP)
    return code


# ---------------------------------------------------------------- objects


def test_every_module_class_function_and_method_is_an_object(code: Code) -> None:
    assert list(code.objects()) == [
        "shop",
        "shop.orders",
        "shop.prices",
        "shop.stock",
        "shop.orders.Base",
        "shop.orders.Base.save",
        "shop.orders.Order",
        "shop.orders.Order.__init__",
        "shop.orders.Order.free",
        "shop.orders.Order.check",
        "shop.orders.Order.ship",
        "shop.orders.place",
        "shop.prices.price_of",
        "shop.prices.reserve",
        "shop.stock.count",
        "shop.stock.Shelf",
        "shop.stock.Shelf.Row",
        "shop.stock.Shelf.Row.find",
        "shop.stock.Shelf.Row.take",
        "shop.stock.reserve",
    ]


def test_a_symbol_has_its_signature_and_what_its_docstring_begins_with(code: Code) -> None:
    path = code.folder / "shop" / "orders.py"
    os.utime(path, (1_700_000_000, 1_700_000_000))

    assert code.objects()["shop.orders.Order.__init__"] == Segment(
        id="python:shop.orders.Order.__init__",
        text="def __init__(self, book: str, *, count: int=1) -> None\nMakes an order.",
        title="Order.__init__",
        kind="symbol",
        event_time=datetime.fromtimestamp(1_700_000_000, UTC),
        labels={"project": "bookshop", "path": "shop/orders.py"},
        entities=("Order.__init__",),
        entity="shop.orders.Order.__init__",
    )


def test_other_signatures_are_shown_as_they_are_written(code: Code) -> None:
    objects = code.objects()

    assert objects["shop.orders.Order"].text == "class Order(Base, metaclass=type)"
    assert objects["shop.stock.Shelf"].text == "class Shelf"
    assert objects["shop.orders.Order.ship"].text == "async def ship(order)"
    assert objects["shop.orders.Order.ship"].entities == ("Order.ship", "ship")


def test_a_file_has_its_docstring_or_else_its_path(code: Code) -> None:
    objects = code.objects()

    assert objects["shop.orders"].text == "Orders, and their prices.\n\nMore than a line."
    assert objects["shop.prices"].text == "shop/prices.py"
    assert (objects["shop"].kind, objects["shop"].title) == ("file", "shop/__init__.py")
    assert objects["shop.orders"].entities == ("shop/orders.py", "orders.py")


def test_a_name_that_is_defined_twice_is_one_symbol_shown_without_its_overloads(
    code: Code,
) -> None:
    twice = """
        from typing import overload
        from shop.prices import price_of, reserve

        @overload
        def read(given: int) -> int: ...
        def read(given):
            price_of(given)

        if read:
            def read(other):
                reserve(other)
    """
    code.write({"shop/twice.py": twice})

    assert code.objects()["shop.twice.read"].text == "def read(given)"
    assert code.called_by("shop.twice.read") == {"shop.prices.price_of", "shop.prices.reserve"}


def test_what_cannot_be_stored_is_left_out_of_a_text(code: Code) -> None:
    code.write({"odd.py": r'"""NUL \0, half a letter \ud800, and ' + "x" * 40_000 + '"""'})

    text = code.objects()["odd"].text

    assert text.startswith("NUL  , half a letter ?, and xxx")
    assert len(text.encode()) < 32 * 1024


# ---------------------------------------------------------------- relations


def test_every_symbol_is_defined_in_its_file(code: Code) -> None:
    defined = code.facts("defined_in")

    assert ("shop.stock.Shelf.Row.take", "shop.stock") in defined
    assert len(defined) == 16


def test_imports_lead_to_the_files_of_the_project(code: Code) -> None:
    assert code.facts("imports") == {
        ("shop", "shop.orders"),
        ("shop.orders", "shop.prices"),
        ("shop.orders", "shop.stock"),
        ("shop.prices", "shop.stock"),
        ("shop.stock", "shop"),
    }


def test_a_relative_import_counts_from_its_package(code: Code) -> None:
    code.write(
        {
            "shop/web/__init__.py": "from .. import prices",
            "shop/web/pages/__init__.py": "",
            "shop/web/pages/home.py": "from ...stock import reserve\nfrom .. import pages\n",
            "shop/web/pages/far.py": "from ..... import stock\nfrom .missing import x\n",
        }
    )

    imports = {(importer, of) for importer, of in code.facts("imports") if ".web" in importer}

    assert imports == {
        ("shop.web", "shop.prices"),
        ("shop.web.pages.home", "shop.stock"),
        ("shop.web.pages.home", "shop.web.pages"),
    }


@pytest.mark.parametrize(
    ("caller", "called"),
    [
        ("shop.orders.Base.save", set()),
        ("shop.orders.Order.__init__", {"shop.orders.Base.save", "shop.prices.price_of"}),
        ("shop.orders.Order.free", {"shop.orders.Order"}),
        ("shop.orders.Order.check", {"shop.stock.reserve", "shop.stock.count"}),
        ("shop.orders.Order.ship", {"shop.orders.Base.save"}),
        ("shop.orders.place", {"shop.orders.Order", "shop.orders.Order.free"}),
        ("shop.prices.price_of", {"shop.stock.count"}),
        ("shop.prices.reserve", set()),
        ("shop.stock.count", {"shop.orders.place", "shop.stock.Shelf.Row.find"}),
        ("shop.stock.Shelf", {"shop.stock.reserve"}),
        ("shop.stock.Shelf.Row.find", set()),
    ],
)
def test_a_call_is_told_by_the_names_that_are_bound(
    code: Code, caller: str, called: set[str]
) -> None:
    assert code.called_by(caller) == called


def test_a_fact_rests_on_its_subject_and_has_an_id_of_its_own(code: Code) -> None:
    facts = [each for each in code.items() if isinstance(each, Fact)]

    assert all(each.evidence == (f"python:{each.subject}",) for each in facts)
    assert len({each.id for each in facts}) == len(facts)


def test_reading_again_gives_the_same_items(code: Code) -> None:
    assert code.items() == code.items()


def test_modules_and_classes_that_lead_in_a_circle_are_read(code: Code) -> None:
    code.write(
        {
            "a.py": "from b import *\nfrom b import x\nclass A(A, B): ...\n",
            "b.py": "from a import *\nfrom a import x\nclass B(A):\n"
            "    def f(self):\n        self.g()\n        x()\n        nothing()\n",
        }
    )

    assert code.called_by("b.B.f") == set()


# ---------------------------------------------------------------- files


def test_a_package_is_called_by_the_packages_around_it(code: Code) -> None:
    code.write({"shop/web/__init__.py": "", "shop/web/home.py": "from shop.web import home"})

    assert list(code.objects("shop/web")) == ["shop.web", "shop.web.home"]
    assert code.objects("shop/web")["shop.web.home"].labels == {
        "project": "web",
        "path": "home.py",
    }


def test_a_package_in_a_folder_is_called_as_it_is_imported_and_a_script_by_its_folder(
    code: Code,
) -> None:
    code.write(
        {
            "src/tool/__init__.py": "",
            "src/tool/run.py": "def run(): ...",
            "scripts/start.py": "import tool.run, common\n"
            "def start():\n    tool.run.run()\n    common.log()\n",
            "scripts/common.py": "def log(): ...",
            "setup.py": "",
        }
    )

    assert {"tool.run", "scripts.start", "scripts.common", "setup"} <= code.objects().keys()
    assert code.called_by("scripts.start.start") == {"tool.run.run", "scripts.common.log"}


def test_a_module_of_a_package_does_not_stand_for_one_of_the_standard_library(
    code: Code,
) -> None:
    code.write(
        {"shop/types.py": "def f(): ...", "shop/use.py": "import types\nfrom types import f"}
    )

    assert not [importer for importer, _ in code.facts("imports") if importer == "shop.use"]


def test_files_of_one_name_in_several_places_are_all_read(code: Code) -> None:
    code.write({"one/tests/__init__.py": "", "two/tests/__init__.py": "def f(): ..."})

    files = {each.labels["path"] for each in code.objects().values() if each.kind == "file"}

    assert {"one/tests/__init__.py", "two/tests/__init__.py"} <= files


def test_a_function_of_the_same_name_as_a_module_leaves_it_the_name(code: Code) -> None:
    code.write({"shop/__init__.py": "def orders(): ..."})

    assert code.objects()["shop.orders"].kind == "file"


def test_hidden_folders_and_environments_are_left_out(code: Code) -> None:
    code.write(
        {
            ".cache/a.py": "",
            "env/pyvenv.cfg": "",
            "env/lib/b.py": "",
            "shop/__pycache__/c.py": "",
            "node_modules/d.py": "",
        }
    )

    assert len([each for each in code.objects().values() if each.kind == "file"]) == 4


def test_files_that_cannot_be_parsed_are_reported_and_the_others_read(code: Code) -> None:
    code.write({"shop/broken.py": "x = 1\ndef f(:\n", "shop/deep.py": "-" * 200_000 + "1"})
    (code.folder / "nul.py").write_bytes(b"x = '\x00'")
    (code.folder / "latin.py").write_bytes(b"x = '\xe9'")
    (code.folder / "gone.py").symlink_to("nowhere.py")

    count = len(code.objects())

    reported = {Path(place.file).name: (place.line, said) for place, said in code.problems}
    assert reported.keys() == {"broken.py", "deep.py", "nul.py", "latin.py", "gone.py"}
    assert reported["broken.py"] == (2, "is not Python: invalid syntax")
    assert reported["gone.py"] == (1, "cannot be read: No such file or directory")
    assert count == 20


def test_a_signature_that_is_nested_too_deeply_is_cut(code: Code) -> None:
    code.write({"deep.py": f"def f(x={'+'.join(['1'] * 600)}, y=2) -> int: ..."})

    assert code.objects()["deep.f"].text == "def f(...) -> int"


def test_nothing_is_run(code: Code) -> None:
    code.write({"shop/wild.py": "import sys\nsys.modules['wild'] = sys\nraise SystemExit(3)\n"})

    assert "shop.wild" in code.objects()
    assert "wild" not in sys.modules


def test_warnings_of_the_code_are_not_ours(code: Code) -> None:
    code.write({"shop/odd.py": r"x = '\d' is 1"})

    assert "shop.odd" in code.objects()
    assert code.problems == []
