"""Serving while one writes: a child process serves, and is started anew when a file changes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

INTERVAL = 0.3  # seconds between two looks at the files
GRACE = 5.0  # seconds that the child has to end its calls
WATCHED = (".py", ".json")
SKIPPED = frozenset({"__pycache__", "node_modules"})

Snapshot = dict[str, int]


def watch(arguments: Sequence[str], root: Path) -> None:
    """Runs `a2a-grpc` with `arguments` until SIGINT, SIGTERM or SIGHUP, anew when files below `root` change."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    before, child = snapshot(root), None
    try:
        while True:
            child = _start(arguments)
            before = _next_change(root, before, child)
            _stop(child)
    except KeyboardInterrupt:
        pass
    finally:
        if child:
            _stop(child)


def snapshot(root: Path) -> Snapshot:
    """The time of change, in nanoseconds, of each watched file."""
    return dict(_times(root))


def changed(before: Snapshot, after: Snapshot) -> list[str]:
    """The files that were added, removed or written."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _times(root: Path) -> Iterator[tuple[str, int]]:
    for directory, folders, files in os.walk(root):
        folders[:] = [f for f in folders if _is_watched(Path(directory, f))]
        for path in (Path(directory, f) for f in files if f.endswith(WATCHED)):
            try:
                yield str(path), path.stat().st_mtime_ns
            except OSError:  # gone since it was listed
                continue


def _is_watched(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in SKIPPED and not (folder / "pyvenv.cfg").exists()


def _next_change(root: Path, before: Snapshot, child: subprocess.Popen[bytes]) -> Snapshot:
    ended = False
    while (after := snapshot(root)) == before:
        if not ended and child.poll() is not None:
            ended = True
            _say("nothing is served; waiting for a change")
        time.sleep(INTERVAL)
    paths = [os.path.relpath(path, root) for path in changed(before, after)]
    _say(f"{', '.join(paths[:3])}{' and more' if len(paths) > 3 else ''} changed; starting again")
    return after


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """In a process group of its own, so that Ctrl-C reaches the watcher alone, which then ends the child once."""
    return subprocess.Popen([sys.executable, "-m", "a2a_grpc.cli", *arguments], process_group=0)


def _stop(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(GRACE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        child.kill()
        child.wait()


def _say(text: str) -> None:
    print(f"a2a-grpc: {text}", file=sys.stderr, flush=True)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
