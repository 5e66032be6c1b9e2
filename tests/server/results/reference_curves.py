"""Computes a job's curves again, from its downloaded per-sample records alone, and compares.

    reference_curves.py samples.parquet curves.parquet

Independent of the server's code: predictions from log-likelihoods, shares from masks, everything else from those.
Prints the largest difference of each number; the exit code is 1 where one is over 1e-9, or a point is missing.
"""

import sys
from math import comb, nan

import numpy as np
import pyarrow.parquet as pq

BOUND = 1e-9


def documents_of(rows: list[dict]) -> dict[str, dict]:
    """One entry a document: right or wrong, share of heads zeroed, log-likelihood of the gold choice."""
    by_document: dict[str, list[dict]] = {}
    for row in rows:
        by_document.setdefault(row["document"], []).append(row)
    documents = {}
    for name, samples in by_document.items():
        lls = np.array([x for sample in samples for x in sample["log_likelihoods"]], dtype=np.float64)
        gold = samples[0]["gold"]
        finite = all(sample["finite"] for sample in samples) and bool(np.isfinite(lls).all())
        if samples[0]["answers"]:  # a generated text: judged by the task's first metric
            documents[name] = {
                "subtask": samples[0]["subtask"],
                "finite": samples[0]["finite"],
                "correct": float(samples[0]["finite"] and samples[0]["answers_correct"][0]),
                "correct_norm": 0.0,
                "gold": nan,
                "share": samples[0]["share_zeroed"],  # mean over steps, whose masks are not kept
            }
            continue
        norm = lls / np.array(samples[0]["choice_lengths"]) if finite else lls
        documents[name] = {
            "subtask": samples[0]["subtask"],
            "finite": finite,
            "correct": float(finite and int(np.argmax(lls)) == gold),
            "correct_norm": float(finite and int(np.argmax(norm)) == gold),
            "gold": lls[gold] if finite and gold >= 0 else nan,
            "share": float(np.mean([sum(byte.bit_count() for byte in s["mask"]) / s["heads"] for s in samples])),
        }
    return documents


def standard_error(correct: np.ndarray, subtasks: np.ndarray) -> float:
    """lm-evaluation-harness's: of the mean, pooled over subtasks where there are several."""
    names = np.unique(subtasks)
    if len(names) == 1:
        return float(correct.std(ddof=1) / np.sqrt(len(correct))) if len(correct) > 1 else nan
    n, total = len(correct), 0.0
    for name in names:
        part = correct[subtasks == name]
        if len(part) > 1:
            total += (len(part) - 1) * part.var(ddof=1)
    return float(np.sqrt(total / (n - len(names)) / n)) if n > len(names) else nan


def clustered(differences: np.ndarray, subtasks: np.ndarray) -> float:
    """Standard error of the mean difference, clustered by subtask."""
    names = np.unique(subtasks)
    if len(names) == 1:
        return float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else nan
    sums = [(differences[subtasks == name] - differences.mean()).sum() for name in names]
    return float(np.sqrt(len(names) / (len(names) - 1) * np.square(sums).sum()) / len(differences))


def mcnemar(to_wrong: int, to_right: int) -> float:
    n, few = to_wrong + to_right, min(to_wrong, to_right)
    return min(1.0, float(2 * sum(comb(n, k) for k in range(few + 1)) / 2**n))


def smallest_margin(differences: np.ndarray, subtasks: np.ndarray) -> float:
    """Half of Bonett and Price's interval for equal flips, wider by the root of the design effect."""
    n = len(differences)
    half = 1.959963984540054 * np.sqrt(np.abs(differences).sum() + 2) / (n + 2)
    iid = differences.std(ddof=1) / np.sqrt(n) if n > 1 else nan
    return float(min(1.0, half * max(1.0, clustered(differences, subtasks) / iid if iid > 0 else 1.0)))


def point_of(documents: dict[str, dict], baseline: dict[str, dict]) -> dict[str, float]:
    def column(key: str, source: dict[str, dict] = documents, names: list[str] | None = None) -> np.ndarray:
        return np.array([source[name][key] for name in (names or source)])

    both = [name for name in documents if name in baseline]
    differences = column("correct", names=both) - column("correct", baseline, both)
    change = column("gold", names=both) - column("gold", baseline, both)
    change = change[np.isfinite(change)]
    finite = column("finite").astype(bool)
    to_wrong, to_right = int((differences < 0).sum()), int((differences > 0).sum())
    return {
        "documents": len(documents),
        "share_zeroed": column("share").mean(),
        "accuracy": column("correct").mean(),
        "accuracy_norm": column("correct_norm").mean(),
        "accuracy_finite": column("correct")[finite].mean() if finite.any() else nan,
        "non_finite_documents": int((~finite).sum()),
        "standard_error": standard_error(column("correct"), column("subtask")),
        "difference": differences.mean(),
        "difference_standard_error": clustered(differences, column("subtask", names=both)),
        "difference_standard_error_iid": differences.std(ddof=1) / np.sqrt(len(both)) if len(both) > 1 else nan,
        "mcnemar_p": mcnemar(to_wrong, to_right),
        "flips_to_wrong": to_wrong,
        "flips_to_right": to_right,
        "gold_log_likelihood_change": change.mean() if len(change) else nan,
        "smallest_margin": smallest_margin(differences, column("subtask", names=both)),
    }


