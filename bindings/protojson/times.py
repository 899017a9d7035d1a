"""google.protobuf.Timestamp and Duration as text."""

import re
from datetime import UTC, date, datetime
from functools import lru_cache

_EPOCH = date(1970, 1, 1).toordinal()
_FIRST, _LAST = -62135596800, 253402300799  # the seconds of years 1 to 9999
_LONGEST = 315_576_000_000  # seconds of a Duration: 10,000 years
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))", re.ASCII
)
_DURATION = re.compile(r"(-?)(\d{1,12})(?:\.(\d{1,9}))?s", re.ASCII)


def timestamp_text(seconds: int, nanos: int) -> str:
    """UTC with exactly three digits, the rest cut off (spec section 5.6.1). Raises ValueError for years it lacks."""
    if not (_FIRST <= seconds <= _LAST and 0 <= nanos < 1_000_000_000):
        raise ValueError(f"a timestamp of {seconds} s and {nanos} ns is out of range")
    return f"{_second_text(seconds)}.{nanos // 1_000_000:03}Z"


def read_timestamp(text: str) -> tuple[int, int]:
    """Seconds and nanoseconds; an offset and up to nine digits are taken. Raises ValueError."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise ValueError(text)
    clock, fraction, sign, hours, minutes = found.groups()
    seconds = _second(clock)
    if sign:
        seconds -= int(sign + "60") * (60 * int(hours) + int(minutes))
        if not _FIRST <= seconds <= _LAST:
            raise ValueError(text)
    return seconds, int(fraction.ljust(9, "0")) if fraction else 0


@lru_cache(1024)  # the events of a moment share their second
def _second_text(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    day = date.fromordinal(_EPOCH + days).isoformat()
    return f"{day}T{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


@lru_cache(1024)
def _second(clock: str) -> int:
    moment = datetime.fromisoformat(clock).replace(tzinfo=UTC)
    return (moment.toordinal() - _EPOCH) * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second


def read_duration(text: str) -> tuple[int, int]:
    """Seconds and nanoseconds. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None or int(found[2]) > _LONGEST:
        raise ValueError(text)
    sign = -1 if found[1] else 1
    return sign * int(found[2]), sign * int((found[3] or "").ljust(9, "0"))
