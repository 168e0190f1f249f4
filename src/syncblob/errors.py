"""The exceptions and warnings of syncblob."""


class SyncblobError(Exception):
    """Base class of syncblob's own errors."""


class NoDeviceError(SyncblobError, RuntimeError):
    """A required accelerator is not available."""


class DeviceMismatchError(SyncblobError, ValueError):
    """An array that cannot move is on another accelerator than the one that has to use it."""


class TransferGuardError(SyncblobError, RuntimeError):
    """A guard forbids a transfer that an access needs.

    The message has the limit, the access and its line; `allowed` is the limit, for example ``"no
    transfers allowed here"``.
    """

    def __init__(self, message: str, allowed: str = "") -> None:
        super().__init__(message)
        self.allowed = allowed


class DeviceGuardError(SyncblobError, RuntimeError):
    """A guard forbids an operation on this device."""


class ModelFileError(SyncblobError, ValueError):
    """A file is invalid, damaged or of another type.

    Parameters
    ----------
    message
        What was expected, what was found, and the likely cause.
    path
        The file, if the bytes came from one.
    offset
        Byte offset of the error from the start of the file.
    layer
        Name of the layer being read, if known.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        layer: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.offset = offset
        self.layer = layer

    def __str__(self) -> str:
        """Return the message, preceded by the file, the layer and the byte."""
        where = [] if self.path is None else [self.path]
        if self.layer is not None:
            where.append(f"layer {self.layer!r}")
        if self.offset is not None:
            where.append(f"byte {self.offset}")
        return f"{', '.join(where)}: {self.message}" if where else self.message


class StaleAliasWarning(UserWarning):
    """A write will make a writable alias stale.

    It is emitted before anything changes. ``warnings.simplefilter("error", StaleAliasWarning)``
    turns it into an error.
    """


class ConstWriteWarning(UserWarning):
    """A const export was written. Checked only inside `verified_const`."""
