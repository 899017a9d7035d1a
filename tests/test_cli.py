"""The command `a2a-grpc`: what it refuses, what it sets, and real servers called by the lines that it prints."""

import asyncio
import json
import shlex
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner, Result

from a2a_grpc import Server, __version__
from a2a_grpc.bindings.protojson import to_json
from a2a_grpc.cli import commands
from a2a_grpc.cli.reload import changed, snapshot
from a2a_grpc.examples import demo
from a2a_grpc.examples.joker import Joker

JOKER = "a2a_grpc.examples.joker:Joker"
FREE = ("--http-port", "0", "--grpc-port", "0")
ENOUGH = 60  # seconds for anything here, on a busy machine

AGENT = """
from a2a_grpc.examples.joker import Joker
from a2a_grpc.generated import a2a_pb2, a2a_pb2_grpc

class Agent(Joker): ...
class Cardless(a2a_pb2_grpc.A2AServiceServicer):
    async def SendMessage(self, request, context): ...
class Empty(a2a_pb2_grpc.A2AServiceServicer): ...
class Misspelt:
    async def SendMesage(self, request, context): ...
class Poor(Joker):
    card = a2a_pb2.AgentCard(name="Poor")
class Greedy(Joker):
    def __init__(self, model): ...
class Broken(Joker):
    def __init__(self): self.model = {}["gpt"]

instance = Agent()
number = 3
def make(): return Agent()
def nothing(): return None
async def later(): return Agent()
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; what is imported from it is forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "agents.py").write_text(AGENT)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def serve(*arguments: str) -> Result:
    return CliRunner().invoke(commands.app, ["serve", *arguments])


# What is refused


@pytest.mark.parametrize(
    ("target", "exit_code", "text"),
    [
        ("agents", 2, '"agents" is not module:attribute; write for example agent:Agent'),
        ("agents:", 2, '"agents:" is not module:attribute'),
        ("agents.py:Agent", 2, '"agents.py" is a file; write the name of its module: agents'),
        ("./app/agents.py:Agent", 2, "the name of its module: app.agents"),
        ("agent:Agent", 2, "there is no module agent; did you mean agents?"),
        ("weather.service:Agent", 2, "there is no module weather.service; looked in "),
        ("agents:Agnet", 2, "agents has no attribute Agnet; did you mean Agent?"),
        ("agents:Zoo", 2, "agents has no attribute Zoo; its servicers are Joker, Agent, Cardless, "),
        ("json:Zoo", 2, "json has no attribute Zoo; it has no servicer\n"),
        (
            "agents:number",
            2,
            "agents:number: int has no method of A2AService, such as SendMessage; derive from a2a_pb2",
        ),
        ("agents:nothing", 2, "agents:nothing: NoneType has no method of A2AService, such as SendMessage"),
        ("agents:Empty", 2, "agents:Empty: Empty has no method of A2AService, such as SendMessage"),
        ("agents:Misspelt", 2, "such as SendMessage; did you mean SendMessage?"),
        ("agents:later", 2, "agents:later is a coroutine function; a factory must be a plain one"),
        ("agents:Greedy", 2, "agents:Greedy needs arguments; name a function that takes none and returns the servicer"),
        ("agents:Cardless", 2, "agents:Cardless: Cardless needs a card: give it an attribute `card`, an a2a_pb2.Ag"),
        ("agents:Cardless", 2, "or pass one (--card FILE on the command line)"),
        ("agents:Broken", 1, "agents:Broken failed: KeyError: 'gpt' ("),
        ("agents:Poor", 1, "description: "),
    ],
)
def test_a_target_that_cannot_be_served(here: Path, target: str, exit_code: int, text: str) -> None:
    _assert_refused(serve(target, *FREE), exit_code, text)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def f(:\n", "faulty cannot be imported: SyntaxError: invalid syntax (faulty.py, line 1)"),
        ("\nx = 1 / 0\n", "faulty cannot be imported: ZeroDivisionError: division by zero ({here}/faulty.py, line 2)"),
        ("import not_installed\n", "ModuleNotFoundError: No module named 'not_installed' ({here}/faulty.py, line 1)"),
        ("raise SystemExit(3)\n", "faulty cannot be imported: SystemExit: 3 ({here}/faulty.py, line 1)"),
    ],
)
def test_a_module_that_cannot_be_imported(here: Path, source: str, text: str) -> None:
    (here / "faulty.py").write_text(source)
    _assert_refused(serve("faulty:Agent", *FREE), 1, text.replace("{here}", str(here)))


@pytest.mark.parametrize(
    ("card", "text"),
    [
        ("{", "card.json is not an agent card: "),
        ('{"capabilities": {"streaming": "yes"}}', "\n  capabilities.streaming: "),
        ('{"name": 1, "skills": 2}', "\n  name: "),
        ('{"name": 1, "skills": 2}', "\n  skills: "),
        ('{"name": "Joker"}', "\n  description: "),
    ],
)
def test_a_card_that_cannot_be_served(here: Path, card: str, text: str) -> None:
    (here / "card.json").write_text(card)
    _assert_refused(serve(JOKER, "--card", "card.json", *FREE), 1, text)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "text"),
    [
        (["--prefix", "joker"], 2, 'prefix "joker" must be empty or like "/name"'),
        (["--public-url", "example.com"], 2, "public_url must be an absolute http or https URL"),
        (["--tls-cert", "agents.py"], 2, "TLS needs both --tls-cert and --tls-key"),
        (["--tls-client-ca", "agents.py"], 2, "TLS needs both --tls-cert and --tls-key"),
        (["--tls-cert", "agents.py", "--tls-key", "agents.py"], 1, "the TLS files cannot be used: "),
        (["--host", "no.such.host.invalid"], 1, "cannot listen on no.such.host.invalid: "),
    ],
)
def test_settings_that_cannot_be_served(here: Path, arguments: list[str], exit_code: int, text: str) -> None:
    _assert_refused(serve(JOKER, *FREE, *arguments), exit_code, text)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--http-port", "65536"],
        ["--grpc-port", "-1"],
        ["--version-policy", "lax"],
        ["--card", "missing.json"],
        ["--prot", "1"],
    ],
)
def test_options_that_do_not_exist_or_fit_are_named(here: Path, arguments: list[str]) -> None:
    refused = serve(JOKER, *arguments)
    assert refused.exit_code == 2
    assert arguments[0] in refused.stderr


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        _assert_refused(
            serve(JOKER, "--http-port", str(port), "--grpc-port", "0"), 1, f"cannot listen on 127.0.0.1:{port} (HTTP)"
        )


def _assert_refused(result: Result, exit_code: int, text: str) -> None:
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    assert result.stderr.startswith("a2a-grpc: ")
    assert text in result.stderr


# What is set


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """Servers that the command would have run."""
    servers: list[Server] = []
    monkeypatch.setattr(commands, "run_server", lambda server, started: servers.append(server))
    return servers


@pytest.mark.parametrize(
    ("arguments", "option", "expected"),
    [
        ([], "host", "127.0.0.1"),
        ([], "http_port", 8000),
        ([], "grpc_port", 50051),
        ([], "reflection", True),
        ([], "tls", None),
        ([], "version_policy", "infer"),
        (["--host", "::1"], "host", "::1"),
        (["--http-port", "0"], "http_port", 0),
        (["--grpc-port", "1234"], "grpc_port", 1234),
        (["--public-url", "https://a.example"], "public_url", "https://a.example"),
        (["--public-grpc", "a.example:443"], "public_grpc", "a.example:443"),
        (["--version-policy", "strict"], "version_policy", "strict"),
        (["--no-reflection"], "reflection", False),
        (
            ["--cors", "https://a.example", "--cors", "https://b.example"],
            "cors",
            ["https://a.example", "https://b.example"],
        ),
    ],
)
def test_arguments_become_options(served: list[Server], arguments: list[str], option: str, expected: Any) -> None:
    assert serve(JOKER, *arguments).exit_code == 0
    assert getattr(served[0].options, option) == expected


@pytest.mark.parametrize("target", ["agents:Agent", "agents:instance", "agents:make"])
def test_a_class_an_instance_and_a_factory_are_served(here: Path, served: list[Server], target: str) -> None:
    assert serve(target).exit_code == 0
    assert len(served) == 1


def test_version_and_help() -> None:
    assert CliRunner().invoke(commands.app, ["--version"]).stdout == f"a2a-grpc {__version__}\n"
    assert "MODULE:ATTRIBUTE" in serve("--help").stdout


# Real servers


class Running:
    """A process of the command, and what it said when it was ready."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.places: dict[str, str] = {}
        self.commands: list[str] = []

    async def ready(self) -> None:
        """Reads on until the next announcement is complete."""
        self.places, self.commands = {}, []
        assert self.process.stdout
        while len(self.commands) < 2:
            line = (await self.process.stdout.readline()).decode()
            assert line, "ended before it was ready"
            if line.startswith("  "):
                self._keep(line.strip())

    def _keep(self, line: str) -> None:
        if line.startswith(("grpcurl ", "curl ")):
            self.commands.append(line)
        else:
            name, _, url = line.partition(" ")
            self.places[name] = url.strip()

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()


