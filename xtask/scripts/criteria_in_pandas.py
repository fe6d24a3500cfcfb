"""Learns criteria of a drawn fleet as analysts do, with pandas and numpy: to be timed beside
`cargo run --release -p kelpie-criteria --example speed NODES METRICS SAMPLES`.

usage: python3 xtask/scripts/criteria_in_pandas.py NODES METRICS SAMPLES
"""
import sys
import time

import numpy as np
import pandas as pd

ALPHA = 0.95


def similarity(one, other):
    """Equation 2 of SuperBench, as a share of the largest value."""
    values = np.union1d(one, other)
    f1 = np.searchsorted(one, values, side="right") / len(one)
    f2 = np.searchsorted(other, values, side="right") / len(other)
    most = np.maximum(f1, f2)[:-1]
    apart = np.abs(f1 - f2)[:-1]
    return 1 - np.sum(apart / most * np.diff(values)) / values[-1]


def learn(samples):
    """Algorithm 2, whose end is evaluated again."""
    healthy = list(range(len(samples)))
    while True:
        sums = [sum(similarity(samples[i], samples[j]) for j in healthy) for i in healthy]
        criterion = samples[healthy[int(np.argmax(sums))]]
        now = [i for i in range(len(samples)) if similarity(criterion, samples[i]) > ALPHA]
        if now == healthy:
            return criterion, len(samples) - len(healthy)
        healthy = now


def main():
    nodes, metrics, count = (int(word) for word in sys.argv[1:4])
    random = np.random.default_rng(7)
    typical = random.uniform(10, 400, metrics)
    share = np.where(random.random((metrics, nodes)) < 0.02, random.uniform(0.2, 0.9, (metrics, nodes)), 1.0)
    values = typical[:, None, None] * share[:, :, None] * random.normal(1, 0.01, (metrics, nodes, count))
    index = pd.MultiIndex.from_product([range(metrics), range(nodes), range(count)], names=["metric", "node", "sample"])
    frame = pd.DataFrame({"value": values.ravel()}, index=index)
    begun = time.perf_counter()
    for _, of_metric in frame.groupby("metric"):
        learn([np.sort(of_node["value"].to_numpy()) for _, of_node in of_metric.groupby("node")])
    print(f"{(time.perf_counter() - begun) / metrics:.3f} s a metric")


main()
