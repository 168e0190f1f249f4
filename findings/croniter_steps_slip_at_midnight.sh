#!/usr/bin/env bash
# croniter 7.0 accepts ranges that go past the end of a field, such as the hours 22-4, and takes steps in them, but
# slips by one in most of them where the field starts again: 22-4/3 is 22, 1, 4, and croniter has 22 and 2. So one
# distance is more than the step, the last value may be lost, and the number of runs changes. Some such ranges are
# right, as Apr-Jan/3, which a comment in its source names, and so are the same hours as a list, and ranges that do
# not go past the end. One would have expected equal distances, or an error as in other versions of cron. Write the
# list.
#
# Seen: 22-4/3 runs at 22 and 2, Nov-Mar/2 in November, January and March, as it should, Oct-Apr/4 in October and
# March instead of February, and 50-10/7 at the minutes 50, 57 and 5 instead of 4. Of all such ranges of minutes,
# hours, days and months with steps from 2 to 7, 10333 of 15462 are wrong.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check croniter==7.0.0
cat > "$folder/program.py" <<'END'
import datetime

from croniter import croniter


def expanded(field, text):
    """The values of one of the five fields of an expression."""
    fields = ["*"] * 5
    fields[field] = text
    return croniter.expand(" ".join(fields))[0][field]


def stepped(low, high, start, stop, step):
    """What the text start-stop/step means for a field from low to high, if it goes on past high with low."""
    size = high - low + 1
    return sorted((start - low + n) % size + low for n in range(0, (stop - start) % size + 1, step))


schedule = croniter("0 22-4/3 * * *", datetime.datetime(2026, 12, 1, 12))
runs = [schedule.get_next(datetime.datetime).hour for _ in range(4)]
print(runs)
assert runs == [22, 2, 22, 2] and stepped(0, 23, 22, 4, 3) == [1, 4, 22]
assert expanded(1, "22,1,4") == [1, 4, 22] and expanded(1, "1-7/3") == [1, 4, 7]
assert expanded(3, "Apr-Jan/3") == stepped(1, 12, 4, 1, 3) == [1, 4, 7, 10]
assert expanded(3, "Nov-Mar/2") == stepped(1, 12, 11, 3, 2) == [1, 3, 11]
assert expanded(3, "Oct-Apr/4") == [3, 10] and stepped(1, 12, 10, 4, 4) == [2, 10]
assert expanded(0, "50-10/7") == [5, 50, 57] and stepped(0, 59, 50, 10, 7) == [4, 50, 57]
fields = ((0, 59), (0, 23), (1, 31), (1, 12))
wrong = total = 0
for field, (low, high) in enumerate(fields):
    for start in range(low, high + 1):
        for stop in range(low, start):
            for step in range(2, 8):
                total += 1
                seen = sorted(expanded(field, f"{start}-{stop}/{step}"))
                wrong += seen != stepped(low, high, start, stop, step)
print(wrong, total)
assert (wrong, total) == (10333, 15462)
END
"$folder/venv/bin/python" "$folder/program.py"
