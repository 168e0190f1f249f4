"""Functions that require ndarrays, made to accept Blobs."""

import numpy as np
import pytest
from made_blobs import blob_in, values

import syncblob
from syncblob import Head
from syncblob.integrations.ndarrays import takes_blobs

_, CPU, GPU, SYNCED, *_ = Head


@takes_blobs(write=["out"])
def combined(arrays, factor, out=None, **others):
    assert all(type(x) is np.ndarray for x in (*arrays, *others.values()))
    if out is None:
        return factor * sum(arrays)
    assert out.flags.writeable
    np.multiply(factor, sum(arrays), out=out)
    return out, arrays[0], 3


def test_blobs_are_read_as_const_arrays():
    blobs = [blob_in(head) for head in (GPU, CPU)]
    with syncblob.record_transfers() as log:
        result = combined(blobs, 2, other=blobs[1].const)
    assert (type(result), result.tolist()) == (np.ndarray, (4 * values()).tolist())
    assert ([blob.head for blob in blobs], len(log)) == ([SYNCED, CPU], 1)


@pytest.mark.parametrize("by_name", [False, True])
def test_what_is_written_comes_back_as_the_blob_that_it_is(by_name):
    blob, out = blob_in(GPU), blob_in(SYNCED)
    given = {"out": out} if by_name else {}
    result, first, number = combined([blob], 3, *([] if by_name else [out]), **given)
    assert (result is out, first is blob, number) == (True, True, 3)
    assert out.head is CPU
    del result
    assert out.gpu_data().tolist() == (3 * values()).tolist()
    assert not out.memory.aliased


@pytest.mark.parametrize("write", [1, "target"])
@pytest.mark.parametrize("by_name", [False, True])
def test_an_argument_is_written_by_position_and_by_name(write, by_name):
    @takes_blobs(write=[write])
    def assign(source, target):
        target[...] = source

    target = blob_in(GPU)
    assign(7, target=target) if by_name else assign(7, target)
    assert target.gpu_data().tolist() == [[7] * 3] * 2


@pytest.mark.parametrize("write", [1, "other"])
def test_a_place_beyond_the_positional_parameters_has_no_name(write):
    @takes_blobs(write=[write])
    def writable(*arrays, other):
        return [x.flags.writeable for x in (*arrays, other)]

    blobs = [blob_in(GPU) for _ in range(3)]
    assert writable(*blobs[:2], other=blobs[2]) == [False, write == 1, write == "other"]


def test_functions_of_c_are_told_places():
    blob = blob_in(GPU)
    takes_blobs(np.ndarray.fill, write=[0])(blob, 7)
    assert blob.gpu_data().tolist() == [[7] * 3] * 2


def test_what_cannot_be_written_is_refused_before_anything_is():
    blob = blob_in(SYNCED)
    with pytest.raises(ValueError, match="const view"):
        combined([blob], 2, out=blob.const)
    with pytest.raises(TypeError, match=r"write \['out'\]"):
        takes_blobs(np.copyto, write="out")
    assert (blob.head, blob.tolist()) == (SYNCED, values().tolist())
