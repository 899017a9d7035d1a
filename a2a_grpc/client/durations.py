"""How long a wait may be."""

from typing import Any

LONGEST = 1e8  # seconds, three years; gRPC cannot tell much longer ones
DURATION = f"seconds, above 0 and at most {LONGEST:g}"


def is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST
