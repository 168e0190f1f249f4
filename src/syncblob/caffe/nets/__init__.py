"""Layers and nets: their settings, shapes, fillers and trained weights."""
