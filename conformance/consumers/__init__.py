"""Libraries that compute with any array API, tried unmodified on Blobs: see README.md here."""
