"""Files to damage, and ways to damage them: the corpus of the fuzz tests.

``SYNCBLOB_FUZZ`` sets how many files of each format are damaged.
"""

import io
import os
from pathlib import Path

import numpy as np
import tiers

from syncblob.caffe._pb.caffe_pb2 import (
    BlobProto,
    BlobShape,
    LayerParameter,
    NetParameter,
    SolverState,
    V0LayerParameter,
    V1LayerParameter,
)
from syncblob.caffe.messages.wire import length_field, length_header

damaged_files = tiers.amount("count", 100, 1_000, variable="SYNCBLOB_FUZZ")

_LARGEST = 600_000
_FEW_LAYERS = 4
_CLAIMS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 10**10, 2**63 - 1, 2**64 - 1]
_REAL_FILES = Path(__file__).resolve().parents[3] / "shared" / "data"


# --- unusual messages -----------------------------------------------------------------------------


def _floats(*values):
    return np.array(values, "<f4").tobytes()


def _unpacked(*values):
    return b"".join(b"\x2d" + _floats(value) for value in values)


def _packed(*values):
    return length_header(5, 4 * len(values)) + _floats(*values)


_DOUBLE = b"\x42\x08" + np.float64(4).tobytes()


_SHAPE_4, _HALVES = b"\x3a\x02\x08\x04", b"\x50\x02"
_DIMS = b"\x10\x01\x18\x01\x20\x01"
_VALUES = [
    _packed(1, 2, 3, 4),
    _unpacked(1, 2, 3, 4),
    _packed(1, 2) + _packed(3, 4),
    _packed(1) + _packed() + _packed(2, 3) + _packed(4),
    _unpacked(1, 2) + _packed(3) + _unpacked(4),
    _packed(1) + b"\x78\x01" + _packed(2, 3, 4),
    _unpacked(1) + b"\x7b\x7c" + _unpacked(2, 3, 4),
    # The same tag, encoded in two bytes.
    b"\xad\x00" + _floats(1) + _unpacked(2) + b"\xaa\x00\x08" + _floats(3, 4),
    # Another field whose tag begins with the same byte.
    b"\xad\x00" + _floats(1) + b"\xad\x01" + _floats(9) + _packed(2, 3, 4),
    # Fields of NVCaffe with wire types that they cannot have there, which are ignored.
    _packed(1, 2, 3) + b"\x52\x01\x00" + b"\x60\x63" + b"\x6b\x6c" + _packed(4),
]
UNUSUAL = [
    *(_SHAPE_4 + values for values in _VALUES),
    *(values + _SHAPE_4 for values in _VALUES),
    # The last num counts, or its low 32 bits.
    b"\x08\x09" + _DIMS + b"\x08\x02" + _packed(1, 2),
    b"\x08" + b"\xff" * 9 + b"\x01" + _DIMS + b"\x08\x01" + _packed(1),
    b"\x08\x82\x80\x80\x80\x10" + _DIMS + _packed(1, 2),
    b"\x3a\x03\x0a\x01\x02" + _packed(*range(6)) + b"\x3a\x02\x08\x03",
    *(
        length_header(7, len(dims)) + dims + _packed(*range(24))
        for dims in (
            b"\x0a\x03\x02\x03\x04",
            b"\x08\x02\x08\x03\x08\x04",
            b"\x0a\x01\x02\x08\x03\x0a\x01\x04",
            b"\x0a\x02\x02\x03\x12\x01x\x0a\x01\x04",
            b"\x08\x82\x00\x0a\x04\x83\x80\x00\x04",
            b"\x13\x14\x15\x00\x00\x00\x00\x0a\x03\x02\x03\x04",
        )
    ),
    # Old dimensions, some of them absent, and another shape, also one that no Blob can have.
    *(_SHAPE_4 + bytes([number << 3, value]) for number in range(1, 5) for value in (0, 5)),
    _SHAPE_4 + b"\x08\x01\x10\x02" + _packed(1, 2),
    b"\x08\x01" + _DIMS + length_header(7, 11) + b"\x08" + b"\xff" * 9 + b"\x01" + _packed(1),
    # Several lists of values: doubles, also none of them, come before floats, and raw ones last.
    _packed(1, 2) + _DOUBLE,
    _packed(1) + b"\x4a" + _DOUBLE[1:] + b"\x32\x08" + _floats(1, 2),
    b"\x42\x00" + _packed(1),
    *(values + _HALVES + b"\x62\x02\0\0" for values in (_packed(1), _DOUBLE, b"")),
    _packed(1) + b"\x58\x02" + b"\x6a\x02\0\x3c",
    *(
        b"\x3a\x02\x08\x02\x50" + bytes([kind]) + length_header(12, 2 * width) + bytes(2 * width)
        for kind, width in ((0, 8), (1, 4), (2, 2))
    ),
    b"\x3a\x04\x08\x00\x08\x05",
]


