#!/usr/bin/env bash
# pyorc 0.12 moves a time in the last second before 1970 one second ahead, into 1970, when it writes an ORC file, if
# its fraction of a second is a millisecond or more. There is no error. Smaller fractions, whole seconds and all
# earlier times are right, and so are the same times written by PyArrow 26, whose file pyorc reads right, too. One
# would have expected the time back. It matters since the order of times changes, and since a test with any other
# time before 1970 finds nothing.
#
# Seen: 1969-12-31 23:59:59.5 is read as 1970-01-01 00:00:00.5, by pyorc and by PyArrow, in columns with and without
# a time zone. 23:59:59.000999, 23:59:58.5 and 1900-01-01 00:00:00.5 are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 pyorc==0.12.0 pyarrow==26.0.1
cat > "$folder/program.py" <<'END'
import datetime
import io
import warnings

import pyarrow as pa
import pyarrow.orc
import pyorc

warnings.simplefilter("error")  # so that a warning would be seen
epoch = datetime.datetime(1970, 1, 1)


def read(file):
    """The times in the file, without their zone, which both libraries read alike."""
    file.seek(0)
    found = [time.replace(tzinfo=None) for (time,) in pyorc.Reader(file)]
    file.seek(0)
    column = pyarrow.orc.read_table(file)["at"].cast(pa.timestamp("us", "UTC"))
    assert [time.replace(tzinfo=None) for time in column.to_pylist()] == found
    return found


def written_by_pyorc(times, kind):
    file = io.BytesIO()
    with pyorc.Writer(file, f"struct<at:{kind}>") as writer:
        writer.writerows([(time,) for time in times])
    return read(file)


def written_by_pyarrow(times):
    file = io.BytesIO()
    pyarrow.orc.write_table(pa.table({"at": pa.array(times)}), file)
    return read(file)


second = datetime.timedelta(seconds=1)
late = [epoch - datetime.timedelta(microseconds=n) for n in (1, 500_000, 999_000)]
right = [
    epoch - datetime.timedelta(microseconds=999_001),
    epoch - second,
    epoch - 1.5 * second,
    datetime.datetime(1900, 1, 1, 0, 0, 0, 500_000),
    epoch,
]
assert written_by_pyarrow(late + right) == late + right
for kind, zone in (("timestamp", None), ("timestamp with local time zone", datetime.timezone.utc)):
    seen = written_by_pyorc([time.replace(tzinfo=zone) for time in late + right], kind)
    print(*seen, sep="\n")
    assert seen == [time + second for time in late] + right
END
"$folder/venv/bin/python" "$folder/program.py"
