"""Caffe nets, run and trained with PyTorch on the Blobs of a model."""

from caffe_nets.layers import LAYERS, Node
from caffe_nets.net import Net, leave_out_mismatches
from caffe_nets.solver import Solver, learning_rate

__all__ = ["LAYERS", "Net", "Node", "Solver", "learning_rate", "leave_out_mismatches"]