def unusual_nets():
    """Return nets of each format with such blobs, and with a name that is not UTF-8."""
    nets = []
    for begin in range(0, len(UNUSUAL), _FEW_LAYERS):
        blobs = {
            number: b"".join(length_field(number, blob) for blob in UNUSUAL[begin:][:_FEW_LAYERS])
            for number in (7, 6)
        }
        nets += [
            length_field(100, blobs[7] + length_field(1, b"\xff") + b"\xca\x3e\x01x"),
            length_field(2, length_field(4, b"\xff") + blobs[6]),
        ]
    return nets


# --- the corpus -----------------------------------------------------------------------------------


def corpus_of(kind):
    """Return files of a format, about half of them written by real Caffe, if those are present.

    `kind`: ``"net"``, ``"blob"``, ``"state"`` or ``"hdf5"``, which has both models and states of
        solvers.
    """
    make, suffix = _CORPORA[kind]
    made = make()
    folder = Path(os.environ.get("SYNCBLOB_REAL_FILES", _REAL_FILES))
    paths = sorted(folder.glob(f"*{suffix}")) if folder.is_dir() else []
    real = [path.read_bytes() for path in paths if path.stat().st_size <= _LARGEST]
    return made + real * -(-len(made) // len(real)) if real else made


def _nets():
    blobs = _made_blobs()
    layers = [
        LayerParameter(name=f"layer {number}", type="Convolution", bottom=["data"], blobs=[blob])
        for number, blob in enumerate(blobs)
    ]
    v1 = [V1LayerParameter(name="v1", type=V1LayerParameter.CONVOLUTION, blobs=blobs)]
    v0 = [V1LayerParameter(layer=V0LayerParameter(name="v0", type="conv", blobs=blobs))]
    nets = [
        NetParameter(name="net", layer=layers),
        NetParameter(name="net", layers=v1),
        NetParameter(layers=[*v0, *v1], layer=layers),
    ]
    return [*(net.SerializeToString() for net in nets * 2), *unusual_nets()]


def _blobs():
    return [*UNUSUAL, *(blob.SerializeToString() for blob in _made_blobs())]


def _states():
    state = SolverState(iter=1, learned_net="net", history=_made_blobs(), current_step=2)
    return [state.SerializeToString()]


def _made_blobs():
    shape = BlobShape(dim=[2, 3])
    return [
        BlobProto(shape=shape, data=range(6), diff=range(6)),
        BlobProto(shape=shape, double_data=range(6)),
        BlobProto(num=1, channels=1, height=2, width=3, data=range(6)),
        BlobProto(shape=shape, raw_data=bytes(12), raw_data_type=BlobProto.FLOAT16),
    ]


def _hdf5_files():
    """Return HDF5 files of several kinds. Needs h5py."""
    import h5py

    made = []
    for version in ("earliest", "latest"):
        model, state = io.BytesIO(), io.BytesIO()
        with h5py.File(model, "w", libver=version) as file:
            file["data/conv/0"] = np.ones((2, 3), np.float32)
            file["data/conv/1"] = np.ones(2, ">f8")
            file["data/conv/inner/0"] = np.ones(3, np.int16)
            file["diff/conv/0"] = np.ones((2, 3), np.float32)
            file.create_group("data/empty")
            packed = np.arange(1000, dtype=np.float32)
            file.create_dataset("data/chunked/0", data=packed, chunks=(100,), compression="gzip")
        with h5py.File(state, "w", libver=version) as file:
            file["iter"] = np.array([5])
            file["learned_net"] = np.bytes_(b"net.caffemodel")
            file["history/0"] = np.ones(4, np.float32)
        made += [model.getvalue(), state.getvalue()]
    return made


_CORPORA = {
    "net": (_nets, ".caffemodel"),
    "blob": (_blobs, ".binaryproto"),
    "state": (_states, ".solverstate"),
    "hdf5": (_hdf5_files, ".h5"),
}


def mutated(random, corpus, *, within):
    """Return one of the files, damaged in a few places.

    `random`: a `random.Random`.
    `corpus`: the files.
    `within`: the damage is before this offset.
    """
    content = bytearray(random.choice(corpus))
    for _ in range(random.randint(1, 6)):
        size = len(content)
        place = random.randrange(min(size, within) + 1)
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
            case 7 if random.random() < 0.2:  # rarely, because it leaves less to damage
                del content[place:]
    return bytes(content[:_LARGEST])
