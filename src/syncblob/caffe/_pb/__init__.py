"""Code that protoc generated from ``proto/caffe.proto``; ``proto/generate.py`` makes it anew."""
