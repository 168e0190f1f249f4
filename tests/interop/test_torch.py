"""PyTorch on the host: its constructors with Blobs, and Blobs over its tensors."""

import gc

import numpy as np
import pytest
import tiers
from call_texts import functions
from devices import OTHER
from made_blobs import CPU, DTYPES, GPU, PAIR, SPLIT, address, blob_in, values

import syncblob
from syncblob import Blob, Device, StaleAliasWarning

torch = pytest.importorskip("torch")

ALIASES = {
    "from_dlpack": torch.from_dlpack,
    "as_tensor": torch.as_tensor,
    "asarray": torch.asarray,
    # To PyTorch, simulated memory is host memory, so it requests no other side.
    "from_dlpack, device": lambda b: torch.from_dlpack(b, device="cpu"),
    "from_dlpack, no copy": lambda b: torch.from_dlpack(b, copy=False),
}
# --- torch takes a Blob ------------------------------------------------------------------------


@pytest.mark.parametrize("take", ALIASES.values(), ids=ALIASES)
@pytest.mark.parametrize("dtype", tiers.dtypes(DTYPES))
def test_a_tensor_is_the_blobs_own_memory_to_write(take, dtype):
    blob = blob_in(CPU, dtype)
    tensor = take(blob)
    assert tensor.data_ptr() == address(blob.cpu_data())
    assert tensor.dtype == getattr(torch, dtype)
    assert tensor.tolist() == values(dtype).tolist()
    tensor[0] = 1
    assert blob.tolist() == [[1, 1, 1], values(dtype)[1].tolist()]


@pytest.mark.parametrize("take", ALIASES.values(), ids=ALIASES)
@pytest.mark.parametrize("head", PAIR)
def test_a_tensor_takes_the_mutable_path_on_the_blobs_device(simulated, take, head):
    blob = blob_in(head)
    device = blob.device
    simulated.reset_counts()
    tensor = take(blob)
    assert (blob.head, blob.device) == (CPU if head is CPU else GPU, device)
    # Of a split Blob, four bytes are missing on the device.
    assert (simulated.uploaded_bytes, simulated.downloads) == (4 * (head is SPLIT), 0)
    tensor += 1
    assert blob.tolist() == (values() * bool(head) + 1).tolist()
    assert simulated.downloads == (head is not CPU)


def test_a_tensor_keeps_the_bytes_when_the_blob_is_gone_or_has_grown():
    blob = blob_in(CPU)
    tensor, other = torch.from_dlpack(blob), torch.from_dlpack(blob.T)
    with pytest.warns(StaleAliasWarning, match="growing resize"):
        blob.resize(100)
    blob[...] = 7
    del blob
    gc.collect()
    noise = [Blob((2, 3)).mutable_cpu_data() for _ in range(50)]
    assert len(noise) == 50
    assert tensor.tolist() == values().tolist()
    assert other.tolist() == values().T.tolist()


@pytest.mark.parametrize("device", ["cpu", "simulated:0", OTHER])
def test_a_tensor_of_one_element_indexes_like_an_array(device):
    blob = syncblob.asarray(values(), device=device)
    for index in ([1], [[1]], True, [True, False], 1):
        assert blob[torch.tensor(index)].tolist() == values()[np.array(index)].tolist()
    row = blob[:1]
    row[torch.tensor([False])] = 9
    assert blob.tolist() == values().tolist()


# --- Blobs over tensors ------------------------------------------------------------------------


ADOPTED = functions(
    """
    t.mT; t[1:]; t.permute(3, 0, 2, 1); t.to(memory_format=torch.channels_last); t[0, 0, 0, 0];
    t[:0]
    """,
    "t",
    globals(),
)
COPIED = functions("t[..., ::2]; t[:, 1:]; t[:, :1].expand(2, 3, 4, 5)", "t", globals())


@pytest.mark.parametrize("text", [*ADOPTED, *COPIED])
def test_tensors_of_any_order_are_adopted_and_those_with_gaps_copied(text):
    adopted = text in ADOPTED
    tensor = (ADOPTED | COPIED)[text](torch.arange(120.0).reshape(2, 3, 4, 5))
    blob = Blob.asarray(tensor)
    assert blob.tolist() == tensor.tolist()
    if tensor.numel():
        assert (address(blob.cpu_data()) == tensor.data_ptr()) is adopted
    if not adopted:
        with pytest.raises(ValueError, match="copy=False"):
            Blob.asarray(tensor, copy=False)


