"""Caffe's messages: their wire format, their fields, and the Blobs within them."""
