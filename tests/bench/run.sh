#!/usr/bin/env bash
# Builds the benchmarks in build/release and runs them on the demo model; results are JSON on stdout.
set -euo pipefail
readonly REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

usage() {
  cat <<'HELP'
usage: tests/bench/run.sh [--model FOLDER] [--threads N] [--pairs N] [--help]

Measures, on SmolLM2 (deploy/demo_model.py makes it) unless --model names another folder:
  - what recording all measurements costs over the plain forward pass (600 tokens, float32, CPU): at most 1.3
  - peak resident memory of one worker with one prompt of 1,024 to 8,192 tokens: below 2 GiB at 4,096, linear

Takes about three minutes on 2 idle cores. Exit code 0 when both hold, 1 when one does not.

Example:
  tests/bench/run.sh | tee bench.json
HELP
}

MODEL="${HEADCOUNT_PREFIX:-$HOME/.cache/headcount}/models/SmolLM2-135M-Instruct"
OPTIONS=()
while (($# > 0)); do
  case "$1" in
    --help) usage; exit 0 ;;
    --model) MODEL="${2:?--model needs a folder}"; shift 2 ;;
    --threads | --pairs) OPTIONS+=("$1" "${2:?$1 needs a number}"); shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
if [[ ! -f "$MODEL/config.json" ]]; then
  echo "bench: no model in $MODEL; run deploy/demo_model.py first" >&2
  exit 2
fi

cd "$REPO"
cmake --preset release >&2
cmake --build --preset release --target engine_bench >&2
# Threads that wait must sleep: with other work on the cores, spinning ones cost more than they compute.
OMP_WAIT_POLICY=PASSIVE build/release/bin/engine_bench --model "$MODEL" "${OPTIONS[@]}"
