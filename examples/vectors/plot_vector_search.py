"""
Vector search that agrees with a few labels
===========================================

A vector database finds what is near. Two hundred labels say what near should mean: a linear map of
the vectors, which FAISS holds together with its index.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from ejop import EmbeddingAdapter
from ejop.export import costs, to_faiss

X, y = load_digits(return_X_y=True)
X = normalize(X)  # embeddings are compared by their cosine
order = np.random.default_rng(0).permutation(len(X))
labelled, stored, asked = order[:200], order[200:1500], order[1500:]

# %%
# The map is learned from the labelled rows; the stored ones have no labels, but say where rows are.
# Held-out labels choose how much of the Euclidean distance stays.

adapter = EmbeddingAdapter(random_state=0).fit(X[labelled], y[labelled], unlabelled=X[stored])
print(f"share that stays Euclidean: {adapter.shrinkage_:g}")

# %%
# A FAISS index takes the vectors as they are and maps them itself. Of the ten nearest stored rows,
# how many are of the class of the row that asks?


def agreeing(index):
    """Share of the ten nearest that are of the class of the row that asks."""
    _, near = index.search(X[asked].astype(np.float32), 10)
    return float((y[stored][near] == y[asked][:, None]).mean())


plain = to_faiss(EmbeddingAdapter(1.0).fit(X[labelled], y[labelled]), rows=X[stored])
ranks = [4, 8, 16, 32, 64]
learned = [
    agreeing(to_faiss(adapter, rows=X[stored], n_components=rank, float16=True)) for rank in ranks
]
print(f"cosine: {agreeing(plain):.1%}, learned: {learned[-1]:.1%}")

# %%
# Fewer directions take fewer bytes. The first ones are those along which mapped rows differ most.

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(ranks, learned, "o-", label="learned, float16")
left.axhline(agreeing(plain), color="0.5", ls="--", label="cosine, 64 numbers")
left.set(xlabel="numbers of a stored vector", ylabel="neighbours of the same class")
found = costs(adapter, X[stored], ranks)
for kind, line in {"float32": "o-", "float16": "s--"}.items():
    some = [cost for cost in found if cost.dtype == kind]
    right.plot([cost.bytes for cost in some], [cost.recall for cost in some], line, label=kind)
right.set(xlabel="bytes of a stored vector", ylabel="share of the ten nearest kept")
for ax in (left, right):
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.legend()
plt.show()
