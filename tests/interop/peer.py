"""Runs foreign programs against a server that lives in this process."""

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

TIMEOUT = 20.0  # seconds


class Output(NamedTuple):
    code: int
    out: str
    err: str


def program(name: str) -> str:
    """Where a program is: beside this Python, or on the path. Skips the test where it is not."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


async def run(*argv: str, cwd: Path | None = None, **environment: str) -> Output:
    """Runs a program to its end, and kills it after `TIMEOUT`. It sees no proxy and no PYTHONPATH of ours."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env=_environment() | environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode is not None
    return Output(process.returncode, out.decode(), err.decode())


def succeeded(output: Output) -> str:
    """What a program wrote, where it ended well."""
    assert output.code == 0, output.err or output.out
    return output.out


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH" and not k.lower().endswith("_proxy")}
