"""scikit-learn."""

from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import check_array

REQUIRES = ["scikit-learn==1.9.1", "numpy==2.4.6", "ml-dtypes==0.7.0"]
GROUP = "tables"
TAKES = [
    "check_array(b, dtype=None)",
    "FunctionTransformer(validate=True).fit_transform(b)",
    "StandardScaler(copy=False, with_mean=False, with_std=False).fit_transform(b)",
]
WRITE = "x[...] = 1"
REASONS = {
    "StandardScaler(copy=False, with_mean=False, with_std=False).fit_transform(b)": "It converts the "
    "dtype twice, and a view with gaps is gathered anew for each conversion."
}
