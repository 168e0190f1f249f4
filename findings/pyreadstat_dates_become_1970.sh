#!/usr/bin/env bash
# pyreadstat 1.3 writes each time of a column of datetime64[s] as 1970-01-01, in all its formats and without a word.
# pandas 3.1 keeps that unit, and gives it to NumPy's dates (datetime64[D]), so a column of dates loses them all.
# Times in milliseconds, microseconds and nanoseconds, and datetime.date, are right; one would have expected the
# same dates, or an error. It matters since dates of birth or of visits are lost in a file that reads well.
#
# Seen: 2026-11-30 and 1914-07-28, of datetime64[D] in NumPy, are 1970-01-01 twice in an SPSS, a Stata and a SAS
# file. pandas reads the same from the Stata file.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check \
    numpy==2.4.6 pandas==3.1.1 pyreadstat==1.3.7
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
import pandas as pd
import pyreadstat

warnings.simplefilter("error")  # so that a warning would be seen
dates = np.array(["2026-11-30", "1914-07-28"], "M8[D]")
formats = {
    "file.sav": (pyreadstat.write_sav, pyreadstat.read_sav),
    "file.dta": (pyreadstat.write_dta, pyreadstat.read_dta),
    "file.xpt": (pyreadstat.write_xport, pyreadstat.read_xport),
}
for name, (write, read) in formats.items():
    for unit in ("ms", "us", "ns"):
        write(pd.DataFrame({"day": dates.astype(f"M8[{unit}]")}), name)
        assert (read(name)[0]["day"].to_numpy() == dates).all()
    write(pd.DataFrame({"day": dates.tolist()}), name)
    assert read(name)[0]["day"].tolist() == dates.tolist()
    frame = pd.DataFrame({"day": dates})
    assert frame["day"].dtype == "datetime64[s]" and (frame["day"].to_numpy() == dates).all()
    write(frame, name)
    seen = read(name)[0]["day"]
    print(name, seen.tolist())
    assert (seen.to_numpy() == np.datetime64("1970-01-01")).all()
    if name == "file.dta":
        assert (pd.read_stata(name)["day"].to_numpy() == np.datetime64("1970-01-01")).all()
END
cd "$folder"
"$folder/venv/bin/python" "$folder/program.py"
