"""The malformed requests of test_hostile.py, ten times as many, of other seeds."""

import pytest
from hostile import siege
from test_hostile import check


@pytest.mark.soak
@pytest.mark.parametrize("seed", [2, 3])
async def test_ten_thousand_malformed_requests(seed: int) -> None:
    check(await siege(seed, count=10_000))
