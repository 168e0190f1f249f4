"""The protocols through which other array libraries take a Blob, and Blobs take their arrays."""
