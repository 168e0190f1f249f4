"""Functions in which NumPy or CuPy differs from the array API standard, corrected."""
