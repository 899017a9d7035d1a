"""Every snippet of the README is run, against the agent that the README makes."""

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_grpc import ApiKey, Server
from a2a_grpc.client import TaskFailedError, connect

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
PYTHON = [text for language, text in BLOCKS if language == "python"]
SHELL = [text for language, text in BLOCKS if language == "sh"]
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class Running:
    """The program of a snippet, on free ports."""

    def __init__(self, folder: Path, runs: str, file: str) -> None:
        self.folder, self.http, self.grpc = folder, free_port(), free_port()
        (source,) = [text for text in PYTHON if runs in text]
        ports = f"http_port={self.http}, grpc_port={self.grpc}"
        (folder / file).write_text(source.replace(runs, f"{runs[:-1]}, {ports})"))
        self.process = subprocess.Popen([sys.executable, file], cwd=folder, stderr=subprocess.PIPE, text=True)
        wait_for(self.http, self.process)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(15) == 0
        assert self.process.stderr
        assert self.process.stderr.read() == ""
        self.process.stderr.close()

    def moved(self, text: str) -> str:
        """A snippet, with this agent's ports in place of the default ones."""
        return text.replace("localhost:8000", f"127.0.0.1:{self.http}").replace(
            "localhost:50051", f"127.0.0.1:{self.grpc}"
        )

    def shell(self, text: str) -> str:
        done = subprocess.run(
            ["bash", "-euc", self.moved(text)],
            cwd=self.folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    for _ in range(200):
        with socket.socket() as sock:
            sock.settimeout(0.1)
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
        break
    raise AssertionError(f"the agent did not start: {process.stderr and process.stderr.read()}")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    agent = Running(tmp_path_factory.mktemp("readme"), "run(Echo())", "echo.py")
    yield agent
    agent.stop()


def snippet(beginning: str, containing: str = "") -> str:
    (found,) = [text for text in SHELL if text.startswith(beginning) and containing in text]
    return found


def needs(*programs: str) -> None:
    for program in programs:
        if not shutil.which(program, path=ENVIRONMENT["PATH"]):
            pytest.skip(f"{program} is not installed")


def test_grpcurl(running: Running) -> None:
    needs("grpcurl")
    assert '"text": "hello"' in running.shell(snippet("grpcurl -plaintext -d", "/SendMessage"))


def test_the_shortest_agent_streams(tmp_path: Path) -> None:
    needs("grpcurl")
    (source,) = [text for text in PYTHON if "run(shout)" in text]
    assert len([line for line in source.splitlines() if line.strip()]) <= 6
    shout = Running(tmp_path, "run(shout)", "shout.py")
    answer = shout.shell(snippet("grpcurl -plaintext -d", "SendStreamingMessage"))
    shout.stop()
    assert [word in answer for word in ("SUBMITTED", "WORKING", '"HELLO! "', '"WORLD! "', "COMPLETED")] == [True] * 5


def test_the_glossary(tmp_path: Path) -> None:
    glossary = Running(tmp_path, "run(Glossary())", "glossary.py")
    ask = """curl -s localhost:8000/message:send -H 'Content-Type: application/json' \\
        -d '{"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "%s"}]}}'"""
    answers = [glossary.shell(ask % term) for term in ("record", "", "monad")]
    glossary.stop()
    assert ["COMPLETED" in answers[0], "INPUT_REQUIRED" in answers[1], "FAILED" in answers[2]] == [True] * 3
    assert '"text":"a class for plain data."' in answers[0]


def test_curl(running: Running) -> None:
    needs("curl")
    answers = running.shell(snippet("curl"))
    assert answers.count('"parts":[{"text":"hello"}]') == 2
    assert '"name":"Echo"' in answers


def test_generated_client(running: Running) -> None:
    needs("grpcurl")
    pytest.importorskip("grpc_tools")
    running.shell(snippet("grpcurl -plaintext -protoset-out"))
    assert {"a2a_pb2.py", "a2a_pb2_grpc.py"} <= {path.name for path in running.folder.iterdir()}


def test_stub(running: Running) -> None:
    client = running.moved(next(text for text in PYTHON if "A2AServiceStub(channel)" in text))
    done = subprocess.run([sys.executable, "-c", client], capture_output=True, text=True, timeout=30)
    assert 'text: "hello"' in done.stdout, done.stderr


def test_client(tmp_path: Path) -> None:
    shout = Running(tmp_path, "run(shout)", "shout.py")
    client = shout.moved(next(text for text in PYTHON if 'connect("http' in text))
    done = subprocess.run([sys.executable, "-c", client], capture_output=True, text=True, timeout=30)
    shout.stop()
    assert done.stdout.split() == ["HELLO!", "WORLD!", "task", *STREAMED], done.stderr


STREAMED = ["status_update", "artifact_update", "artifact_update", "status_update"]


def test_interceptor_and_mounts(running: Running) -> None:
    names: dict[str, object] = {}
    for text in PYTHON:
        if "def guarded(" in text or "def two" in text:
            exec(text, names)
    sys.path.insert(0, str(running.folder))
    try:
        from echo import Echo  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)

    async def use() -> None:
        await names["guarded"](Echo())  # type: ignore[operator]
        async with names["two"](Echo(), Echo()) as server:  # type: ignore[operator]
            assert [agent.mount.prefix for agent in server.agents] == ["/first", "/second"]

    asyncio.run(use())


def test_client_snippets(tmp_path: Path) -> None:
    names: dict[str, object] = {"__name__": "readme"}
    for text in PYTHON:
        if any(word in text for word in ("class Glossary", "def guarded_call", "class Brief", "def once")):
            exec(text, names)
    glossary, brief, guarded_call, once, tool, test = (
        names[name] for name in ("Glossary", "Brief", "guarded_call", "once", "tool", "test_my_agent")
    )

    async def use() -> None:
        guard, ports = ApiKey({"key-of-bob": "bob"}), {"http_port": 0, "grpc_port": 0}
        agent = glossary()  # type: ignore[operator]
        agent.check_input_modes = False
        async with Server(agent, interceptors=[guard], **ports) as guarded:
            with pytest.raises(TaskFailedError, match="I do not know the term 'read this"):
                await guarded_call(guarded.http_url, f"http://{guarded.grpc_address}")  # type: ignore[operator]
        async with Server(glossary(), **ports) as server:  # type: ignore[operator]
            assert await asyncio.to_thread(once, server.http_url) == DEFINITION  # type: ignore[arg-type]
            assert await tool(server.http_url) == DEFINITION  # type: ignore[operator]
            await test(brief(server.http_url))  # type: ignore[operator]
            async with Server(brief(server.http_url), **ports) as caller, connect(caller.http_url) as client:  # type: ignore[operator]
                with pytest.raises(TaskFailedError, match="The glossary did not help: I do not know the term 'monad'"):
                    await client.ask("record,monad")
        await test(glossary())  # type: ignore[operator]

    asyncio.run(use())


DEFINITION = "A record is a class for plain data."


def test_serve(running: Running) -> None:
    pytest.importorskip("typer")
    ports = [free_port(), free_port()]
    command = snippet("a2a-grpc").strip() + f" --http-port {ports[0]} --grpc-port {ports[1]}"
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=running.folder, env=ENVIRONMENT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_for(ports[0], process)
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors


def test_the_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"(?m)(?:`|^)make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_every_snippet_is_known() -> None:
    """A new snippet needs a test here."""
    beginnings = ("make demo", "pip install", "a2a-grpc", "grpcurl", "curl")
    assert all(text.startswith(beginnings) for text in SHELL)
    assert len(PYTHON) == 10
