"""Authenticators: interceptors that say who is calling, on every binding, and that describe themselves in the card.

    Server(Joker(), card, interceptors=[AnyOf(ApiKey({"9f8e…": "ann"}), Bearer(verify))])

Interceptors in a list are all asked, and the last one names the caller; those in `AnyOf` are alternatives. A call
without credentials, or with wrong ones, ends with UnauthenticatedError before anything else is looked at. Spec
sections 4.5 and 7.
"""

from .guard import AnyOf, Authenticator, Guard
from .schemes import ApiKey, Basic, Bearer
from .secured import secured

__all__ = ["AnyOf", "ApiKey", "Authenticator", "Basic", "Bearer", "Guard", "secured"]
