#!/usr/bin/env bash
# aniso8601 10.0 reads a time of 24:00 as 00:00 of the same date. ISO 8601 has 24:00 for the end of a day, the instant
# that is 00:00 of the next one, so such a date and time is a day too early, and the interval of a whole day is empty.
# There is no warning. python-dateutil, arrow and ciso8601 read the next day, and isodate refuses 24:00. aniso8601 has
# exceptions of its own for hours and leap seconds that it does not take, so one would have expected the instant or one
# of them. It matters since 24:00 is how schedules and contracts write the end of a term.
#
# Seen: 2024-12-31T24:00:00 is 2024-12-31 00:00:00, where the others have 2025-01-01. The interval
# 2024-01-01T00:00/2024-01-01T24:00 begins and ends at once, and 2024-01-01T24:00/PT1H is the first hour of January 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    aniso8601==10.0.1 python-dateutil==4.0.0 arrow==1.4.0 ciso8601==2.3.3
cat > "$folder/program.py" <<'END'
import warnings
from datetime import datetime, timedelta

import aniso8601
import arrow
import ciso8601
from dateutil.parser import isoparse

warnings.simplefilter("error")  # so that a warning would be seen
for day, after in (
    (datetime(2024, 12, 31), "2024-12-31T24:00:00"),
    (datetime(2024, 2, 28), "2024-02-28T24:00"),
    (datetime(2024, 6, 1), "20240601T2400"),
):
    found = aniso8601.parse_datetime(after)
    others = isoparse(after), arrow.get(after).naive, ciso8601.parse_datetime(after)
    print(after, found, *others)
    assert found == day
    assert set(others) == {day + timedelta(days=1)}

start, stop = aniso8601.parse_interval("2024-01-01T00:00/2024-01-01T24:00")
print(start, stop)
assert start == stop == datetime(2024, 1, 1)
start, stop = aniso8601.parse_interval("2024-01-01T24:00/PT1H")
print(start, stop)
assert (start, stop) == (datetime(2024, 1, 1), datetime(2024, 1, 1, 1))
try:
    aniso8601.parse_datetime("2024-01-01T25:00")
except aniso8601.exceptions.HoursOutOfBoundsError as error:
    print(error)
else:
    raise AssertionError("25:00 is not refused")
END
"$folder/venv/bin/python" "$folder/program.py"
