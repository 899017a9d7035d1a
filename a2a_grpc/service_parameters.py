"""Service parameters: A2A-Version and A2A-Extensions, as a call carries them. Spec sections 3.6, 4.6 and 10 (gRPC)."""

from collections.abc import Iterable, Sequence
from typing import Literal

from .errors import ExtensionSupportRequiredError, VersionNotSupportedError, quote

VERSION = "a2a-version"
EXTENSIONS = ("a2a-extensions", "x-a2a-extensions")
DEFAULT_VERSION = "0.3"  # what an absent version means by the letter of section 3.6

VersionPolicy = Literal["infer", "strict"]


def check_version(given: Sequence[str], served: str, policy: VersionPolicy) -> None:
    """Refuses a call whose A2A-Version is not `served`, the version of the name that was called.

    Only major.minor count. An absent or empty version is read from the name called (infer), or as 0.3 (strict).
    """
    if given == [served]:
        return
    asked = _single(given)
    if asked == served or (not asked and policy == "infer"):
        return
    if major_minor(asked or DEFAULT_VERSION) == served:
        return
    raise VersionNotSupportedError(
        _refusal(asked, served),
        metadata={"requestedVersion": asked[:40] or DEFAULT_VERSION, "supportedVersions": served},
    )


def major_minor(version: str) -> str | None:
    """`1.0` of `1.0` or `1.0.3`; None of anything else."""
    numbers = version.split(".")
    if len(numbers) not in (2, 3) or not all(n.isascii() and n.isdigit() and len(n) < 6 for n in numbers):
        return None
    return f"{numbers[0]}.{numbers[1]}"


def requested_extensions(given: Iterable[str]) -> list[str]:
    """The URIs of all entries, in order, each once."""
    uris = (uri.strip() for entry in given for uri in entry.split(","))
    return list(dict.fromkeys(uri for uri in uris if uri))


def check_required(required: Iterable[str], requested: Iterable[str]) -> None:
    missing = [uri for uri in required if uri not in requested]
    if missing:
        uris = ", ".join(missing)
        raise ExtensionSupportRequiredError(
            f"This agent requires the extension {uris}. Send the header `A2A-Extensions: {uris}` "
            "(gRPC metadata `a2a-extensions`), or list it in message.extensions.",
            metadata={"requiredExtensions": uris},
        )


def _single(given: Sequence[str]) -> str:
    distinct = {v.strip() for v in given} - {""}
    return distinct.pop() if len(distinct) == 1 else ", ".join(sorted(distinct))


def _refusal(asked: str, served: str) -> str:
    advice = f"Send the header `A2A-Version: {served}` (gRPC metadata `a2a-version`)."
    if not asked:
        return f"No A2A-Version was sent, which is read as {DEFAULT_VERSION}; this interface serves {served}. {advice}"
    return f"A2A-Version {quote(asked)} is not supported; this interface serves {served}. {advice}"
