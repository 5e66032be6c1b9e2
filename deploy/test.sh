#!/usr/bin/env bash
# Sets everything up and runs every test. The last line is "N passed, N failed, N skipped" over all of it.
#
#   deploy/test.sh          what continuous integration runs: format, layering, all tests, and the sanitizers over what
#                           links neither libtorch nor gRPC
#   deploy/test.sh --full   also AddressSanitizer over everything, both real models, long sweeps, fault runs at full size
#                           and the benchmarks
#   deploy/test.sh --fast   neither sanitizers nor the real model: while working
#   deploy/test.sh -R NAME  only tests whose name matches (of the release build)
#
# Tests that need the shared data folder look for it at $HEADCOUNT_SHARED (default ../shared) and are skipped, loudly,
# where it is absent. HEADCOUNT_JOBS: parallel compile jobs (default: all cores).
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

mode=ci
only=()
while [ $# -gt 0 ]; do
  case $1 in
    --full) mode=full ;;
    --fast) mode=fast ;;
    -R) only=(-R "${2:?-R needs a name}"); shift ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "test.sh: unknown argument $1 (see --help)" >&2; exit 2 ;;
  esac
  shift
done

export HEADCOUNT_SHARED=${HEADCOUNT_SHARED:-$root/../shared}
[ "$mode" = full ] && export HEADCOUNT_FULL=1
jobs=${HEADCOUNT_JOBS:-$(nproc)}
results=$root/build/test-results
rm -rf "$results"
mkdir -p "$results"
started=$SECONDS

step() { printf '\n== %s (after %d s)\n' "$1" $((SECONDS - started)); }

# One named check that is not a ctest entry: passes or fails as a whole.
check() {
  local name=$1
  shift
  if "$@" >"$results/$name.log" 2>&1; then
    echo pass >"$results/$name.check"
    echo "$name: passed"
  else
    echo fail >"$results/$name.check"
    tail -n 40 "$results/$name.log"
    echo "$name: FAILED"
  fi
}

# Runs ctest in one build; results as XML, one file a test program.
run_ctest() {
  local preset=$1
  shift
  mkdir -p "$results/$preset"
  GTEST_OUTPUT="xml:$results/$preset/" HEADCOUNT_RESULTS="$results/$preset" \
    ctest --test-dir "build/$preset" --output-on-failure --output-junit "$results/$preset.ctest.xml" "$@" || true
}

step "set-up and release build"
deploy/setup.sh
prefix=$(deploy/setup.sh --print-prefix)
tools=$prefix/venv/bin

if [ "$mode" != fast ]; then
  step "demo model"
  "$tools/python" deploy/demo_model.py
  [ "$mode" = full ] && "$tools/python" deploy/demo_model.py --model qwen2.5-coder-0.5b
fi

step "format and lint"
mapfile -t sources < <(git ls-files '*.cc' '*.h')
check clang-format "$tools/clang-format" --dry-run -Werror "${sources[@]}"
check ruff-check "$tools/ruff" check .
check ruff-format "$tools/ruff" format --check .

step "tests, release"
[ -d "$HEADCOUNT_SHARED" ] || echo "NOTE: no shared data at $HEADCOUNT_SHARED: tests that need it are skipped"
run_ctest release "${only[@]}"

sanitizers=(asan-light tsan)
[ "$mode" = full ] && sanitizers=(asan tsan)
[ "$mode" = fast ] && sanitizers=()
[ ${#only[@]} -gt 0 ] && sanitizers=()
for preset in "${sanitizers[@]}"; do
  step "tests, $preset"
  cmake --preset "$preset" >"$results/$preset.configure.log"
  cmake --build --preset "$preset" -j "$jobs"
  run_ctest "$preset"
done

if [ "$mode" = full ]; then
  step "benchmarks"
  check bench tests/bench/run.sh
  cat "$results/bench.log"
fi

step "summary"
python3 tests/tools/summary.py "$results"
