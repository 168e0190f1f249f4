"""Arrays of other libraries: recognizing them, and native arrays over the same memory.

Nothing here knows memories or Blobs. `native` converts an array of any library to one of NumPy or
CuPy without a copy.
"""
