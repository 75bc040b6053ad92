"""What a cluster's processes tell its supervisor, a byte each."""

FLOWS = b"f"  # an acknowledgement came through
GUARDED = b"g"  # the sentinel goes round
BUSY = b"b"  # so it does, and every worker is in a job that may still take its time
