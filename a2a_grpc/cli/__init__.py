"""The command `a2a-grpc`. It needs the extra `cli`; nothing else of the package imports this folder."""

import sys

NEEDED = ("typer", "rich")


def main() -> None:
    try:
        from .commands import app
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.exit(f"a2a-grpc: the command line needs {error.name}: pip install 'a2a-grpc[cli]'")
    app()
