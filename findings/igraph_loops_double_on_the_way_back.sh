#!/usr/bin/env bash
# Graph.Adjacency of igraph 1.0 does not read what Graph.get_adjacency writes, if an undirected graph has loops: edges
# from a vertex to itself. get_adjacency counts a loop twice on the diagonal, and Adjacency makes an edge of each
# count, so loops double on the way back. The sparse pair of functions gives the graph back. Adjacency documents that
# loops=True is the same as loops="once", and yet it is loops="twice" for lists and arrays, and halves the loops or
# refuses odd numbers; for a sparse matrix, and by default, it is "once". There is no warning. One would have expected
# the same graph back, and the same graph from equal matrices. It matters since degrees and modularity change. Pass
# loops="twice" to read the matrix of get_adjacency.
#
# Seen: a graph with two loops and one other edge comes back with 4 loops, and by its sparse matrix with 2. The matrix
# with 2 on its diagonal has 2 loops by default, 1 with loops=True, and 2 with loops=True if it is sparse.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install -q --disable-pip-version-check numpy==2.4.6 scipy==1.17.1 igraph==1.0.0
cat > "$folder/program.py" <<'END'
import warnings

import igraph
import numpy as np
import scipy.sparse

warnings.simplefilter("error")  # so that a warning would be seen


def loops(graph):
    return sum(graph.is_loop())


def read(matrix, **options):
    return loops(igraph.Graph.Adjacency(matrix, mode="undirected", **options))


graph = igraph.Graph([(0, 0), (0, 0), (0, 1)])
dense = graph.get_adjacency().data
print(dense, loops(graph), read(dense), read(graph.get_adjacency_sparse()))
assert loops(graph) == 2 and dense == [[4, 1], [1, 0]]
assert read(dense) == read(np.array(dense)) == 4
assert read(dense, loops="twice") == read(graph.get_adjacency_sparse()) == 2

matrix = np.array([[2, 1], [1, 0]])
sparse = scipy.sparse.csr_matrix(matrix)
for option in ({}, {"loops": "once"}, {"loops": True}, {"loops": "twice"}):
    print(option, read(matrix, **option), read(sparse, **option))
assert read(matrix) == read(matrix, loops="once") == 2
assert read(sparse) == read(sparse, loops="once") == read(sparse, loops=True) == 2
assert read(matrix, loops=True) == read(matrix.tolist(), loops=True) == read(matrix, loops="twice") == 1
try:
    read(np.array([[1, 1], [1, 0]]), loops=True)
except igraph.InternalError as error:
    assert "Odd number found in the diagonal" in str(error)
else:
    raise AssertionError("an odd number is not refused")
END
"$folder/venv/bin/python" "$folder/program.py"