@asynccontextmanager
async def running(folder: Path, *arguments: str) -> AsyncIterator[Running]:
    command = [sys.executable, "-m", "a2a_grpc.cli", "serve", *arguments, *FREE]
    root = str(Path(__file__).parents[1])
    async with asyncio.timeout(ENOUGH):
        process = await asyncio.create_subprocess_exec(
            *command, cwd=folder, stdout=asyncio.subprocess.PIPE, env={"PYTHONPATH": root, "PATH": "/usr/bin:/bin"}
        )
        try:
            started = Running(process)
            await started.ready()
            yield started
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def answer(line: str) -> Any:
    """What a printed command line answers, as JSON; None where its program is not installed."""
    program, *arguments = shlex.split(line)
    found = shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent))
    if not found:
        return None
    process = await asyncio.create_subprocess_exec(
        found, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={"NO_PROXY": "*"}
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_the_printed_lines_call_the_agent_and_sigterm_ends_it(tmp_path: Path) -> None:
    async with running(tmp_path, JOKER) as server:
        assert list(server.places) == ["card", "JSON-RPC", "HTTP+JSON", "gRPC"]
        assert server.places["card"] == f"{server.places['HTTP+JSON']}/.well-known/agent-card.json"
        answers = [await answer(line) for line in [*server.commands, f"curl -sS {server.places['card']}"]]
        assert await server.end() == 0
    if all(answers):
        assert [a["message"]["parts"][0]["text"] for a in answers[:2]] == [
            answers[0]["message"]["parts"][0]["text"]
        ] * 2
        assert answers[2]["name"] == "Joker"


async def test_the_printed_lines_know_tls_prefix_tenant_and_card(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    _write_certificate(tmp_path)
    (tmp_path / "card.json").write_bytes(to_json(Joker.card).replace(b'"Joker"', b'"Fool"'))
    tls = ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem")]
    async with running(
        tmp_path, JOKER, *tls, "--prefix", "/fool", "--tenant", "court", "--card", "card.json"
    ) as server:
        assert server.places["HTTP+JSON"].startswith("https://")
        card = f"curl -sS --cacert {tmp_path}/cert.pem {server.places['card']}"
        answers = [await answer(line) for line in [*server.commands, card]]
    if all(answers):
        assert [list(a) for a in answers[:2]] == [["message"], ["message"]]
        assert (answers[2]["name"], answers[2]["supportedInterfaces"][0]["tenant"]) == ("Fool", "court")


async def test_the_printed_lines_say_what_the_agent_knows(tmp_path: Path) -> None:
    async with running(tmp_path, "a2a_grpc.examples.glossary:Glossary") as server:
        answers = [await answer(line) for line in server.commands]
    assert all("record" in line for line in server.commands)
    assert {a["task"]["status"]["state"] for a in answers if a} <= {"TASK_STATE_COMPLETED"}


async def test_the_demo_calls_by_itself_where_its_programs_are_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(demo, "_program", lambda name: None)
    assert await demo.demo() == 0
    shown = capsys.readouterr().out
    assert shown.count("the same call from Python") == 6
    assert shown.endswith("All bindings answered.\n")


async def test_reload_serves_what_was_written(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(_agent_named("First"))
    async with running(tmp_path, "agent:Agent", "--reload") as server:
        assert await _served_name(server) == "First"
        agent.write_text("def f(:\n")
        agent.write_text(_agent_named("Second"))
        await server.ready()
        while await _served_name(server) != "Second":  # where it was started between the two writes
            await server.ready()
        port = int(server.places["gRPC"].rpartition(":")[2])
        assert await server.end() == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


def test_a_snapshot_tells_what_was_added_written_and_removed(tmp_path: Path) -> None:
    for name in (
        "kept.py",
        "removed.json",
        "ignored.txt",
        ".venv/a.py",
        "own/pyvenv.cfg",
        "own/a.py",
        "__pycache__/a.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = snapshot(tmp_path)
    assert sorted(Path(path).name for path in before) == ["kept.py", "removed.json"]
    (tmp_path / "removed.json").unlink()
    (tmp_path / "added.py").write_text("1")
    assert [Path(p).name for p in changed(before, snapshot(tmp_path))] == ["added.py", "removed.json"]
    assert changed(before, {path: time + 1 for path, time in before.items()}) == sorted(before)
    assert changed(before, before) == []


def _agent_named(name: str) -> str:
    return (
        "from a2a_grpc.examples.joker import Joker\n"
        "class Agent(Joker):\n"
        f"    card = type(Joker.card).FromString(Joker.card.SerializeToString())\n    card.name = {name!r}\n"
    )


async def _served_name(server: Running) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.places["HTTP+JSON"].rpartition(":")[2]))
    writer.write(b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    body = (await reader.read()).partition(b"\r\n\r\n")[2]
    writer.close()
    await writer.wait_closed()
    return str(json.loads(body)["name"])


def _write_certificate(folder: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = builder.add_extension(x509.SubjectAlternativeName(names), False).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(certificate.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, form, serialization.NoEncryption()))
