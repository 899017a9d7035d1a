"""The commands of `a2a-grpc` and their options."""

import logging
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import TLS, CardError, Mount, PortError, Server, __version__
from ..running import run_server
from .announcement import announcement
from .loading import FAULT, CommandError, load_card, load_servicer
from .reload import watch

app = typer.Typer(name="a2a-grpc", add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


class VersionPolicy(StrEnum):
    INFER = "infer"
    STRICT = "strict"


def _option(help: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=help, **settings)


def _file(help: str) -> Any:
    return _option(help, exists=True, dir_okay=False, readable=True, metavar="FILE")


Target = Annotated[
    str,
    typer.Argument(metavar="MODULE:ATTRIBUTE", help="A servicer class, an instance, or a factory without arguments."),
]
HttpPort = Annotated[int, _option("JSON-RPC, HTTP+JSON and the card; 0 takes any free port.", min=0, max=65535)]
GrpcPort = Annotated[int, _option("gRPC; 0 takes any free port.", min=0, max=65535)]
PublicUrl = Annotated[str | None, _option("The HTTP base URL that clients use, if it is not the listening one.")]
PublicGrpc = Annotated[str | None, _option("The same for gRPC, as host:port.")]
TlsCert = Annotated[Path | None, _file("The certificate of both ports, PEM.")]
TlsKey = Annotated[Path | None, _file("Its key, PEM.")]
TlsClientCa = Annotated[Path | None, _file("Callers must show a certificate that this one signed, PEM.")]
Prefix = Annotated[str, _option("The agent's path on HTTP, such as /joker.", show_default=False)]
Tenant = Annotated[str, _option("The agent's tenant.", show_default=False)]
Card = Annotated[Path | None, _file("The agent card, JSON; default: the servicer's own.")]
Policy = Annotated[VersionPolicy, _option("What a request without A2A-Version is: told by its name, or 0.3.")]
NoReflection = Annotated[bool, _option("Callers need the .proto file then.", "--no-reflection")]
Cors = Annotated[
    list[str] | None, _option('An origin of browsers that may call; repeatable, "*" for any.', metavar="ORIGIN")
]
Reload = Annotated[bool, _option("For development: start again when a .py or .json file changes.", "--reload")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"a2a-grpc {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, _option("Show it and exit.", "--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Agent2Agent (A2A) agents as gRPC servicers."""


@app.command()
def serve(
    target: Target,
    host: Annotated[str, _option("The address or name to listen on.")] = "127.0.0.1",
    http_port: HttpPort = 8000,
    grpc_port: GrpcPort = 50051,
    public_url: PublicUrl = None,
    public_grpc: PublicGrpc = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    prefix: Prefix = "",
    tenant: Tenant = "",
    card: Card = None,
    version_policy: Policy = VersionPolicy.INFER,
    no_reflection: NoReflection = False,
    cors: Cors = None,
    reload: Reload = False,
) -> None:
    """Serves an agent on gRPC, JSON-RPC and HTTP+JSON until SIGTERM or Ctrl-C."""
    if reload:
        watch([argument for argument in sys.argv[1:] if argument != "--reload"], Path.cwd())
        return
    logging.basicConfig(format="%(levelname)s: %(message)s")
    with _told_errors():
        given = {
            "host": host,
            "http_port": http_port,
            "grpc_port": grpc_port,
            "public_url": public_url,
            "public_grpc": public_grpc,
            "tls": _tls(tls_cert, tls_key, tls_client_ca),
            "version_policy": version_policy.value,
            "reflection": not no_reflection,
            "cors": cors or (),
        }
        run_server(_server(target, card, prefix, tenant, given), _announce)


def _server(target: str, card: Path | None, prefix: str, tenant: str, given: dict[str, Any]) -> Server:
    servicer, shown = load_servicer(target), load_card(card) if card else None
    try:
        return Server(Mount(servicer, shown, prefix, tenant), **given)
    except TypeError as error:
        raise CommandError(f"{target}: {error}") from None
    except ValueError as error:
        raise CommandError(str(error)) from None


def _tls(certificate: Path | None, key: Path | None, client_ca: Path | None) -> TLS | None:
    if certificate is None and key is None and client_ca is None:
        return None
    if certificate is None or key is None:
        raise CommandError("TLS needs both --tls-cert and --tls-key")
    tls = TLS(certificate, key, client_ca)
    try:
        tls.ssl_context()
    except ssl.SSLError as error:
        raise CommandError(f"the TLS files cannot be used: {error.reason or error}", FAULT) from None
    return tls


def _announce(server: Server) -> None:
    for line in announcement(server):
        typer.secho(line, bold=not line.startswith(" "))


@contextmanager
def _told_errors() -> Iterator[None]:
    """One message on stderr and an exit code, where nothing can be served."""
    try:
        yield
    except (CommandError, CardError, PortError) as error:
        typer.echo(f"a2a-grpc: {error}", err=True)
        raise typer.Exit(error.exit_code if isinstance(error, CommandError) else FAULT) from None
