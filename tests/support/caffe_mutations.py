"""Files to damage, and ways to damage them: the corpus of the fuzz tests.

``SYNCBLOB_FUZZ`` sets for how many seconds they run.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import tiers

from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobProtoVector,
    BlobShape,
    LayerParameter,
    NetParameter,
    SolverState,
    V0LayerParameter,
    V1LayerParameter,
)

for_seconds = tiers.amount("seconds", 2.0, 10.0, variable="SYNCBLOB_FUZZ")

_LARGEST = 600_000
_CLAIMS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 10**10, 2**63 - 1, 2**64 - 1]
_REAL_FILES = Path(__file__).resolve().parents[3] / "shared" / "data"


def real_files(*suffixes):
    """Return the contents of the files that real Caffe wrote, where they are present."""
    folder = Path(os.environ.get("SYNCBLOB_REAL_FILES", _REAL_FILES))
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [path.read_bytes() for path in paths if path.name.endswith(suffixes)]
    return [content for content in found if len(content) <= _LARGEST]


def made_messages():
    """Return one small file of every kind that is a message."""
    shape = BlobShape(dim=[2, 3])
    blobs = [
        BlobProto(shape=shape, data=range(6), diff=range(6)),
        BlobProto(shape=shape, double_data=range(6)),
        BlobProto(num=1, channels=1, height=2, width=3, data=range(6)),
        BlobProto(shape=shape, raw_data=bytes(12), raw_data_type=BlobProto.FLOAT16),
    ]
    layers = [
        LayerParameter(name=f"layer {number}", type="Convolution", bottom=["data"], blobs=[blob])
        for number, blob in enumerate(blobs)
    ]
    v1 = [V1LayerParameter(name="v1", type=V1LayerParameter.CONVOLUTION, blobs=blobs)]
    v0 = [
        V1LayerParameter(layer=V0LayerParameter(type="padding", pad=1), bottom=["a"], top=["b"]),
        V1LayerParameter(
            layer=V0LayerParameter(name="v0", type="conv", blobs=blobs), bottom=["b"], top=["c"]
        ),
    ]
    # Every value a field of its own.
    unpacked = b"\x3a\x02\x08\x06" + b"\x2d\x00\x00\x80\x3f" * 6
    messages = [
        *blobs,
        NetParameter(name="net", layer=layers),
        NetParameter(name="net", layers=v1),
        NetParameter(name="net", layers=v0),
        NetParameter(layers=[*v0, *v1], layer=layers),
        BlobProtoVector(blobs=blobs),
        SolverState(iter=1, learned_net="net", history=blobs, current_step=2),
    ]
    return [unpacked, *(message.SerializeToString() for message in messages)]


def made_hdf5(folder):
    """Return HDF5 files of several makes; h5py is needed."""
    import h5py

    contents = []
    for version in ("earliest", "latest"):
        path = folder / f"{version}.h5"
        with h5py.File(path, "w", libver=version) as file:
            file["data/conv/0"] = np.ones((2, 3), np.float32)
            file["data/conv/1"] = np.ones(2, ">f8")
            file["data/conv/inner/0"] = np.ones(3, np.int16)
            file["diff/conv/0"] = np.ones((2, 3), np.float32)
            file.create_group("data/empty")
            packed = np.arange(1000, dtype=np.float32)
            file.create_dataset("data/chunked/0", data=packed, chunks=(100,), compression="gzip")
            file["iter"] = np.array([5])
            file["learned_net"] = np.bytes_(b"net.caffemodel")
            file["history/0"] = np.ones(4, np.float32)
        contents.append(path.read_bytes())
    return contents


def mutated(random, corpus, *, within=None):
    """Return one of the files, damaged in a few places.

    Parameters
    ----------
    random
        A `random.Random`.
    corpus
        The files.
    within
        How far from the start the damage is done; what comes after it are values, mostly.
    """
    content = bytearray(random.choice(corpus))
    for _ in range(random.randint(1, 6)):
        size = len(content)
        place = random.randrange(min(size, within or size) + 1)
        other = random.randrange(size + 1)
        match random.randrange(8):
            case 0:
                content[place : place + 1] = random.randbytes(1)
            case 1:
                content[place : place + 1] = [1 << random.randrange(8)]
            case 2:
                width = random.choice([1, 4, 8])
                claim = random.choice([*_CLAIMS, other]) % (1 << 8 * width)
                content[place : place + width] = claim.to_bytes(width, "little")
            case 3:
                content[place : place + 5] = b"\xff\xff\xff\xff\x0f"
            case 4:
                content[place:place] = content[other : other + random.randrange(64)]
            case 5:
                del content[place : place + random.randrange(16)]
            case 6:
                content[place:place] = random.choice(corpus)[: random.randrange(200)]
            case 7 if random.random() < 0.2:  # seldom: it leaves less to damage
                del content[place:]
    return bytes(content[:_LARGEST])
