"""Who may import whom, as tables, held against the imports that the source has."""

import ast
import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

import a2a_grpc

PACKAGE = "a2a_grpc"
ROOT = Path(a2a_grpc.__file__).parent

PURE_BINDINGS = [
    "bindings.protojson.*",
    "bindings.http_rule.*",
    "bindings.json_status",
    "bindings.sse",
    "bindings.v0_3.convert*",
]
FACTS = ["generated.*", "errors", "methods"]
PURE = [*FACTS, "caller", "validation", "service_parameters", "option_rules", "card", "card_check"]
PURE += ["card_document", "challenge", "input_modes", "encoded", *PURE_BINDINGS]
CALL = ["context", "behaviors", "handlers", "inherited", "inprocess"]

MAY_IMPORT = {
    # each module, and the modules of this package that it may import; the most specific row counts
    "generated.*": ["generated.*"],
    "errors": [],
    "methods": ["generated.*"],
    "ports": [],
    "caller": [],
    "inherited": [],
    "validation": ["errors"],
    "service_parameters": ["errors"],
    **{name: [*FACTS, *PURE_BINDINGS] for name in PURE_BINDINGS},
    "encoded": [*FACTS, *PURE_BINDINGS],
    "card": FACTS,
    "card_check": [*FACTS, "card", "validation"],
    "card_document": [*FACTS, *PURE_BINDINGS, "card", "card_check"],
    "challenge": FACTS,
    "input_modes": FACTS,
    "context": ["errors"],
    "behaviors": ["context"],
    "handlers": [*PURE, "context", "behaviors"],
    "inprocess": [*PURE, "context", "behaviors", "inherited"],
    "options": ["errors", "generated.*", "service_parameters", "option_rules"],
    "option_rules": ["errors"],
    "bindings.*": [*PURE, *CALL, "bindings.*"],
    "mounts": [*FACTS, "handlers", "options"],
    "assembly": [*PURE, *CALL, "bindings.*", "options", "auth.*", "mounts"],
    "aiohttp_mount": ["generated.*", "bindings.*", "option_rules", "options", "mounts", "assembly"],
    "auth.*": [*PURE, "context", "auth.*"],
    "in_flight": ["inprocess"],
    "server": [*PURE, *CALL, "bindings.*", "options", "ports", "mounts", "assembly", "in_flight"],
    "running": ["errors", "generated.*", "behaviors", "options", "ports", "server"],
    "__init__": ["*"],
    "tasks.*": [*PURE, "context", "inherited", "tasks.*"],
    "client.*": [*PURE, "inherited", "client.*"],
    "client.testing": [*PURE, "inherited", "client.*", "server"],
    "cli.*": ["*"],
    "examples.*": ["*"],
}

NOT_IMPORTED = {
    # modules that only the ones named here may import; so that each stays optional
    "examples.*": ["examples.*"],
    "cli.*": ["cli.*", "examples.demo"],
    "tasks.*": ["tasks.*", "examples.*", "__init__"],
    "client.*": ["client.*", "examples.*", "cli.*", "__init__"],
    "bindings.v0_3.*": ["bindings.v0_3.*", "assembly", "server", "client.*"],
}

HTTP_BINDINGS = ["cors", "event_stream", "forwarded", "http_body", "http_call", "http_context", "http_server"]
HTTP_BINDINGS += ["jsonrpc", "rest", "site"]
ONLY_IN = {
    # packages that only the modules named here may import
    "aiohttp": [
        *(f"bindings.{name}" for name in HTTP_BINDINGS),
        "bindings.v0_3.*",
        "aiohttp_mount",
        "server",
        "client.*",
        "tasks.push*",
        "tasks.webhook_receiver",
    ],
    "orjson": ["bindings.protojson.text"],
    "typer": ["cli.commands"],
    "rich": [],
    "a2a": [],
    "pytest": [],
}
NOT_IN_PURE = ["asyncio", "aiohttp", "grpc.aio"]


class Import(NamedTuple):
    importer: str  # a module's name below the package
    imported: str  # the same for a module of this package, else a full name
    own: bool
    line: int

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.imported}"


def test_the_tables_name_every_module() -> None:
    assert [name for name in MODULES if _row(name) is None] == []


