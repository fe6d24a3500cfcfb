"""Fits Cox-Time (Kvamme et al. 2019), the model of SuperBench, to drawn fleets, and judges it as
`cargo run --release -p kelpie-selection --example fleet models` judges others. Needs jax and optax.

usage: python3 xtask/scripts/cox_time.py FOLDER, which `fleet samples` wrote
"""
import glob
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

TRACE, SOON = 2400.0, 24.0
WIDTH, BATCH, EPOCHS, PATIENCE = 32, 512, 60, 8


def network(weights, rows):
    for matrix, bias in weights[:-1]:
        rows = jax.nn.relu(rows @ matrix + bias)
    return (rows @ weights[-1][0] + weights[-1][1])[..., 0]


def start(inputs, random):
    sizes = [inputs, WIDTH, WIDTH, 1]
    return [(jnp.array(random.normal(0, np.sqrt(2 / one), (one, other))), jnp.zeros(other))
            for one, other in zip(sizes, sizes[1:])]


def loss(weights, cases, controls):
    """log(1 + exp(g(control) - g(case))), each with the time of the case; as pycox, with one control."""
    return jnp.mean(jax.nn.softplus(network(weights, controls) - network(weights, cases)))


class CoxTime:
    def __init__(self, hours, incident, status, horizon, random):
        incident = incident & (hours <= horizon)
        self.hours, self.incident = np.minimum(hours, horizon), incident
        self.mean, self.spread = status.mean(0), status.std(0) + 1e-9
        logs = np.log1p(self.hours)
        self.time = logs.mean(), logs.std() + 1e-9
        order = np.argsort(self.hours)
        self.hours, self.incident = self.hours[order], incident[order]
        self.status = (status[order] - self.mean) / self.spread
        cases = np.flatnonzero(self.incident)
        held = random.random(len(cases)) < 0.2
        pairs = lambda some: self.pairs(some, random)
        checked = pairs(np.tile(cases[held], 4))
        weights = start(status.shape[1] + 1, random)
        optimiser = optax.adam(2e-3)
        state = optimiser.init(weights)

        @jax.jit
        def step(weights, state, one, other):
            slope = jax.grad(loss)(weights, one, other)
            change, state = optimiser.update(slope, state)
            return optax.apply_updates(weights, change), state

        judge = jax.jit(loss)
        best, self.weights, since = np.inf, weights, 0
        for _ in range(EPOCHS):
            fitted = random.permutation(cases[~held])
            for begin in range(0, len(fitted), BATCH):
                weights, state = step(weights, state, *pairs(fitted[begin:begin + BATCH]))
            now = float(judge(weights, *checked))
            best, self.weights, since = (now, weights, 0) if now < best else (best, self.weights, since + 1)
            if since > PATIENCE:
                break
        self.fleet(random)

    def rows(self, status, time):
        logs = (np.log1p(time) - self.time[0]) / self.time[1]
        return np.concatenate([status, np.broadcast_to(logs, status.shape[:1])[:, None]], 1).astype(np.float32)

    def pairs(self, cases, random):
        first = np.searchsorted(self.hours, self.hours[cases])
        control = (first + random.random(len(cases)) * (len(self.hours) - first)).astype(int)
        return self.rows(self.status[cases], self.hours[cases]), self.rows(self.status[control], self.hours[cases])

    def fleet(self, random):
        """How much the hazard of the fleet rises, put together into 100 times."""
        events = self.hours[self.incident]
        edges = np.unique(np.quantile(events, np.linspace(0, 1, 101)))
        self.times, self.rises = [], []
        for low, high in zip(np.r_[0, edges[:-1]], edges):
            count = np.sum((events > low) & (events <= high))
            middle = events[(events > low) & (events <= high)]
            if count == 0:
                continue
            at = np.median(middle)
            risk = np.arange(np.searchsorted(self.hours, at), len(self.hours))
            some = random.choice(risk, min(3000, len(risk)), replace=False)
            total = np.exp(np.asarray(network(self.weights, self.rows(self.status[some], at)))).mean() * len(risk)
            self.times.append(at)
            self.rises.append(count / total)

    def hazards(self, status):
        """The hazard that gathers until each time."""
        standard = (status - self.mean) / self.spread
        factor = [np.exp(np.asarray(network(self.weights, self.rows(standard, at)))) for at in self.times]
        return np.cumsum(np.array(self.rises)[:, None] * np.array(factor), 0)


def score(random, fit, judge):
    hours, incident, status = fit[:, 0], fit[:, 1] > 0, fit[:, 2:]
    kept = hours > 0
    model = CoxTime(hours[kept], incident[kept], status[kept], TRACE, random)
    # The truth is capped by the trace in the file.
    truth, known = judge[:, 0], judge[:, 2:]
    hazards, times = model.hazards(known), np.r_[0, model.times, TRACE]
    hazards = np.r_[np.zeros((1, len(known))), hazards, hazards[-1:] * TRACE / model.times[-1]]
    survive = np.exp(-hazards)
    mean = np.sum((survive[1:] + survive[:-1]) / 2 * np.diff(times)[:, None], 0)
    mean += survive[-1] * TRACE / np.maximum(hazards[-1], 1e-9)
    passed = hazards >= np.log(2)
    median = np.where(passed.any(0), times[np.argmax(passed, 0)], TRACE)
    accuracy = [1 - np.mean(np.abs(np.minimum(one, TRACE) - truth)) / TRACE for one in (mean, median)]
    soon = CoxTime(hours[kept], incident[kept], status[kept], SOON, random).hazards(known)[-1]
    happened = (truth <= SOON) & (judge[:, 1] > 0)
    lost = np.where(happened, -np.log(-np.expm1(-np.maximum(soon, 1e-9))), soon)
    some = np.arange(0, len(truth), max(1, len(truth) // 1500))
    apart = np.sign(truth[some][:, None] - truth[some]) * np.sign(mean[some][:, None] - mean[some])
    differ = truth[some][:, None] != truth[some]
    return [*accuracy, np.mean((apart[differ] + 1) / 2), np.mean(lost)]


def main():
    for path in sorted(glob.glob(f"{sys.argv[1]}/*-fit.csv")):
        fit, judge = (np.loadtxt(path.replace("fit.csv", name), delimiter=",") for name in ("fit.csv", "judge.csv"))
        row = score(np.random.default_rng(0), fit, judge)
        print(path, " | ".join(f"{value:.4f}" for value in row), flush=True)


main()
