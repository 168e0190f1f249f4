#!/usr/bin/env bash
# The recurrence rules of python-dateutil 4.0 (rrule) take the week before the first full week of some years for
# week 53, where it is week 52: they find how many weeks the year before had from the length of the year itself. So
# BYWEEKNO=53, which has days in long years alone, has January days of years after short ones, and BYWEEKNO=52 lacks
# them. isocalendar() of the same dates says 52, and BYWEEKNO=-1 has them. The documentation says that week numbers
# are those of ISO 8601. It matters for whatever recurs by week, such as deliveries and pay, in calendars that use
# dateutil.
#
# Seen: from 1990 to 2060, BYWEEKNO=53 has 10 days of week 52, such as 2011-01-01 and 2022-01-02, and BYWEEKNO=52
# lacks the same 10. The weeks from 1 to 51 are right. Sundays of week 53 from 2021 on begin with 2022-01-02, where
# the next one is 2027-01-03.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check python-dateutil==4.0.0
cat > "$folder/program.py" <<'END'
import datetime

from dateutil.rrule import YEARLY, rrule, rrulestr

first, last = datetime.datetime(1990, 1, 1), datetime.datetime(2060, 12, 31)
days = [first + datetime.timedelta(n) for n in range((last - first).days + 1)]
differences = {}
for week in range(1, 54):
    found = set(rrule(YEARLY, byweekno=week, dtstart=first, until=last))
    right = {day for day in days if day.isocalendar().week == week}
    if found != right:
        differences[week] = (found - right, right - found)
assert sorted(differences) == [52, 53]
extra, missing = differences[53]
print(*sorted(str(day.date()) for day in extra))
assert not missing and len(extra) == 10
assert differences[52] == (set(), extra)
assert {datetime.datetime(2011, 1, 1), datetime.datetime(2022, 1, 2)} < extra
assert all(day.isocalendar().week == 52 and day.month == 1 for day in extra)
assert extra < set(rrule(YEARLY, byweekno=-1, dtstart=first, until=last))

sundays = rrulestr("DTSTART:20210201T000000\nRRULE:FREQ=YEARLY;BYWEEKNO=53;BYDAY=SU;COUNT=2")
assert [str(day.date()) for day in sundays] == ["2022-01-02", "2027-01-03"]
END
"$folder/venv/bin/python" "$folder/program.py"
