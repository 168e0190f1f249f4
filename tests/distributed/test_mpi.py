"""mpi4py on Blobs: the checks of mpi_checks.py, each in two MPI processes."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiers

PROGRAM = Path(__file__).with_name("mpi_checks.py")

# The functions in the program's table. The program is not imported: that would start MPI here.
CHECKS = [
    name.id
    for node in ast.walk(ast.parse(PROGRAM.read_text(encoding="utf-8")))
    if isinstance(node, ast.comprehension) and isinstance(node.iter, ast.Tuple)
    for name in node.iter.elts
    if isinstance(name, ast.Name)
]


@pytest.fixture(scope="module")
def mpiexec():
    pytest.importorskip("mpi4py")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    found = shutil.which("mpiexec", path=path)
    if found is None:
        pytest.skip("there is no mpiexec; the packages mpich and openmpi have one")
    return found


@pytest.mark.parametrize(
    "check",
    tiers.representatives(
        CHECKS,
        {
            "allreduce_in_place_of_a_diff": "an array that is read and written",
            "dtypes": "MPI's types",
            "send_and_receive": "an array that is read, and one that is written",
        },
    ),
)
def test_two_processes(mpiexec, check):
    # By default, Open MPI starts no more processes than there are cores, and none as root.
    permissions = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, PROGRAM, check],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ
        | dict.fromkeys(permissions, "1")
        | {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
        | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2 processes\n" * 2
