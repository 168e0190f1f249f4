"""Python runs this at startup if its folder is on the path: see `gpu_checks.model.install`."""

import os

if os.environ.get("SYNCBLOB_CUDA_MODEL"):
    from gpu_checks.model.install import install

    install(os.environ["SYNCBLOB_CUDA_MODEL"])
