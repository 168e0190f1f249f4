"""Files of models, Blobs and solver states, in Caffe's two formats."""
