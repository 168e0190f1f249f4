"""Python runs this at startup if its folder is on the path: the model of CUDA replaces CuPy."""

import os

if os.environ.get("SYNCBLOB_CUDA_MODEL"):
    from computing_model import install

    install(os.environ["SYNCBLOB_CUDA_MODEL"])
