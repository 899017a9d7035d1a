"""A2A-Version and A2A-Extensions, without any binding."""

import pytest

from a2a_grpc.errors import ExtensionSupportRequiredError, VersionNotSupportedError
from a2a_grpc.service_parameters import check_required, check_version, major_minor, requested_extensions


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.0", "1.0"), ("1.0.1", "1.0"), ("0.3", "0.3"), ("12.34.56", "12.34"), ("1", None), ("", None),
        ("1.", None), (".0", None), ("1.0.x", None), ("1.0.0.0", None), ("v1.0", None), ("١.٠", None),
        ("1.123456789", None), ("-1.0", None),
    ],
)  # fmt: skip
def test_only_major_and_minor_count(version: str, expected: str | None) -> None:
    assert major_minor(version) == expected


@pytest.mark.parametrize(
    ("given", "policy", "served", "accepted"),
    [
        ([], "infer", "1.0", True), ([""], "infer", "1.0", True), ([], "strict", "1.0", False),
        ([""], "strict", "1.0", False), ([], "strict", "0.3", True), (["1.0"], "strict", "1.0", True),
        (["1.0", "1.0"], "infer", "1.0", True), (["1.0", "0.3"], "infer", "1.0", False),
        ([" 1.0.7 "], "infer", "1.0", True), (["0.3"], "infer", "1.0", False), (["x" * 9999], "infer", "1.0", False),
    ],
)  # fmt: skip
def test_versions(given: list[str], policy: str, served: str, accepted: bool) -> None:
    if accepted:
        check_version(given, served, policy)  # type: ignore[arg-type]
        return
    with pytest.raises(VersionNotSupportedError, match=f"Send the header `A2A-Version: {served}`") as caught:
        check_version(given, served, policy)  # type: ignore[arg-type]
    assert caught.value.metadata["supportedVersions"] == served
    assert len(caught.value.message) < 300


def test_extensions_are_listed_in_order_and_once() -> None:
    assert requested_extensions(["urn:b, urn:a", " urn:c ,,urn:a", ""]) == ["urn:b", "urn:a", "urn:c"]


def test_required_extensions() -> None:
    check_required(["urn:a"], ["urn:b", "urn:a"])
    check_required([], [])
    with pytest.raises(ExtensionSupportRequiredError, match="urn:a, urn:c"):
        check_required(["urn:a", "urn:b", "urn:c"], ["urn:b", "URN:A"])
