#!/usr/bin/env bash
# cftime 1.6 ignores the time zone of a unit if its hour has one digit, and says nothing. The CF conventions, by
# which NetCDF files tell time, have such a zone in their example of a unit, "-6:00". cftime knows "-06:00" and
# "-0600", ignores "-6", and takes "-600", also 6 hours by UDUNITS, for 60. So netCDF4's num2date, which is cftime's,
# differs from xarray, which asks pandas first, and cftime for calendars that pandas lacks: one unit means two times
# in it. One would have expected the zone to count, or an error. It matters since the times of a file are hours
# off, depending on who reads it.
#
# Seen: 0 "seconds since 1992-10-8 15:15:42.5 -6:00" is 15:15:42.5 in netCDF4, and 21:15:42.5 with -06:00. xarray
# 2026.9 says 21:15:42.5 for both in the standard calendar, and 15:15:42.5 for the first in that without leap days.
# 0 "hours since 2026-01-01 00:00 -600" is 2026-01-03T12:00.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 cftime==1.6.6.1 netCDF4==1.7.5.1.post1 xarray==2026.9.0
cat > "$folder/program.py" <<'END'
import warnings

import netCDF4
import xarray as xr

warnings.simplefilter("error")  # so that a warning would be seen
short = "seconds since 1992-10-8 15:15:42.5 -6:00"
long = "seconds since 1992-10-8 15:15:42.5 -06:00"


def by_netcdf4(unit):
    return netCDF4.num2date(0, unit).isoformat()


def by_xarray(unit, calendar):
    data = xr.Dataset({"time": ("n", [0], {"units": unit, "calendar": calendar})})
    (time,) = xr.decode_cf(data).time.dt.strftime("%H:%M:%S").values
    return time


print(by_netcdf4(short), by_netcdf4(long), by_netcdf4("hours since 2026-01-01 00:00 -600"))
assert by_netcdf4(short) == "1992-10-08T15:15:42.500000"
assert by_netcdf4(long) == "1992-10-08T21:15:42.500000"
assert by_netcdf4("hours since 2026-01-01 00:00 -6") == "2026-01-01T00:00:00"
assert by_netcdf4("hours since 2026-01-01 00:00 -0600") == "2026-01-01T06:00:00"
assert by_netcdf4("hours since 2026-01-01 00:00 -600") == "2026-01-03T12:00:00"
seen = [by_xarray(unit, calendar) for calendar in ("standard", "noleap") for unit in (short, long)]
print(seen)
assert seen == ["21:15:42", "21:15:42", "15:15:42", "21:15:42"]
END
"$folder/venv/bin/python" "$folder/program.py"
