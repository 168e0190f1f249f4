"""Every copy between the sides: what a `Transfer` says, guards that limit them, and the log."""

from syncblob.transfers.copies import EVICTION as EVICTION
from syncblob.transfers.copies import Copying as Copying
from syncblob.transfers.copies import Transfer as Transfer
from syncblob.transfers.copies import count as count
from syncblob.transfers.copies import count_eviction as count_eviction
from syncblob.transfers.copies import followers as followers
from syncblob.transfers.copies import log_generation as log_generation
from syncblob.transfers.copies import open_logs as open_logs
from syncblob.transfers.copies import transfer as transfer
from syncblob.transfers.guards import may_compute_directly as may_compute_directly
from syncblob.transfers.guards import require_device as require_device
from syncblob.transfers.guards import running_guards as running_guards