def test_modules_import_what_is_below_them() -> None:
    assert (
        _broken(
            lambda i: i.own and i.importer != i.imported and not _is_one_of(i.imported, MAY_IMPORT[_row(i.importer)])
        )
        == []
    )


@pytest.mark.parametrize("name", NOT_IMPORTED)
def test_optional_parts_are_imported_by_no_one_else(name: str) -> None:
    allowed = NOT_IMPORTED[name]
    assert _broken(lambda i: i.own and _is_one_of(i.imported, [name]) and not _is_one_of(i.importer, allowed)) == []


@pytest.mark.parametrize("package", ONLY_IN)
def test_packages_are_imported_only_where_they_belong(package: str) -> None:
    allowed = ONLY_IN[package]
    assert _broken(lambda i: not i.own and _is_of(i.imported, package) and not _is_one_of(i.importer, allowed)) == []


@pytest.mark.parametrize("package", NOT_IN_PURE)
def test_pure_modules_wait_for_nothing(package: str) -> None:
    generated = ["generated.*"]  # protoc writes what it writes
    pure = [i for i in IMPORTS if _is_one_of(i.importer, PURE) and not _is_one_of(i.importer, generated)]
    assert [str(i) for i in pure if not i.own and _is_of(i.imported, package)] == []


def test_bindings_import_relatively() -> None:
    absolute = [i for i in IMPORTS if not i.own and _is_of(i.imported, PACKAGE)]
    assert [str(i) for i in absolute if not i.importer.startswith("examples.")] == []


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("bindings.rest", "from ..errors import A2AError", ("errors", True)),
        ("bindings.rest", "from .http_body import JSON", ("bindings.http_body", True)),
        ("bindings.rest", "from .. import errors", ("errors", True)),
        ("bindings.rest", "from .. import Server", ("__init__", True)),
        ("context", "from . import errors", ("errors", True)),
        ("context", "import grpc.aio", ("grpc.aio", False)),
        ("context", "from grpc import aio", ("grpc.aio", False)),
        ("examples.demo", "from a2a_grpc.cli.calls import curl", ("cli.calls", True)),
        ("card", "def f():\n    import asyncio", ("asyncio", False)),
    ],
)
def test_the_reader_of_imports_sees(module: str, source: str, expected: tuple[str, bool]) -> None:
    assert expected in {(i.imported, i.own) for i in _imports(module, ast.parse(source))}


# Reading


def _modules() -> dict[str, ast.Module]:
    found = {}
    for folder, _, files in os.walk(ROOT, followlinks=True):
        for path in (Path(folder, f) for f in files if f.endswith(".py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found[name if name == "__init__" else name.removesuffix(".__init__")] = ast.parse(path.read_text())
    return found


def _imports(module: str, tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (_import(module, alias.name, "", node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            yield from (_import(module, base, alias.name, node.lineno) for alias in node.names)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    here = [PACKAGE, *([] if module == "__init__" else module.split("."))]
    is_package = module == "__init__" or (ROOT / module.replace(".", "/")).is_dir()
    up = node.level - 1 if is_package else node.level
    return ".".join([*here[: len(here) - up], *([node.module] if node.module else [])])


def _import(module: str, base: str, name: str, line: int) -> Import:
    full = f"{base}.{name}" if name else base
    if not _is_of(base, PACKAGE):
        return Import(module, full, False, line)
    inside = [".".join(n.split(".")[1:]) for n in (full, base)]
    return Import(module, next((n for n in inside if n in MODULES), "__init__"), True, line)


# Matching


def _is_one_of(name: str, patterns: list[str]) -> bool:
    """Whether a pattern matches; `x.*` stands for the package x too."""
    return any(fnmatchcase(name, p) or (p.endswith(".*") and name == p[:-2]) for p in patterns)


def _row(name: str) -> str | None:
    return max((p for p in MAY_IMPORT if _is_one_of(name, [p])), key=len, default=None)


def _is_of(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _broken(rule) -> list[str]:
    return [str(i) for i in IMPORTS if rule(i)]


MODULES = _modules()
IMPORTS = [i for module, tree in MODULES.items() for i in _imports(module, tree)]
