"""Listening addresses: every address of a host name or none, and an error that says who has the port."""

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_SKIPPED = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # an address family that this machine does not have
_LISTENING = "0A"


class PortError(OSError):
    """An address cannot be listened on."""


def addresses(host: str, port: int) -> list[tuple[int, str]]:
    """(address family, address) of each address that the host name stands for."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise PortError(f"cannot listen on {host}: {error.strerror}") from None
    return list(dict.fromkeys((family, str(address[0])) for family, _, _, _, address in found))


def listen(host: str, port: int, what: str) -> list[socket.socket]:
    """One bound socket per address of `host`, all on the same port; 0 takes a free one. Not yet listening.

    Raises PortError, naming `what` was to listen there, the address, the port and, where it can be told, who has it.
    """
    sockets: list[socket.socket] = []
    try:
        for family, address in addresses(host, port):
            bound = _bind(family, address, sockets[0].getsockname()[1] if sockets else port, what)
            sockets += [bound] if bound else []
    except OSError:
        for bound in sockets:
            bound.close()
        raise
    if not sockets:
        raise PortError(f"cannot listen on {host}:{port} ({what}): none of its addresses is on this machine")
    return sockets


def shown(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _bind(family: int, address: str, port: int, what: str) -> socket.socket | None:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((address, port))
        sock.listen(1024)
    except OSError as error:
        sock.close()
        if error.errno in _SKIPPED:
            return None
        raise PortError(error.errno, _refusal(address, port, what, error)) from None
    return sock


def _refusal(address: str, port: int, what: str, error: OSError) -> str:
    where = f"cannot listen on {shown(address, port)} ({what})"
    if error.errno != errno.EADDRINUSE:
        return f"{where}: {os.strerror(error.errno or 0)}"
    holder = next(_holders(port), None)
    who = f"process {holder}" if holder else "another process"
    return f"{where}: {who} has this port. Stop it, or choose another port (0 takes a free one)"


def _holders(port: int) -> Iterator[str]:
    """Who listens on a port, as far as /proc shows it to this user."""
    inodes = {f"socket:[{inode}]" for inode in _inodes(port)}
    for descriptor in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        try:
            if os.readlink(descriptor) in inodes:
                process = descriptor.parents[1]
                yield f"{process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:
            continue


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
        except OSError:
            continue
        yield from (row[9] for row in rows if row[3] == _LISTENING and int(row[1].rpartition(":")[2], 16) == port)
