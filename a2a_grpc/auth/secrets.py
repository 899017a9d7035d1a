"""Whose secrets are, compared in constant time."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TypeVar

from ..caller import Caller
from ..errors import quote
from .guard import caller_of

F = TypeVar("F", bound=Callable[..., object])

VISIBLE = re.compile("[!-~]+")


class Secrets:
    """Whose a secret is. It compares with all of them, in a time that does not depend on what was given."""

    def __init__(self, callers: Iterable[tuple[str, Caller]]) -> None:
        self._known = [(_digest(secret), who) for secret, who in callers]

    def __call__(self, secret: str) -> Caller | None:
        given, found = _digest(secret), None
        for known, who in self._known:
            if compare_digest(known, given):
                found = who
        return found


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def owned(keys: Mapping[str, Caller | str]) -> Iterator[tuple[str, Caller]]:
    for key, known in keys.items():
        who = caller_of(known)
        if who is None:
            raise ValueError("a key belongs to a caller with a name")
        if not VISIBLE.fullmatch(key):
            raise ValueError(f"a key of {who.name} is not visible ASCII without spaces")
        yield key, who


def function(given: F, what: str, takes: str) -> F:
    if not callable(given):
        raise TypeError(
            f"give a mapping of {what}, or a function of {takes} that tells whose it is, not {type(given).__name__}"
        )
    return given


def password_check(passwords: Mapping[str, str]) -> Callable[[str, str], Caller | None]:
    for user in passwords:
        if not user or ":" in user:
            raise ValueError(f"user {quote(user)} must not be empty, nor have a colon: RFC 7617")
    secrets = Secrets((f"{user}:{password}", Caller(user)) for user, password in passwords.items())
    return lambda user, password: secrets(f"{user}:{password}")
