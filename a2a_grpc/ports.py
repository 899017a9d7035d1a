"""Listening addresses: every address of a host name or none, and an error that says who has the port."""

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

EVERY_ADDRESS = ("0.0.0.0", "::")
_SKIPPED = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # an address family that this machine does not have
_LISTENING = "0A"
_TRIES = 16  # at a port that is free on all addresses of a name


class PortError(OSError):
    """An address cannot be listened on."""

    def __str__(self) -> str:
        return self.strerror or super().__str__()  # without the number, which `errno` holds


def addresses(host: str, port: int) -> list[tuple[int, str]]:
    """(address family, address) of each address that the host name stands for."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise PortError(f"cannot listen on {host}: {error.strerror}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def listen(host: str, port: int, what: str) -> list[socket.socket]:
    """One listening socket per address of `host`, all on the same port; 0 takes a free one.

    Raises PortError, naming `what` was to listen there, the address, the port and, where it can be told, who has it.
    """
    found = addresses(host, port)
    for _ in range(0 if port else _TRIES):
        with contextlib.suppress(PortError):
            return _listen_all(found, host, port, what)
    return _listen_all(found, host, port, what)


def close_all(sockets: Iterable[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


def shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def callable_address(host: str, port: int) -> str:
    """host:port as clients can call it: every address is called by this machine's name, if that resolves."""
    if host not in EVERY_ADDRESS:
        return shown(host, port)
    try:
        socket.getaddrinfo(socket.gethostname(), port)
        return f"{socket.gethostname()}:{port}"
    except OSError:
        return f"127.0.0.1:{port}"


def _listen_all(found: Iterable[tuple[int, str]], host: str, port: int, what: str) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for family, address in found:
            sock = _listen(family, address, sockets[0].getsockname()[1] if sockets else port, what)
            sockets += [sock] if sock else []
    except PortError:
        close_all(sockets)
        raise
    if not sockets:
        raise PortError(f"cannot listen on {shown(host, port)} ({what}): none of its addresses is on this machine")
    return sockets


def _listen(family: int, address: str, port: int, what: str) -> socket.socket | None:
    try:
        with contextlib.ExitStack() as stack:
            sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:  # "::" is every address of both families, as it is for gRPC
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
            sock.bind((address, port))
            sock.listen(1024)
            stack.pop_all()
            return sock
    except OSError as error:
        if error.errno in _SKIPPED:
            return None
        raise PortError(error.errno, _refusal(address, port, what, error)) from None


def _refusal(address: str, port: int, what: str, error: OSError) -> str:
    where = f"cannot listen on {shown(address, port)} ({what})"
    if error.errno != errno.EADDRINUSE:
        return f"{where}: {os.strerror(error.errno or 0)}"
    who = next(_holders(port), "another process")
    return f"{where}: {who} has this port. Stop it, or choose another port (0 takes a free one)"


def _holders(port: int) -> Iterator[str]:
    """Who listens on a port, as far as /proc shows it to this user."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            if os.readlink(descriptor) in inodes:
                process = descriptor.parents[1]
                name = (process / "comm").read_text().strip()
                yield "this process" if process.name == str(os.getpid()) else f"process {process.name} ({name})"
        except OSError:
            continue


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        except OSError:
            continue
        yield from (row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port)
