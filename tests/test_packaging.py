"""What is published: the wheel and the sdist, and a package that works without its extras."""

import io
import pkgutil
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distributions, metadata, packages_distributions
from pathlib import Path

import pytest

import a2a_grpc

ROOT = Path(__file__).parents[1]
VERSION = a2a_grpc.__version__
SOURCES = [
    path.relative_to(ROOT / "a2a_grpc").as_posix()
    for folder in ("", "bindings", "generated", "examples", "cli")
    for path in (ROOT / "a2a_grpc" / folder).glob("*.py*")
]
WITHOUT_EXTRAS = "import sys; sys.modules.update(dict.fromkeys(['orjson', 'typer', 'rich']));"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    for needed in ("build", "hatchling"):
        pytest.importorskip(needed)
    out = tmp_path_factory.mktemp("dist")
    built = _python("-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
    assert built.returncode == 0, built.stdout + built.stderr
    return out


@pytest.fixture
def wheel(published: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO((published / f"a2a_grpc-{VERSION}-py3-none-any.whl").read_bytes()))


@pytest.fixture
def sdist(published: Path) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO((published / f"a2a_grpc-{VERSION}.tar.gz").read_bytes()))


def test_the_wheel_has_one_package(wheel: zipfile.ZipFile) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"a2a_grpc", f"a2a_grpc-{VERSION}.dist-info"}


def test_the_wheel_has_every_module_as_a_regular_file(wheel: zipfile.ZipFile) -> None:
    kinds = {info.filename: stat.S_IFMT(info.external_attr >> 16) for info in wheel.infolist()}
    assert set(kinds.values()) <= {0, stat.S_IFREG}
    assert [s for s in [*SOURCES, "py.typed", "generated/a2a_pb2_grpc.pyi"] if f"a2a_grpc/{s}" not in kinds] == []
    assert [name for name in kinds if "__pycache__" in name] == []


def test_the_wheel_installs_the_command_and_the_license(wheel: zipfile.ZipFile) -> None:
    info = f"a2a_grpc-{VERSION}.dist-info"
    assert "a2a-grpc = a2a_grpc.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_the_sdist_has_what_building_and_testing_need(sdist: tarfile.TarFile) -> None:
    members = {m.name.partition("/")[2]: m for m in sdist.getmembers()}
    needed = [
        "proto/a2a.proto",
        "proto/a2a_v0_3.proto",
        "proto/generate.py",
        "tests/test_packaging.py",
        "pyproject.toml",
    ]
    needed += [
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "Makefile",
        "a2a_grpc/bindings/rest.py",
        "a2a_grpc/generated/a2a_pb2.py",
    ]
    assert [name for name in needed if name not in members] == []
    assert [name for name, m in members.items() if not (m.isfile() or m.isdir())] == []


@pytest.mark.parametrize("module", ["a2a_grpc", "a2a_grpc.examples.joker", "a2a_grpc.examples.demo", "a2a_grpc.cli"])
def test_imports_without_extras_and_without_warnings(module: str) -> None:
    ended = _python("-W", "error", "-c", f"{WITHOUT_EXTRAS} import {module}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_reads_and_writes_json_without_orjson() -> None:
    code = "from a2a_grpc.bindings.protojson import dumps, loads; print(dumps(loads('[1, \"é\"]')).decode())"
    ended = _python("-X", "utf8", "-W", "error", "-c", f"{WITHOUT_EXTRAS} {code}")
    assert (ended.stdout, ended.stderr) == ('[1,"é"]\n', "")


def test_the_command_without_its_extra_says_what_to_install() -> None:
    ended = _python("-c", f"{WITHOUT_EXTRAS} from a2a_grpc.cli import main; main()")
    assert ended.returncode == 1
    assert ended.stderr == "a2a-grpc: the command line needs typer: pip install 'a2a-grpc[cli]'\n"


# BR-77: a minimal install


def needed(name: str, *, extra: str = "") -> set[str]:
    """The distributions that one needs, with all that they need in turn, and itself."""
    found, waiting = set[str](), [(name, extra)]
    while waiting:
        each, with_extra = waiting.pop()
        if each in found and not with_extra:
            continue
        found.add(each)
        for line in metadata(each).get_all("Requires-Dist") or ():
            requirement, _, marker = line.partition(";")
            wanted = re.search(r"""extra == ["']([\w-]+)["']""", marker)
            if wanted is None or wanted[1] == with_extra:
                waiting.append((canonical(re.split(r"[^\w.-]", requirement.strip())[0]), ""))
        found &= INSTALLED
        waiting = [(d, e) for d, e in waiting if d in INSTALLED]
    return found


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PROVIDED = {module: {canonical(d) for d in found} for module, found in packages_distributions().items()}
INSTALLED = {canonical(d.metadata["Name"]) for d in distributions()}
OTHERS_REFUSED = """
import importlib, sys
others -= sys.modules.keys()
class Only:
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in others else self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Only, sys.meta_path)
for name in names:
    importlib.import_module(name)
missing = sorted(others & {name.partition(".")[0] for name in sys.modules})
assert not missing, missing
"""
NEED_CLI = ("a2a_grpc.cli.commands", "a2a_grpc.cli.__main__")


@pytest.mark.parametrize("extra", ["", "fast", "cli"])
def test_br_77_every_module_is_imported_with_what_an_install_brings(extra: str) -> None:
    """In a fresh interpreter that finds no other package: no extra's, no code generator's, no test tool's."""
    there = needed("a2a-grpc", extra=extra)
    others = {module for module, found in PROVIDED.items() if not found & there}
    assert "pytest" in others
    assert ("typer" in others, "orjson" in others) == (extra != "cli", extra != "fast")
    modules = [m.name for m in pkgutil.walk_packages(a2a_grpc.__path__, "a2a_grpc.")]
    names = [name for name in modules if extra == "cli" or name not in NEED_CLI]
    assert "a2a_grpc.client.connect" in names
    ended = _python("-W", "error", "-c", f"others, names = {others!r}, {['a2a_grpc.client', *names]!r}{OTHERS_REFUSED}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_br_77_a_core_install_is_small_and_needs_no_code_generator() -> None:
    assert needed("a2a-grpc") >= {"a2a-grpc", "grpcio", "protobuf", "aiohttp"}
    assert len(needed("a2a-grpc")) <= MOST_PACKAGES
    assert not {"grpcio-tools", "mypy-protobuf", "types-protobuf", "types-grpcio"} & needed("a2a-grpc", extra="cli")


MOST_PACKAGES = 20  # of a core install, those too that it needs on some versions of Python only


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, encoding="utf-8"
    )
