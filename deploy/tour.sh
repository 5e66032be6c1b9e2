#!/usr/bin/env bash
# Every job kind on two real models and the paper's four tasks, on few documents: the transcript in docs/tour.md is what this
# prints. 40 to 60 minutes on 2 cores; run by hand, never by a test.
#
#   deploy/tour.sh DATA              DATA holds mmlu, piqa, winogrande and gsm8k (deploy/fetch_data.py gets them)
#   deploy/tour.sh DATA > docs/tour.md    the transcript; progress goes to standard error, pictures to docs/images/tour-*.svg
#   deploy/tour.sh --help
#
# State and results lie in run/tour, which is made anew.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:---help} in
  -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac
data=$(cd "$1" && pwd)
for task in mmlu piqa winogrande gsm8k; do
  [ -d "$data/$task" ] || { echo "tour.sh: $data/$task is not there (deploy/fetch_data.py makes it)" >&2; exit 2; }
done

tour=$PWD/run/tour
bin=$PWD/build/release/bin
began=$SECONDS
{
  deploy/setup.sh
  prefix=$(deploy/setup.sh --print-prefix)
  for model in smollm2-135m qwen2.5-coder-0.5b; do "$prefix/venv/bin/python" deploy/demo_model.py --model "$model"; done
} >&2
small=SmolLM2-135M-Instruct
large=Qwen2.5-Coder-0.5B-Instruct

rm -rf "$tour"
mkdir -p "$tour"
setsid "$bin/headcountd" --state-dir "$tour/state" --model-root "${HEADCOUNT_PREFIX:-$HOME/.cache/headcount}/models" \
  --data "mmlu=$data/mmlu" --data "piqa=$data/piqa" --data "winogrande=$data/winogrande" --data "gsm8k=$data/gsm8k" \
  --listen 127.0.0.1:0 --worker-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 >"$tour/headcountd.log" 2>&1 </dev/null &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true' EXIT
for _ in $(seq 100); do
  [ -s "$tour/state/endpoints.json" ] && break
  kill -0 "$server" 2>/dev/null || { cat "$tour/headcountd.log" >&2; exit 1; }
  sleep 0.1
done
HEADCOUNT_SERVER=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["listen"])' "$tour/state/endpoints.json")
export HEADCOUNT_SERVER

say() { printf '\n%s\n' "$*"; }

# Words as a reader would type them.
typed() {
  local word
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_.,:=/@%+-]*) printf " '%s'" "$word" ;;
      *) printf ' %s' "$word" ;;
    esac
  done
  printf '\n'
}

# A command with what it prints.
show() {
  printf '\n```\n$ headcount'
  typed "$@"
  "$bin/headcount" "$@"
  printf '```\n'
}

# What a command prints in colour, as a picture.
picture() {
  local name=$1
  shift
  "$bin/headcount" --color always "$@" | python3 docs/images/terminal_svg.py "headcount $*" >"docs/images/tour-$name.svg"
  printf '\n![headcount %s](images/tour-%s.svg)\n' "$*" "$name"
}

# Submits, waits for the end, and leaves the name in $job.
run() {
  local start=$SECONDS
  printf '\n```\n$ headcount submit'
  typed "$@"
  job=$("$bin/headcount" --json submit "$@" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["name"].rsplit("/", 1)[1])')
  printf '%s\n```\n' "$job"
  echo "tour.sh: $1 job $job" >&2
  "$bin/headcount" watch "$job" >&2
  printf '\nDone in %d:%02d.\n' $(((SECONDS - start) / 60)) $(((SECONDS - start) % 60))
}

cat <<TEXT
# A tour

What \`deploy/tour.sh DATA\` printed on $(nproc) cores, $(date -u +%Y-%m-%d), headcount $("$bin/headcount" --version | cut -d' ' -f2): every job kind,
on two real models and the paper's four tasks. Forty documents a task show how things look; they prove nothing, and the intervals
say so.

## Two models, three tasks, three scores and their controls
TEXT
run sweep --model $small --with-model $large --task mmlu --subtask high_school_geography --limit 40 --with-task piqa \
  --with-task winogrande --scores output_norm_ln,first_token_weight,entropy --fractions .1,.2 \
  --controls random_in_layer,shuffled,static_heads
sweep=$job
show table "$sweep" --score output_norm_ln --no-chart
picture curves table "$sweep" --score output_norm_ln
say "One side closely: the controls say what it is worth to choose these heads, on this sample."
show curves "$sweep-1" --points --cross-fit 4
say "Which heads of the small model are inactive on MMLU."
picture heads heads "$sweep-1" --score output_norm_ln --fraction .15
show inactivity "$sweep-1" --fraction .15

say "## The two models against each other"
run compare --model $small --with-model $large --task piqa --limit 40 --scores output_norm_ln,entropy
show compare "$job"

say "## The largest share within ten points"
run frontier --model $small --task winogrande --limit 40 --scores output_norm_ln --margin 10 --fractions .05,.1,.2
show frontier "$job"

say "## Every head alone"
run knockout --model $small --task piqa --limit 10 --score-job "$sweep-2"
picture knockout knockout "$job"

say "## GSM8K, answered by generating under masks that are decided at every token"
for model in $small $large; do
  run sweep --model $model --task gsm8k --limit 4 --max-new-tokens 64 --scores output_norm_ln --fractions .1,.2
  show curves "$job" --no-chart
done

say "## A prompt closely"
run probe --model $small --prompt 'The capital of France is' --rule 'output_norm_ln<0.7'
show probe "$job"

printf '\nThe whole tour took %d minutes.\n' $(((SECONDS - began + 30) / 60))
