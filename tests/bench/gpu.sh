#!/usr/bin/env bash
# The engine's rows of docs/performance.md on a GPU: random weights of Llama-3.1-8B's shapes in bfloat16, 16 GiB, made here
# and removed at the end. Nothing is downloaded.
set -euo pipefail
readonly REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROWS=plain_over_sdpa,record_over_plain,record_vs_hooks,record_vs_hooks_1200,record_speedup_mmlu
readonly MORE=ablate_speedup,ablate_speedup_1200,ablate_speedup_mmlu,generate_speedup,sharing_worst_case

usage() {
  cat <<'HELP'
usage: tests/bench/gpu.sh [--peers VENV] [--reference DIR] [--json FILE] [--data FOLDER] [--layers N] [--help]

Measures on one GPU what run.sh measures on the CPU, as far as it concerns the engine, and is stopped after 5 minutes.
Options are those of run.sh. --layers makes the model smaller; the table is for 32.

Needs a GPU, the CUDA build (deploy/setup.sh takes it where nvidia-smi answers), the demo model for its tokenizer, and
17 GiB in $TMPDIR.

Example:
  tests/bench/gpu.sh --peers ~/peers --json gpu.json
HELP
}

LAYERS=32
OPTIONS=()
while (($# > 0)); do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --layers) LAYERS="${2:?--layers needs a number}"; shift 2 ;;
    --peers | --reference | --json | --data) OPTIONS+=("$1" "${2:?$1 needs a value}"); shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu: no GPU here (nvidia-smi does not answer)" >&2
  exit 2
fi

work="$(mktemp -d "${TMPDIR:-/tmp}/headcount-gpu.XXXXXX")"
trap 'rm -rf "$work"' EXIT
echo "making a model of $LAYERS layers in $work" >&2
"$("$REPO/deploy/setup.sh" --print-prefix)/venv/bin/python" "$REPO/tests/bench/random_model.py" "$work/llama-8b-random" \
  --layers "$LAYERS" --tokenizer "${HEADCOUNT_PREFIX:-$HOME/.cache/headcount}/models/SmolLM2-135M-Instruct"
timeout --foreground 300 "$REPO/tests/bench/run.sh" --quick --device cuda --dtype bfloat16 --threads "$(nproc)" \
  --model "$work/llama-8b-random" --only "$ROWS,$MORE" "${OPTIONS[@]}"
