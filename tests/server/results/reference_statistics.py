"""Makes tests/golden/statistics/reference.json: fixed data, and what scipy and statsmodels say about them.

    python3 -m venv V && V/bin/pip install numpy scipy statsmodels
    V/bin/python tests/server/results/reference_statistics.py tests/golden/statistics/reference.json

Users do not need it: reference_statistics_test.cc compares the service's statistics with the file. The bootstrap here
is written anew with numpy's random numbers and 20,000 draws, so the two agree within Monte Carlo error only.
"""

import json
import sys
from pathlib import Path

import numpy as np
import scipy
import statsmodels
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

DRAWS = 20_000
MARGIN = 4.0
METRICS = ["auc", "auc_common", "auc_10", "largest_share"]


def paired(values: np.ndarray, clusters: np.ndarray) -> dict:
    model = sm.OLS(values, np.ones(len(values)))
    clustered = model.fit(cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": True}, use_t=True)
    iid = stats.ttest_1samp(values, 0)
    low, high = clustered.conf_int()[0]
    return {
        "values": values.tolist(),
        "clusters": clusters.tolist(),
        "mean": float(values.mean()),
        "standard_error": float(clustered.bse[0]),
        "low": float(low),
        "high": float(high),
        "p": float(clustered.pvalues[0]),
        "iid_standard_error": float(stats.sem(values)),
        "iid_p": float(iid.pvalue),
        "iid_low": float(iid.confidence_interval().low),
        "iid_high": float(iid.confidence_interval().high),
    }


def area(x: np.ndarray, y: np.ndarray, limit: float) -> float:
    """Trapezoid area up to the limit over the range; NaN where the curve ends before it."""
    if len(x) < 2 or x[-1] < limit or x[0] >= limit:
        return float("nan")
    inside = np.append(x[x < limit], limit)
    return float(np.trapezoid(np.interp(inside, x, y), inside) / (limit - x[0]))


def largest_share(x: np.ndarray, y: np.ndarray, floor: float) -> float:
    if y[0] < floor:
        return 0.0
    if y[-1] >= floor:
        return float(x[-1])
    last = max(i for i in range(len(x)) if y[i] >= floor)
    return float(x[last] + (floor - y[last]) / (y[last + 1] - y[last]) * (x[last + 1] - x[last]))


def summarise(base: float, shares: np.ndarray, accuracies: np.ndarray, curves: list[list[int]]) -> np.ndarray:
    lines = []
    for rules in curves:
        x = np.append(0.0, 100 * shares[rules])
        y = 100 * np.append(base, accuracies[rules])
        order = np.argsort(x, kind="stable")
        lines.append((x[order], y[order]))
    limit = min(x[-1] for x, _ in lines)
    floor = 100 * base - MARGIN
    return np.array(
        [[area(x, y, x[-1]), area(x, y, limit), area(x, y, 10), largest_share(x, y, floor)] for x, y in lines]
    )


def bootstrap(random: np.random.Generator) -> dict:
    documents, rules = 150, 6
    base = (random.random(documents) < 0.7).astype(int)
    loss = np.array([0.02, 0.06, 0.2, 0.05, 0.15, 0.3])
    correct = np.array([np.where(random.random(documents) < p, random.random(documents) < 0.3, base) for p in loss])
    centres = np.array([0.05, 0.1, 0.2, 0.06, 0.11, 0.24])
    # Few digits: the service keeps shares in single precision.
    share = np.round(np.clip(random.normal(centres[:, None], 0.02, (rules, documents)), 0, 1), 4)
    curves = [[0, 1, 2], [3, 4, 5]]
    whole = summarise(base.mean(), share.mean(axis=1), correct.mean(axis=1), curves)
    draws = np.empty((DRAWS, len(curves), len(METRICS)))
    for i in range(DRAWS):
        at = random.integers(0, documents, documents)
        draws[i] = summarise(base[at].mean(), share[:, at].mean(axis=1), correct[:, at].mean(axis=1), curves)
    difference = draws[:, 0] - draws[:, 1]
    ranks = np.where(difference > 0, 1.0, np.where(difference < 0, 2.0, 1.5))

    def bounds(values: np.ndarray) -> dict:
        low, high = np.nanquantile(values, [0.025, 0.975])
        return {"low": float(low), "high": float(high), "deviation": float(np.nanstd(values))}

    return {
        "baseline": base.tolist(),
        "correct": correct.astype(int).tolist(),
        "share": share.tolist(),
        "curves": curves,
        "margin_points": MARGIN,
        "metrics": METRICS,
        "whole": whole.tolist(),
        "bounds": [[bounds(draws[:, c, m]) for m in range(len(METRICS))] for c in range(len(curves))],
        "difference": [bounds(difference[:, m]) for m in range(len(METRICS))],
        "rank_of_first": [bounds(ranks[:, m]) for m in range(len(METRICS))],
    }


def distances(random: np.random.Generator) -> list[dict]:
    pairs = [
        (random.normal(0, 1, 40), random.normal(0.3, 1.5, 70)),
        (np.round(random.normal(0, 1, 50), 1), np.round(random.normal(0, 1, 50), 1)),  # ties
        (np.array([1.0]), np.array([2.5, 2.5, 3.0])),
        (np.array([0.0, 1.0]), np.array([0.0, 1.0])),
    ]
    rows = []
    for a, b in pairs:
        a, b = np.sort(a.astype(np.float32)).astype(float), np.sort(b.astype(np.float32)).astype(float)
        rows.append(
            {
                "a": a.tolist(),
                "b": b.tolist(),
                "wasserstein": float(stats.wasserstein_distance(a, b)),
                "kolmogorov_smirnov": float(stats.ks_2samp(a, b).statistic),
            }
        )
    return rows


def ranks(random: np.random.Generator) -> list[dict]:
    rows = []
    for decimals in (6, 1):  # 1: with ties
        a = np.round(random.normal(0, 1, 60), decimals)
        b = np.round(0.5 * a + random.normal(0, 1, 60), decimals)
        positive = (b + random.normal(0, 1, 60) > 0).astype(int)
        u = stats.mannwhitneyu(a[positive == 1], a[positive == 0]).statistic
        top_a, top_b = set(np.argsort(-a, kind="stable")[:5]), set(np.argsort(-b, kind="stable")[:5])
        rows.append(
            {
                "a": a.tolist(),
                "b": b.tolist(),
                "positive": positive.tolist(),
                "ranks": stats.rankdata(a).tolist(),
                "spearman": float(stats.spearmanr(a, b).statistic),
                "auroc": float(u / (positive.sum() * (60 - positive.sum()))),
                "top_5_overlap": len(top_a & top_b) / len(top_a | top_b),
            }
        )
    return rows


def paper() -> list[dict]:
    """How far every two of the published models agree on the order of the scores, by the paper's area."""
    models = json.loads(Path("server/paper/published.json").read_text())["models"]
    areas = {}
    for name, model in models.items():
        row = {}
        for alias, points in model["curves"].items():
            x, y = np.array(points)[:, 1:].T
            order = np.argsort(x, kind="stable")  # some points share their x
            row[alias] = float(np.trapezoid(y[order], x[order]) / (x.max() - x.min()))
        areas[name] = row
    names = list(areas)
    rows = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            scores = list(areas[a])
            of_a, of_b = np.array([areas[a][s] for s in scores]), np.array([areas[b][s] for s in scores])
            top_a, top_b = set(np.argsort(-of_a)[:5]), set(np.argsort(-of_b)[:5])
            overlap = len(top_a & top_b) / len(top_a | top_b)
            rows.append({"a": a, "b": b, "spearman": float(stats.spearmanr(of_a, of_b).statistic), "top_5": overlap})
    return rows


def main() -> None:
    random = np.random.default_rng(20250404)
    clusters = random.integers(0, 9, 240)
    effect = random.normal(0, 0.15, 9)[clusters]
    flips = np.where(random.random(240) < 0.2 + effect, np.where(random.random(240) < 0.75, -1, 1), 0).astype(float)
    gold = random.normal(-0.1, 0.4, 240) + effect
    p_values = np.append(random.random(8) ** 3, [0.01, 0.01, 1.0])
    reference = {
        "made_with": {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__},
        "paired": [paired(flips, clusters), paired(gold, clusters), paired(gold[:12], clusters[:12] % 2)],
        "mcnemar": [
            {"to_wrong": b, "to_right": c, "p": float(mcnemar([[50, b], [c, 50]], exact=True).pvalue)}
            for b, c in [(0, 4), (3, 3), (5, 17), (40, 22), (130, 101)]
        ],
        "holm": {"p": p_values.tolist(), "adjusted": multipletests(p_values, method="holm")[1].tolist()},
        "student": [
            {"t": t, "freedom": f, "p": float(2 * stats.t.sf(t, f)), "critical": float(stats.t.ppf(0.975, f))}
            for t, f in [(0.3, 1), (2.5, 2), (1.0, 8), (4.0, 56), (1.96, 14041), (9.0, 300)]
        ],
        "ranks": ranks(random),
        "distances": distances(random),
        "bootstrap": bootstrap(random),
        "paper": paper(),
    }
    text = json.dumps(reference, allow_nan=False, separators=(",", ":"))
    Path(sys.argv[1]).write_text(text.replace(',"', ',\n"') + "\n")


if __name__ == "__main__":
    main()
