#!/usr/bin/env bash
# In the sparse arrays of SciPy 1.17, whether NaN is less than a number depends on that number. If a comparison holds
# for the zeros that are not stored, SciPy computes its opposite and negates that, so NaN satisfies it; otherwise it
# does not. The only warning is one of efficiency. argmax and argmin have another such rule: beside a zero that is not
# stored they give the place of that zero, neither NaN's, as in NumPy, nor that of the largest number. max is NaN, as
# in NumPy. One would have expected NumPy's results, as == and != give them. It matters since missing entries pass
# filters such as "below the limit", and the best item of a row of ratings is one without a rating. Compare the
# attribute data instead, or remove NaN before.
#
# Seen: for the array [NaN, 0, 3] both A < 2 and A > -2 hold for NaN, and A < -2 and A > 2 do not; A <= A holds for
# it, and A == A does not. The argmax of [0, 5, NaN] and of [0, NaN, 5] is 0, which is the place of the zero.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1
cat > "$folder/program.py" <<'END'
import warnings

import numpy as np
from scipy import sparse

warnings.simplefilter("error")  # so that a warning would be seen
warnings.simplefilter("ignore", sparse.SparseEfficiencyWarning)
nan = np.nan
dense = np.array([[nan, 0, 3]])
formats = [sparse.csr_array, sparse.csc_array, sparse.coo_array]
for convert in formats:
    a = convert(dense)
    seen = [bool(result.toarray()[0, 0]) for result in (a < 2, a > -2, a < -2, a > 2, a <= a, a >= a, a == a)]
    print(seen)
    assert seen == [True, True, False, False, True, True, False]
    assert ((a < 2).toarray()[0, 1:] == (dense < 2)[0, 1:]).all()
for convert in formats:
    seen = [convert(np.array([row])).argmax() for row in ([0, 5, nan], [0, nan, 5], [4, 5, nan])]
    seen.append(convert(np.array([[0, 5, nan]])).argmin())
    print(seen)
    assert seen == [0, 0, 2, 0]
    assert np.isnan(convert(np.array([[0, 5, nan]])).max())
assert sparse.csr_array(np.array([[0, 5, nan], [0, 5, 0]])).argmax(axis=1).tolist() == [0, 1]
assert np.argmax([0, 5, nan]) == np.argmin([0, 5, nan]) == 2
END
"$folder/venv/bin/python" "$folder/program.py"