def area(x: np.ndarray, y: np.ndarray, limit: float) -> float:
    """Trapezoid area up to the limit over the range; not defined beyond the curve's end."""
    if len(x) < 2 or not x[0] < limit <= x[-1]:
        return nan
    inside = x < limit
    xs = np.append(x[inside], limit)
    ys = np.append(y[inside], np.interp(limit, x, y))
    return float(((xs[1:] - xs[:-1]) * (ys[1:] + ys[:-1])).sum() / 2 / (limit - x[0]))


def within(x: np.ndarray, y: np.ndarray, floor: float) -> tuple[float, bool]:
    """The largest x at which the polyline is at least the floor, and whether that is its end."""
    if y[0] < floor:
        return 0.0, False
    if y[-1] >= floor:
        return float(x[-1]), True
    last = max(i for i in range(len(x)) if y[i] >= floor)
    return float(x[last] + (y[last] - floor) / (y[last] - y[last + 1]) * (x[last + 1] - x[last])), False


def curve_of(points: list[dict], margin: float, base_accuracy: float) -> dict[str, float]:
    x = np.array([100 * point["share_zeroed"] for point in points])
    y = np.array([100 * point["accuracy"] for point in points])
    order = np.argsort(x, kind="stable")
    x, y = x[order], y[order]
    drawn = len(x) > 1
    largest, at_least = within(x, y, 100 * base_accuracy - margin) if drawn else (nan, False)
    return {
        "auc": area(x, y, x[-1]),
        "auc_10": area(x, y, 10),
        "largest_share": largest / 100,
        "at_least": at_least,
        "x": x,
        "y": y,
    }


def main(samples_path: str, curves_path: str) -> int:
    rows = pq.read_table(samples_path).to_pylist()
    published = pq.read_table(curves_path).to_pylist()
    bits = max(8 * len(row["mask"]) for row in rows)
    shared = [row for row in rows if row["share_zeroed"] > 0 and not row["answers"]]
    # A mask is padded to whole bytes: the number of heads follows from any row that says both.
    heads = round(sum(b.bit_count() for b in shared[0]["mask"]) / shared[0]["share_zeroed"]) if shared else bits
    for row in rows:
        row["heads"] = heads or 1
    by_rule: dict[int, list[dict]] = {}
    for row in rows:
        by_rule.setdefault(row["rule"], []).append(row)
    outcomes = {rule: documents_of(of_rule) for rule, of_rule in by_rule.items()}
    baseline = outcomes[-1]
    points = {rule: point_of(documents, baseline) for rule, documents in outcomes.items()}

    worst: dict[str, float] = {}

    def compare(key: str, mine: float, theirs: float) -> None:
        same = mine == theirs or (np.isnan(mine) and np.isnan(theirs))
        worst[key] = max(worst.get(key, 0.0), 0.0 if same else float(np.nan_to_num(abs(mine - theirs), nan=np.inf)))

    by_curve: dict[str, list[dict]] = {}
    for row in published:
        by_curve.setdefault(row["curve"], []).append(row)
        for key, value in points[row["rule"]].items():
            if key != "accuracy_norm" or not np.isnan(row[key]):  # a task need not have it
                compare(key, float(value), float(row[key]))

    curves = {}
    for name, of_curve in by_curve.items():
        used = [
            points[row["rule"]]
            for row in of_curve
            if row["complete"] and points[row["rule"]]["non_finite_documents"] <= 0.01 * row["documents"]
        ]
        curves[name] = curve_of(used, of_curve[0]["margin_points"], points[-1]["accuracy"])
    ends = [curve["x"][-1] for curve in curves.values() if curve["x"][-1] > curve["x"][0]]
    for name, curve in curves.items():
        theirs = by_curve[name][0]
        for key in ("auc", "auc_10", "largest_share", "at_least"):
            compare(key, float(curve[key]), float(theirs[key]))
        compare("auc_common", area(curve["x"], curve["y"], min(ends)) if ends else nan, theirs["auc_common"])

    missing = set(points) - {row["rule"] for row in published}
    for key, difference in sorted(worst.items()):
        print(f"{key:32} {difference:.3g}")
    largest = max(worst.values())
    print(f"{len(points)} rules, {len(curves)} curves, {len(baseline)} documents; largest difference {largest:.3g}")
    if missing:
        print(f"rules without a point: {sorted(missing)}")
    return 1 if missing or not largest <= BOUND else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
