#!/usr/bin/env bash
# Builds the benchmarks and the service in build/release and measures the table of docs/performance.md (run.py).
set -euo pipefail
readonly REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

usage() {
  cat <<'HELP'
usage: tests/bench/run.sh [--quick] [--peers VENV] [--reference DIR] [--json FILE] [--compare] [--only KEY,...]
                          [--clock wall|cpu] [--model FOLDER] [--data FOLDER] [--threads N] [--help]

Measures how fast headcount is, every number as a ratio of two sides that take turns: ours with and without
instrumentation, ours and transformers, ours and the authors' code. Prints progress on standard error, then a table:
measured, what it must be, its spread, and whether it holds. With everything at hand it takes up to 100 minutes.

  --quick          leaves out whole sweeps and the slowest passes, and times fewer of others: within 15 minutes
  --peers VENV     virtual environment with torch and transformers 4.48.2; without it those rows are skipped
  --reference DIR  checkout of the authors' code (with --peers); without it those rows are skipped
  --json FILE      writes the table as JSON; with --only, rows that FILE has besides stay in it
  --compare        prints what moved against docs/performance.json
  --only KEY,...   measures these rows alone; a wrong key lists them all
  --clock cpu      judges by processor time instead of wall time, for a machine that others use too
  --model FOLDER   another model than the demo's (deploy/demo_model.py makes it)
  --data FOLDER    folder with mmlu/ and piqa/ (default: data/ in $HEADCOUNT_SHARED, else in ../shared)
  --threads N      threads of every side (default 2)
  --device cuda    the engine's rows on a GPU, with --dtype bfloat16 in that type (gpu.sh does both)

Exit code 0 when all that was measured holds, 1 when something does not, 2 for wrong arguments.

Example:
  python3 -m venv ~/peers && ~/peers/bin/pip install torch==2.15.0 transformers==4.48.2
  tests/bench/run.sh --quick --peers ~/peers --json bench.json --compare
HELP
}

for argument in "$@"; do
  if [[ "$argument" == --help || "$argument" == -h ]]; then usage; exit 0; fi
done

cd "$REPO"
cmake --preset release >&2
cmake --build --preset release --target engine_bench headcountd headcount headcount-worker headcount-worker-fake >&2
# As long as a worker's threads spin before they sleep (headcount_worker.cc). For all sides.
export GOMP_SPINCOUNT=1000 PYTHONDONTWRITEBYTECODE=1
exec python3 tests/bench/run.py "$@"
