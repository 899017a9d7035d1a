"""`module:attribute` → a servicer, and a file → an agent card. What is wrong is told in one message."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..bindings.protojson import from_json, loads
from ..errors import A2AError, InvalidParamsError, did_you_mean, listed
from ..generated.a2a_pb2 import AgentCard
from ..generated.a2a_pb2_grpc import A2AServiceServicer
from ..handlers import implemented
from ..running import importing

USAGE = 2  # the command line names something that is not there
FAULT = 1  # the agent, its card or this machine is at fault


class CommandError(Exception):
    """Why nothing is served, for the person at the terminal."""

    def __init__(self, message: str, exit_code: int = USAGE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def load_servicer(target: str) -> Any:
    """The servicer that `module:attribute` names: an instance, or what a class or a factory gives without arguments.

    The current directory is importable. Raises CommandError.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise CommandError(f'"{target}" is not module:attribute; write for example agent:Agent')
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return _made(_attribute(_module(module_name), name), target)


def load_card(path: Path) -> AgentCard:
    """The card in a JSON file. Raises CommandError, with every field that is wrong."""
    try:
        return from_json(AgentCard, loads(path.read_bytes()))
    except A2AError as error:
        wrong = listed(error.violations) if isinstance(error, InvalidParamsError) else f" {error.message}"
        raise CommandError(f"{path} is not an agent card:{wrong}", FAULT) from None


def _module(name: str) -> Any:
    if name.endswith(".py") or "/" in name:
        suggestion = name.removesuffix(".py").strip("./").replace("/", ".")
        raise CommandError(f'"{name}" is a file; write the name of its module: {suggestion}')
    token = importing.set(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise _not_found(name, error) from None
    except (Exception, SystemExit) as error:
        raise CommandError(f"{name} cannot be imported: {_told(error)}", FAULT) from None
    finally:
        importing.reset(token)


def _not_found(name: str, error: ModuleNotFoundError) -> CommandError:
    missing = error.name or name
    if name != missing and not name.startswith(f"{missing}."):
        return CommandError(f"{name} cannot be imported: {_told(error)}", FAULT)
    advice = did_you_mean(name, [path.stem for path in Path.cwd().glob("*.py")], f"looked in {os.getcwd()} too")
    return CommandError(f"there is no module {name}; {advice}")


def _attribute(module: Any, name: str) -> Any:
    if hasattr(module, name):
        return getattr(module, name)
    servicers = ", ".join(n for n, value in vars(module).items() if _is_servicer_class(value))
    public = [n for n in vars(module) if not n.startswith("_")]
    advice = did_you_mean(name, public, f"its servicers are {servicers}" if servicers else "it has no servicer")
    raise CommandError(f"{module.__name__} has no attribute {name}; {advice}")


def _made(found: Any, target: str) -> Any:
    if not isinstance(found, type) and (implemented(found) or not callable(found)):
        return found
    if inspect.iscoroutinefunction(found):
        raise CommandError(f"{target} is a coroutine function; a factory must be a plain one")
    if _needs_arguments(found):
        raise CommandError(f"{target} needs arguments; name a function that takes none and returns the servicer")
    try:
        return found()
    except Exception as error:
        raise CommandError(f"{target} failed: {_told(error)}", FAULT) from None


def _needs_arguments(call: Callable[..., Any]) -> bool:
    try:
        inspect.signature(call).bind()
    except TypeError:
        return True
    except ValueError:  # a builtin that does not tell
        return False
    return False


def _is_servicer_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, A2AServiceServicer) and value is not A2AServiceServicer


def _told(error: BaseException) -> str:
    """An error of the agent's own code: its kind and text, and the line of that code which it came from."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error}"
    frames = [
        f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__ and "<frozen" not in f.filename
    ]
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"
