"""CallContext: what interceptors and servicers see of a call, the same on every binding."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status

from . import errors

StatusCode = grpc.StatusCode
AUTH_KEYS = ("transport_security_type", "x509_common_name", "x509_subject_alternative_name", "x509_pem_cert")
STATUS_DETAILS = "grpc-status-details-bin"
QUERY = ":query"  # metadata that holds the raw query of an HTTP request; it is no name of a header
_CODE_OF_NUMBER = {code.value[0]: code for code in StatusCode}


class Metadatum(NamedTuple):
    key: str
    value: str | bytes


class CallError(Exception):
    """A call has ended with this status, which carries ErrorInfo. Bindings render it."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class CallContext(grpc.aio.ServicerContext[Any, Any]):
    """A `grpc.aio.ServicerContext` that keeps what it is told, for a binding to send.

    A binding says where metadata, peer and deadline come from. The status of `abort` stands even where an interceptor
    swallows the exception that it raises.
    """

    version = "1.0"
    extensions: tuple[str, ...] = ()  # the activated ones
    echo: tuple[Metadatum, ...] = ()  # tells the client so; in the initial metadata and, on gRPC, in the trailing too
    _ending: errors.A2AError | None = None
    _status_code: StatusCode | None = None
    _details = ""
    _aborted = _finished = _cancelled = False
    initial: tuple[Metadatum, ...] = ()
    trailing: tuple[Metadatum, ...] = ()
    _callbacks: tuple[Callable[[Any], None], ...] = ()

    def __init__(self) -> None:
        self.task = asyncio.current_task()

    # What a binding knows.

    def parameter(self, *names: str) -> list[str]:
        """All values of the metadata of these lower-case names."""
        raise NotImplementedError

    def invocation_metadata(self) -> Any:
        raise NotImplementedError

    def peer(self) -> str:
        raise NotImplementedError

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {}

    def peer_identity_key(self) -> str | None:
        keys = ("x509_subject_alternative_name", "x509_common_name")
        return next((key for key in keys if key in self.auth_context()), None)

    def peer_identities(self) -> Iterable[bytes] | None:
        key = self.peer_identity_key()
        return None if key is None else self.auth_context()[key]

    def time_remaining(self) -> float | None:  # type: ignore[override]
        """Seconds until the deadline of the call; None where it has none."""
        return None

    # What interceptors and servicers say.

    async def abort(self, code: StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        self.end(code, details, trailing_metadata)

    async def abort_with_status(self, status: grpc.Status) -> NoReturn:
        self.end(status.code, status.details, status.trailing_metadata)

    def end(self, code: StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        if not self._aborted:
            self._aborted = True
            self._status_code = StatusCode.UNKNOWN if code is StatusCode.OK else code
            self._details = details
            self.trailing += _metadata(trailing_metadata)
        raise grpc.aio.AbortError(details)

    def set_code(self, code: StatusCode) -> None:
        if not self._aborted:
            self._status_code = code if isinstance(code, StatusCode) else _CODE_OF_NUMBER.get(code, StatusCode.UNKNOWN)

    def set_details(self, details: str) -> None:
        if not self._aborted:
            self._details = details

    def code(self) -> StatusCode:
        return self._status_code or StatusCode.OK

    def details(self) -> str:
        return self._details

    async def send_initial_metadata(self, initial_metadata: Any) -> None:
        self.initial += _metadata(initial_metadata)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self.trailing = _metadata(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self.trailing

    async def read(self) -> Any:
        raise TypeError("the client of this RPC sends one message, which the servicer was called with")

    async def write(self, message: Any) -> None:
        raise TypeError("only an RPC that streams, written as a coroutine, can write")

    def set_compression(self, compression: grpc.Compression) -> None:
        """A hint for gRPC; HTTP responses are compressed by the proxy in front, if at all."""

    def disable_next_message_compression(self) -> None:
        """See set_compression."""

    # How the call ends.

    def cancel_with(self, error: errors.A2AError) -> None:
        """Cancels the call from the server's side: its client is told this error. The first one stands."""
        if self._ending is None and self.task:
            self._ending = error
            self.task.cancel()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks += (callback,)

    def cancelled(self) -> bool:
        return self._cancelled

    def done(self) -> bool:
        return self._finished

    def finish(self, *, cancelled: bool = False) -> None:
        self._finished, self._cancelled = True, cancelled
        for callback in self._callbacks:
            try:
                callback(self)
            except Exception:
                errors.log.exception("a done callback failed")

    @property
    def status_is_set(self) -> bool:
        return self._status_code is not None

    def failure(self) -> Status | None:
        """The status that was set on this call; None where it is OK."""
        code = self._status_code
        if code is None or code is StatusCode.OK:
            return None
        text = self._details or _TEXTS.get(code) or code.name.replace("_", " ").capitalize()
        plain = Status(code=code.value[0], message=text)
        return errors.with_error_info(self._given_details(code) or plain)

    def status_of(self, error: BaseException) -> Status:
        """The status of a call that ended with this exception; raises CancelledError where the client cancelled it."""
        if isinstance(error, asyncio.CancelledError):
            return self._ended(error)
        if isinstance(error, CallError):
            return error.status
        set_before = None if errors.is_told(error) else self.failure()
        if set_before is None:
            return errors.to_status(error)
        if not self._aborted and not isinstance(error, NotImplementedError):
            errors.log.error("unexpected error after set_code", exc_info=error)
        return set_before

    def _ended(self, error: asyncio.CancelledError) -> Status:
        if self._ending is None or (self.task and self.task.uncancel()):
            raise error
        return self._ending.status()

    def _given_details(self, code: StatusCode) -> Status | None:
        """The google.rpc.Status that is taken out of the trailing metadata, if it agrees with the code of the call."""
        given = [m.value for m in self.trailing if m.key == STATUS_DETAILS and isinstance(m.value, bytes)]
        if not given:
            return None
        self.trailing = tuple(m for m in self.trailing if m.key != STATUS_DETAILS)
        try:
            status = Status.FromString(given[0])
        except DecodeError:
            return None
        return status if status.code == code.value[0] else None


def _metadata(given: Any) -> tuple[Metadatum, ...]:
    return tuple(Metadatum(key, value) for key, value in given or ())


_TEXTS = {
    StatusCode.UNIMPLEMENTED: "This agent does not implement this method",
    StatusCode.UNAUTHENTICATED: errors.UnauthenticatedError.text,
    StatusCode.PERMISSION_DENIED: errors.PermissionDeniedError.text,
}


def grpc_code(status: Status) -> StatusCode:
    return _CODE_OF_NUMBER.get(status.code, StatusCode.UNKNOWN)


class SyncContext:
    """The same call, as a synchronous servicer sees it from its thread: what would be awaited returns at once."""

    def __init__(self, context: CallContext) -> None:
        self._context, self._loop = context, asyncio.get_running_loop()

    def abort(self, code: StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        self._context.end(code, details, trailing_metadata)

    def abort_with_status(self, status: grpc.Status) -> NoReturn:
        self._context.end(status.code, status.details, status.trailing_metadata)

    def send_initial_metadata(self, initial_metadata: Any) -> None:
        asyncio.run_coroutine_threadsafe(self._context.send_initial_metadata(initial_metadata), self._loop).result()

    def is_active(self) -> bool:
        return not self._context.done()

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Callable[[], None]) -> bool:
        self._context.add_done_callback(lambda _: callback())
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
