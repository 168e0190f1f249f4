"""Messages that no program writes: BlobProtos and nets in unusual layouts, valid and damaged."""

import math

from caffe_oracle import LEGACY, LISTS, MESSAGES, WIDTHS
from hypothesis import assume
from hypothesis import strategies as st

VARINT, FIXED64, LENGTH, GROUP, END, FIXED32 = range(6)


def encode(value, size=0):
    """Encode a varint in at least `size` bytes."""
    encoded = bytearray()
    while value >> 7 or len(encoded) + 1 < size:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def short():
    """Sizes that keep a tag or a length within 5 bytes."""
    return st.sampled_from([0, 0, 0, 0, 2, 5])


@st.composite
def tags(draw, number, wire_type):
    return encode(number << 3 | wire_type, draw(short()))


@st.composite
def delimited(draw, number, payload):
    return draw(tags(number, LENGTH)) + encode(len(payload), draw(short())) + payload


def varints():
    """Encoded integers, some longer than necessary, some negative."""
    value = st.one_of(
        st.integers(0, 5), st.integers(0, 2**64 - 1), st.integers(-9, -1).map(lambda n: n + 2**64)
    )
    return st.builds(encode, value, st.sampled_from([0, 0, 0, 3, 10]))


numbers = st.one_of(st.integers(1, 16), st.integers(1, 2**29 - 1))
wire_types = st.sampled_from([VARINT, FIXED64, LENGTH, GROUP, FIXED32])


@st.composite
def fields(draw, number, wire_type, levels=3):
    """One field of any type, with a valid payload for its wire type."""
    tag = draw(tags(number, wire_type))
    if wire_type == VARINT:
        return tag + draw(varints())
    if wire_type == LENGTH:
        payload = draw(st.binary(max_size=9))
        return tag + encode(len(payload), draw(short())) + payload
    if wire_type == GROUP:
        inside = st.lists(unknown_fields(levels - 1), max_size=2) if levels else st.just([])
        return tag + b"".join(draw(inside)) + draw(tags(number, END))
    size = 4 if wire_type == FIXED32 else 8
    return tag + draw(st.binary(min_size=size, max_size=size))


@st.composite
def unknown_fields(draw, levels=3, numbers=numbers):
    """A field that BlobProto lacks, or that NVCaffe's has with another wire type."""
    number, wire_type = draw(numbers), draw(wire_types)
    assume(number not in {*LEGACY, *LISTS, 7})
    assume((number, wire_type) not in {(10, VARINT), (11, VARINT), (12, LENGTH), (13, LENGTH)})
    return draw(fields(number, wire_type, levels))


@st.composite
def value_lists(draw, number, elements):
    """A list of values in pieces, each packed or not."""
    pieces = []
    while elements:
        size = draw(st.integers(1, len(elements)))
        piece, elements = elements[:size], elements[size:]
        if draw(st.booleans()):
            pieces.append(draw(delimited(number, b"".join(piece))))
        else:
            wire_type = FIXED32 if WIDTHS[number] == 4 else FIXED64
            tag = draw(tags(number, wire_type))
            pieces += [tag + element for element in piece]
    return pieces


@st.composite
def shape_messages(draw, dims):
    """The dimensions in one or more BlobShape messages."""
    pieces = []
    while dims:
        size = draw(st.integers(1, len(dims)))
        piece = [encode(dim, draw(st.sampled_from([0, 0, 7]))) for dim in dims[:size]]
        dims = dims[size:]
        if draw(st.booleans()):
            pieces.append(draw(delimited(1, b"".join(piece))))
        else:
            pieces += [draw(tags(1, VARINT)) + dim for dim in piece]
        if draw(st.booleans()):
            number, wire_type = draw(st.integers(2, 20)), draw(wire_types)
            pieces.append(draw(fields(number, wire_type)))
    split = draw(st.integers(0, len(pieces)))
    return [draw(delimited(7, b"".join(part))) for part in (pieces[:split], pieces[split:]) if part]


@st.composite
def interleaved(draw, rows):
    """Merge rows of pieces, keeping the order within each."""
    rows = [list(row) for row in rows if row]
    merged = []
    while rows:
        row = draw(st.sampled_from(rows))
        merged.append(row.pop(0))
        rows = [other for other in rows if other]
    return b"".join(merged)


