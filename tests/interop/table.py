"""A pytest plugin that prints what each peer did in a run: `pytest -p tests.interop.table tests/interop tests/client`.

A mark is for one binding, in the order of the legend: all tests of the operation passed (+), one did not (x), all were
skipped (s), none ran (.).
"""

import shutil
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from a2a_grpc.methods import methods

BINDINGS = ("GRPC", "JSONRPC", "HTTP+JSON")
MARKS = {"failed": "x", "passed": "+", "skipped": "s"}  # the first one that there is, is the mark

CLIENTS = {"test_sdk_client": "Python SDK -> us", "test_js_sdk": "JS SDK -> us"}
SERVERS = {"test_sdk_server": "us -> Python SDK", "test_js_sdk": "us -> JS SDK"}
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

Cell = tuple[str, str, str]  # column, operation, binding
_outcomes: defaultdict[Cell, set[str]] = defaultdict(set)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Iterator[None]:
    report: Any = yield
    if report.when == "call" or report.outcome != "passed":
        for cell in cells(item):
            _outcomes[cell].add(report.outcome)
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
    yield " " * widest + "".join(f"  {column:16}" for column in COLUMNS)
    for operation in methods():
        marks = (" ".join(_mark(column, operation, binding) for binding in BINDINGS) for column in COLUMNS)
        yield f"{operation:{widest}}" + "".join(f"  {each:16}" for each in marks).rstrip()


def _mark(*cell: str) -> str:
    outcomes = _outcomes.get(cell, set())  # type: ignore[call-overload]
    return next((mark for outcome, mark in MARKS.items() if outcome in outcomes), ".")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("interoperation")
    for line in table():
        terminalreporter.write_line(line)
    terminalreporter.write_line(f"\n{' '.join(BINDINGS)}: + passed, x failed, s skipped, . not run")
    go = "there is no test with it yet" if shutil.which("go") else "go is not installed"
    terminalreporter.write_line(f"a2a-go: skipped, {go}")
