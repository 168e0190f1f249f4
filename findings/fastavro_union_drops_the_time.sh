#!/usr/bin/env bash
# fastavro 1.13 writes a datetime into a union of date and timestamp as the first branch that takes it, and the branch
# of dates takes it, since a datetime of Python is a date, too. So if the date is named first, the time of day is lost
# without a word, also with strict=True and validator=True. The union in the other order keeps it. A field of type
# date alone drops the time as well. Apache's avro keeps the time where fastavro drops it, and raises for a field of
# type date. One would have expected the branch that loses nothing, or an error from the validator. It matters since
# such unions arise where a field got more exact later: a new branch goes last. Name the timestamp first.
#
# Seen: 2026-01-02 15:30 UTC in [date, timestamp-millis], written by fastavro, is read as 2026-01-02 by both
# libraries, and as 2026-01-02 15:30 if avro 1.12 wrote it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check fastavro==1.13.1 avro==1.12.2
cat > "$folder/program.py" <<'END'
import datetime
import io
import json
import warnings

import avro.datafile
import avro.io
import avro.schema
import fastavro

warnings.simplefilter("error")  # so that a warning would be seen
date = {"type": "int", "logicalType": "date"}
timestamp = {"type": "long", "logicalType": "timestamp-millis"}
instant = datetime.datetime(2026, 1, 2, 15, 30, tzinfo=datetime.timezone.utc)


def record(kind):
    return {"type": "record", "name": "Visit", "fields": [{"name": "at", "type": kind}]}


def written_by_fastavro(kind, **options):
    file = io.BytesIO()
    fastavro.writer(file, fastavro.parse_schema(record(kind)), [{"at": instant}], **options)
    return file.getvalue()


def written_by_avro(kind):
    file = io.BytesIO()
    schema = avro.schema.parse(json.dumps(record(kind)))
    writer = avro.datafile.DataFileWriter(file, avro.io.DatumWriter(), schema)
    writer.append({"at": instant})
    writer.flush()
    return file.getvalue()


def read(content):
    """What fastavro reads, which is what avro reads."""
    found = next(fastavro.reader(io.BytesIO(content)))
    assert found == next(avro.datafile.DataFileReader(io.BytesIO(content), avro.io.DatumReader()))
    return found["at"]


for options in ({}, {"strict": True}, {"validator": True}):
    for kind in ([date, timestamp], ["null", date, timestamp], date):
        seen = read(written_by_fastavro(kind, **options))
        print(options, kind, seen)
        assert type(seen) is datetime.date and seen == datetime.date(2026, 1, 2)
    assert read(written_by_fastavro([timestamp, date], **options)) == instant
assert read(written_by_avro([date, timestamp])) == read(written_by_avro(["null", date, timestamp])) == instant
try:
    written_by_avro(date)
except TypeError as error:
    print(error)
else:
    raise AssertionError("avro does not refuse a datetime for a date")
END
"$folder/venv/bin/python" "$folder/program.py"
