"""PyTorch's functions with Blobs, and tensors and parameters over Blobs. Its files import torch."""