@st.composite
def valid_messages(draw):
    """A BlobProto whose shape and values agree, in an unusual layout."""
    dims = draw(st.lists(st.integers(0, 4), max_size=3))
    rows = []
    if draw(st.booleans()):
        dims = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
        rows += [[draw(tags(number, VARINT)) + encode(dim)] for number, dim in enumerate(dims, 1)]
        rows.append(draw(shape_messages(draw(st.lists(st.integers(0, 4), max_size=2)))))
    else:
        rows.append(draw(shape_messages(dims)))
    count = math.prod(dims)
    data = draw(st.sampled_from([5, 8, 12]))
    if data == 12:
        width = draw(st.sampled_from([8, 4, 2]))
        raw = draw(st.binary(min_size=width * count, max_size=width * count))
        kind = encode((8, 4, 2).index(width))
        rows += [[draw(delimited(12, raw))], [draw(tags(10, VARINT)) + kind]]
    for number in LISTS:
        if data == 12 and number in (5, 8):
            continue
        wanted = number == data or draw(st.booleans())
        if wanted and not (number == 5 and data == 8 and draw(st.booleans())):
            element = st.binary(min_size=WIDTHS[number], max_size=WIDTHS[number])
            elements = draw(st.lists(element, min_size=count, max_size=count))
            rows.append(draw(value_lists(number, elements)))
    rows.append(draw(st.lists(unknown_fields(), max_size=3)))
    return draw(interleaved(rows))


@st.composite
def heaps(draw):
    """Known and unknown fields in any order, consistent or not."""
    known = st.tuples(st.integers(1, 13), wire_types).flatmap(lambda pair: fields(*pair))
    dims = st.lists(st.one_of(st.integers(0, 4), st.integers(2**63, 2**64 - 1)), max_size=3)
    shape = dims.flatmap(shape_messages).map(b"".join)
    return b"".join(draw(st.lists(st.one_of(known, shape, unknown_fields()), max_size=6)))


@st.composite
def nets(draw):
    """A net of any format, or of several at once, whose blobs have unusual layouts."""
    names = st.sampled_from([b"", b"a", b"b", b"\xff"])
    many = st.lists(names, max_size=2)
    foreign = unknown_fields(numbers=st.integers(2000, 2**29 - 1))  # beyond Caffe's settings
    net = []
    if draw(st.booleans()):
        net.append(draw(delimited(1, draw(names))))
    formats = draw(st.sampled_from([(2,), (2,), (1,), (0,), (0, 1), (0, 1, 2), (1, 2)]))
    for _ in range(draw(st.integers(0, 4))):
        version = draw(st.sampled_from(formats))
        number, blobs_number = {2: (100, 7), 1: (2, 6), 0: (2, 50)}[version]
        blobs = [
            draw(delimited(blobs_number, draw(valid_messages())))
            for _ in range(draw(st.integers(0, 2)))
        ]
        bottoms, tops = draw(many), draw(many)
        if version == 2:
            settings = MESSAGES["LayerParameter"](
                name=draw(names), type=draw(names), bottom=bottoms, top=tops
            ).SerializeToString()
            payload = draw(interleaved([[settings], blobs, draw(st.lists(foreign))]))
        else:
            outer = MESSAGES["V1LayerParameter"](bottom=bottoms, top=tops)
            if version == 1:
                outer.name = draw(names)
                outer.type = draw(st.integers(0, 39))
                payload = draw(interleaved([[outer.SerializeToString()], blobs]))
            else:
                kinds = [b"conv", b"pool", b"padding", b"padding", b"relu", b"unheard of"]
                inner = MESSAGES["V0LayerParameter"](
                    name=draw(names), type=draw(st.sampled_from(kinds))
                ).SerializeToString()
                nested = draw(interleaved([[inner], blobs]))
                split = draw(st.sampled_from([None, len(inner)]))
                parts = [nested] if split is None or blobs else [nested[:split], nested[split:]]
                nested = b"".join(draw(delimited(1, part)) for part in parts)
                payload = nested + outer.SerializeToString()
        net.append(draw(delimited(number, payload)))
    return b"".join(net)
