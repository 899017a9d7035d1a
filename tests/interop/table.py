"""A pytest plugin that prints what each peer did in a run: `pytest -p tests.interop.table tests/interop tests/client`.

A mark is for one binding, in the order of the legend: all tests of the operation passed (+), one did not (x), all were
skipped (s), none ran (.). A run ends with an error where there is an x, and where there is a dot, unless tests were
chosen by -k or -m.
"""

import json
import shutil
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.methods import methods

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
MARKS = {"failed": "x", "passed": "+", "skipped": "s"}  # the first one that there is, is the mark

PYTHON, JS = "a2a-sdk", "@a2a-js/sdk"
CLIENTS = {"test_sdk_client": (PYTHON, "calls us"), "test_js_sdk": (JS, "calls us")}
SERVERS = {"test_sdk_server": (PYTHON, "is called"), "test_js_sdk": (JS, "is called")}
COLUMNS = (*CLIENTS.values(), *SERVERS.values())
CALLING = ("test_unary", "test_stream", "test_call")  # their parameter `operation` begins with an operation
COVERS: dict[str, tuple[str, ...]] = {
    "test_sending": ("SendMessage",),
    "test_asking": ("SendStreamingMessage",),
    "test_streaming": ("SendStreamingMessage",),
    "test_reading_and_listing": ("GetTask", "ListTasks"),
    "test_following_and_canceling": ("SubscribeToTask", "CancelTask"),
    "test_webhooks": tuple(name for name in methods() if "PushNotificationConfig" in name),
    "test_the_extended_card": ("GetExtendedAgentCard",),
    "test_extended_card": ("GetExtendedAgentCard",),
}
"""What the tests without that parameter call."""

Column = tuple[str, str]  # peer, direction
Cell = tuple[Column, str, str]  # column, operation, binding
_outcomes: defaultdict[Cell, set[str]] = defaultdict(set)
_reasons: defaultdict[str, set[str]] = defaultdict(set)  # why a peer was skipped


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    report: Any = yield
    if report.when == "call" or report.outcome != "passed":
        for cell in cells(item):
            _outcomes[cell].add(report.outcome)
            if report.skipped:
                _reasons[cell[0][0]].add(report.longrepr[2].removeprefix("Skipped: "))
    return report


def cells(item: pytest.Function) -> Iterator[Cell]:
    """Where the outcome of a test belongs; nowhere, where it is not about an operation of a peer."""
    name, given = item.originalname, item.callspec.params if hasattr(item, "callspec") else {}
    column = (SERVERS if "agent" in given else CLIENTS).get(item.path.stem)
    operations = (given["operation"].partition(",")[0],) if name in CALLING else COVERS.get(name, ())
    if column:
        yield from ((column, operation, given.get("agent", given.get("binding"))) for operation in operations)


def table() -> Iterator[str]:
    widest = max(map(len, methods()))
    for part in (lambda c: f"{c[0]} {versions()[c[0]]}", lambda c: c[1]):
        yield (" " * widest + "".join(f"  {part(column):18}" for column in COLUMNS)).rstrip()
    for operation in methods():
        marks = (" ".join(_mark(column, operation, binding) for binding in BINDINGS) for column in COLUMNS)
        yield f"{operation:{widest}}" + "".join(f"  {each:18}" for each in marks).rstrip()


def versions() -> dict[str, str]:
    package = json.loads((Path(__file__).parent / "js" / "package.json").read_text())
    try:
        return {PYTHON: version(PYTHON), JS: package["dependencies"][JS]}
    except PackageNotFoundError:
        return {PYTHON: "", JS: package["dependencies"][JS]}


def _mark(*cell: Any) -> str:
    outcomes = _outcomes.get(cell, set())  # type: ignore[call-overload]
    return next((mark for outcome, mark in MARKS.items() if outcome in outcomes), ".")


def _all_marks() -> set[str]:
    return {_mark(column, operation, b) for column in COLUMNS for operation in methods() for b in BINDINGS}


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    chosen = session.config.option.keyword or session.config.option.markexpr
    if session.exitstatus == pytest.ExitCode.OK and _all_marks() & ({"x"} if chosen else {"x", "."}):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("interoperation")
    for line in table():
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"\n{' '.join(BINDINGS)}: + passed, x failed, s skipped, . not run")
    for peer, reasons in _reasons.items():
        terminalreporter.write_line(f"{peer}: skipped, {'; '.join(sorted(reasons))}")
    go = "there is no test with it yet" if shutil.which("go") else "Go is not installed"
    terminalreporter.write_line(f"a2a-go: skipped, {go}")