@pytest.mark.parametrize("take", [Blob.asarray, Blob.from_dlpack, Blob(3).set_cpu_data])
def test_a_tensor_that_requires_grad_is_refused_and_told_what_to_do(take):
    with pytest.raises((BufferError, TypeError, RuntimeError), match="detach"):
        take(torch.ones(3, requires_grad=True))
    with pytest.raises((BufferError, TypeError, RuntimeError), match="detach"):
        take(torch.nn.Parameter(torch.ones(3)))


def test_a_tensor_with_a_pending_conjugation_is_never_taken_for_its_memory():
    lazy = torch.tensor([1 + 2j, 3 - 4j]).conj()
    with pytest.raises(BufferError, match="conj"):
        Blob.asarray(lazy)
    assert Blob.asarray(lazy.resolve_conj()).tolist() == [1 - 2j, 3 + 4j]


def test_a_blob_keeps_a_tensors_memory():
    tensor = torch.arange(1000.0)
    blob, weak = Blob.asarray(tensor), tensor.data_ptr()
    del tensor
    gc.collect()
    noise = [torch.zeros(1000) for _ in range(20)]
    assert weak not in [other.data_ptr() for other in noise]
    assert blob.asum_data() == 499500


def test_a_tensor_of_a_type_a_blob_cannot_hold_is_refused():
    for make in (Blob.asarray, Blob.from_dlpack):
        with pytest.raises(TypeError, match="cannot hold float8_e4m3fn"):
            make(torch.zeros(2, dtype=torch.float8_e4m3fn))


@pytest.mark.parametrize("backwards", [lambda a: a[::-1], lambda a: a[:, ::-1], np.rot90])
@pytest.mark.parametrize("take", [*ALIASES.values(), torch.tensor, torch.utils.dlpack.from_dlpack])
def test_negative_strides_are_refused_before_torch_ends_the_process(take, backwards):
    blob = blob_in(CPU)
    with pytest.raises(BufferError, match=r"negative strides.*copy\(\)"):
        take(backwards(blob))
    assert (blob.head, blob.memory.aliased) == (CPU, False)
    expected = backwards(values("float32")).tolist()
    assert take(backwards(blob).copy()).tolist() == expected
    assert torch.from_dlpack(backwards(blob), copy=True).tolist() == expected
    for export in (np.from_dlpack, lambda blob: torch.from_dlpack(blob.__dlpack__())):
        with pytest.raises(BufferError, match=r"negative strides.*np.asarray"):
            export(backwards(blob))


def test_the_kept_arrays_do_not_go_round_the_refusal_of_negative_strides():
    blob = Blob(3)[::-1]
    blob.cpu_data()
    blob.mutable_cpu_data()[...] = [1, 2, 3]
    with pytest.raises(BufferError, match="negative strides"):
        torch.from_dlpack(blob)
    assert blob.tolist() == [1, 2, 3]


@pytest.mark.parametrize("shape", [(1,), (0,), (0, 3), (1, 3)])
def test_a_negative_stride_of_no_step_is_none(shape):
    blob = Blob(shape)
    blob[...] = 7
    for take in (torch.from_dlpack, np.from_dlpack, Blob.to_torch):
        taken = take(blob[::-1])
        assert tuple(taken.shape) == shape
        taken[...] = 8
    assert set(np.asarray(blob).ravel().tolist()) <= {8}


# --- devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "there"), [("cpu", "cpu"), ("cuda:1", "cuda:1"), ("simulated:1", "cpu")]
)
def test_a_device_is_one_of_torchs(name, there):
    assert Device(name).torch == torch.device(there)
    back = Device(torch.device(there))
    assert back == there
    assert Blob(2, device=torch.device("cpu")).device == "cpu"


def test_torchs_device_without_a_number_is_its_current_one(monkeypatch):
    assert Device(torch.device("cuda")) == "cuda:0"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert Device(torch.device("cuda")) == "cuda:3"
    with pytest.raises(ValueError, match=r"got device.*meta"):
        Device(torch.device("meta"))


def test_a_tensor_is_made_where_torch_computes_a_blob():
    blob = Blob(3, device="simulated")
    blob += 1
    tensor = torch.ones(3, device=blob.device.torch)
    assert (tensor + blob).tolist() == [2, 2, 2]
    with syncblob.no_transfers():
        assert torch.zeros(3, device=blob.on("cpu").device.torch).device.type == "cpu"
