#!/usr/bin/env bash
# Brings a Debian 12 machine from nothing to a built headcount: Debian packages, pinned libraries, build. Users,
# deploy/demo.sh and deploy/test.sh run it; CMake calls it with --print-prefix. Safe to repeat and to interrupt: what is
# there is left alone, and a folder of libraries gets its name only once it is whole.
set -euo pipefail
umask 022

readonly REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly MIN_RUST="1.85"  # what the crates of common/hf ask for

usage() {
  cat <<'HELP'
usage: deploy/setup.sh [--no-build] [--print-prefix] [--help]

Installs what headcount needs and builds it (release) into build/release. A second run takes about a second.

  --no-build       stop before building
  --print-prefix   print the folder of the pinned libraries, filled or not, and do nothing else
  --help           this text

Environment:
  HEADCOUNT_PREFIX  where pinned libraries and models are kept, shared by all clones (default ~/.cache/headcount)
  HEADCOUNT_TORCH   cpu or cuda (default: cuda where nvidia-smi answers, else cpu)

Debian packages are installed by apt-get, through sudo unless run as root; an account without sudo gets the list.

Example:
  deploy/setup.sh && build/release/bin/headcount --help
HELP
}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# ---------------------------------------------------------------- where the pinned libraries lie

torch_kind() {
  case "${HEADCOUNT_TORCH:-}" in
    cpu | cuda) echo "$HEADCOUNT_TORCH" ;;
    "") if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then echo cuda; else echo cpu; fi ;;
    *) die "HEADCOUNT_TORCH is '$HEADCOUNT_TORCH'; it must be cpu or cuda" ;;
  esac
}

prefix_root() {
  if [[ -n "${HEADCOUNT_PREFIX:-}" ]]; then
    case "$HEADCOUNT_PREFIX" in
      /*) echo "$HEADCOUNT_PREFIX" ;;
      *) die "HEADCOUNT_PREFIX is '$HEADCOUNT_PREFIX'; it must be an absolute path" ;;
    esac
  else
    [[ -n "${HOME:-}" ]] || die "neither HEADCOUNT_PREFIX nor HOME is set"
    echo "$HOME/.cache/headcount"
  fi
}

prefix() {  # prefix KIND
  local root digest
  root="$(prefix_root)" || return 1  # the message is out; a failure inside $(...) does not end the script by itself
  digest="$({ grep -v '^#' "$REPO/deploy/pins.env"; echo "$1 $(uname -m)"; } | sha256sum)"
  echo "$root/${digest:0:16}"
}

# ---------------------------------------------------------------- Debian packages

readonly PACKAGES=(
  cmake ninja-build ccache g++ pkg-config git ca-certificates
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev libgrpc++-dev libabsl-dev
  prometheus-cpp-dev libsqlite3-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libspdlog-dev
  libssl-dev zlib1g-dev libzstd-dev libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv python3-pip
)

rust_version() {  # rust_version RUSTC -> "1.95.0", nothing when it does not run
  "$1" --version 2>/dev/null | sed -n 's/^rustc \([0-9.]*\).*/\1/p'
}

have_rust() {
  local dir version
  for dir in "" "${HOME:-/nonexistent}/.cargo/bin/" /usr/lib/rust-*/bin/; do
    command -v "${dir}cargo" >/dev/null || continue
    version="$(rust_version "${dir}rustc" || true)"
    [[ -n "$version" ]] || continue
    [[ "$(printf '%s\n%s\n' "$MIN_RUST" "$version" | sort -V | head -n 1)" == "$MIN_RUST" ]] && return 0
  done
  return 1
}

# Debian 12 has a Rust new enough under the name rustc-web; Ubuntu numbers its newer ones.
rust_packages() {
  local suffix
  for suffix in -web "" -1.91 -1.89 -1.88 -1.87 -1.86 -1.85; do
    local version
    version="$(apt-cache show --no-all-versions "rustc$suffix" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)"
    if [[ -n "$version" ]] && dpkg --compare-versions "$version" ge "$MIN_RUST" &&
      apt-cache show --no-all-versions "cargo$suffix" >/dev/null 2>&1; then
      echo "rustc$suffix cargo$suffix"
      return
    fi
  done
  die "no package of rustc >= $MIN_RUST; install Rust from https://rustup.rs and run this again"
}

install_packages() {
  command -v dpkg-query >/dev/null || die "this is no Debian or Ubuntu; install what PACKAGES in $0 names by hand"
  local installed missing=() package rust=no
  installed=" $(dpkg-query -W -f='${db:Status-Status}:${Package} ' 2>/dev/null || true)"
  for package in "${PACKAGES[@]}"; do
    [[ "$installed" == *" installed:$package "* ]] || missing+=("$package")
  done
  have_rust || rust=yes
  if [[ ${#missing[@]} -eq 0 && $rust == no ]]; then
    return
  fi

  local as_root=()
  if [[ $EUID -ne 0 ]]; then
    if ! command -v sudo >/dev/null || { [[ ! -t 0 ]] && ! sudo -n true 2>/dev/null; }; then
      [[ $rust == no ]] || missing+=("rustc-web cargo-web (or any Rust >= $MIN_RUST)")
      die "these packages are missing and neither root nor sudo is at hand; ask for: ${missing[*]}"
    fi
    as_root=(sudo)
  fi
  local apt=(${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -q -o Dpkg::Use-Pty=0)
  say "refreshing the package lists"
  "${apt[@]}" update >/dev/null || die "apt-get update failed (its message is above)"
  if [[ $rust == yes ]]; then
    local names
    names="$(rust_packages)" || exit 1
    missing+=($names)
  fi
  say "installing ${#missing[@]} Debian packages (2 to 5 minutes from nothing): ${missing[*]}"
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get install failed (its message is above)"
  have_rust || die "no rustc >= $MIN_RUST after installing packages; install Rust from https://rustup.rs"
}

# ---------------------------------------------------------------- pinned libraries

# Fetches wheels for the pinned Python, whatever the machine's is, and unpacks them without their dependencies.
unpack_wheels() {  # unpack_wheels PYTHON TARGET REQUIREMENT...
  local python="$1" target="$2" machine abi platforms=() tag
  shift 2
  machine="$(uname -m)"
  abi="cp${WHEEL_PYTHON/./}"
  for tag in manylinux_2_28 manylinux_2_27 manylinux_2_26 manylinux_2_25 manylinux_2_18 manylinux_2_17 manylinux2014; do
    platforms+=(--platform "${tag}_$machine")
  done
  "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --no-warn-script-location \
    --only-binary=:all: --implementation cp --python-version "$WHEEL_PYTHON" --abi "$abi" --abi abi3 --abi none \
    "${platforms[@]}" --target "$target" "$@"
}

fill() {  # fill KIND FOLDER
  local kind="$1" final="$2" part="$2.part" python=/usr/bin/python3
  [[ -x $python ]] || python=python3
  rm -rf "$part"
  mkdir -p "$part"

  say "making the Python environment of the tools"
  "$python" -m venv "$part/venv"
  # shellcheck disable=SC2086  # the pins are lists
  "$part/venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps $TOOLS
  # Scripts of a virtual environment name its folder; it is about to move to its final name.
  grep -rlI --exclude-dir=site-packages -F "$part" "$part/venv" | xargs -r sed -i "s|$part|$final|g"
  local venv_python="$part/venv/bin/python"

  say "fetching the protos of google.rpc"
  unpack_wheels "$venv_python" "$part/wheels" $GOOGLEAPIS
  mkdir -p "$part/googleapis/google/rpc"
  mv "$part"/wheels/google/rpc/*.proto "$part/googleapis/google/rpc/"
  rm -rf "$part/wheels"

  say "fetching Arrow and Parquet (50 MB)"
  unpack_wheels "$venv_python" "$part/wheels" $PYARROW
  mkdir -p "$part/pyarrow"
  mv "$part"/wheels/pyarrow/include "$part"/wheels/pyarrow/lib*.so.* "$part/pyarrow/"
  rm -rf "$part/wheels"

  local libraries="$TORCH_CPU_LIBRARIES"
  if [[ $kind == cuda ]]; then
    libraries+=" $TORCH_CUDA_LIBRARIES"
    say "fetching libtorch with its CUDA libraries (2.5 GB; this takes minutes)"
  else
    say "fetching libtorch for the CPU (550 MB; half a minute on a fast line)"
  fi
  # shellcheck disable=SC2086
  unpack_wheels "$venv_python" "$part/wheels" $TORCH $libraries
  mkdir -p "$part/torch"
  mv "$part"/wheels/torch/include "$part"/wheels/torch/lib "$part/torch/"
  # libtorch looks for these at ../../nvidia from its own folder.
  mv "$part/wheels/nvidia" "$part/nvidia"
  rm -f "$part/torch/lib/libtorch_python.so"
  if [[ $kind == cpu ]]; then
    rm -f "$part"/torch/lib/libtorch_cuda*.so "$part/torch/lib/libtorch_nvshmem.so"
  fi
  rm -rf "$part/wheels"

  mv "$part" "$final"
}

install_libraries() {  # install_libraries KIND
  local folder lock
  folder="$(prefix "$1")"
  [[ -d "$folder" ]] && return
  mkdir -p "$(dirname "$folder")" || die "cannot make $(dirname "$folder"); set HEADCOUNT_PREFIX to a folder you can write"
  # Two clones may set up at once: the second waits and finds the work done.
  exec {lock}>"$folder.lock"
  if ! flock -n "$lock"; then
    say "waiting for another set-up that is filling $folder"
    flock "$lock"
  fi
  if [[ ! -d "$folder" ]]; then
    # shellcheck source=deploy/pins.env
    source "$REPO/deploy/pins.env"
    say "filling $folder ($1 set)"
    fill "$1" "$folder"
  fi
  exec {lock}>&-
}

# ---------------------------------------------------------------- main

main() {
  local build=yes print=no kind
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --no-build) build=no ;;
      --print-prefix) print=yes ;;
      -h | --help) usage; return ;;
      *) usage >&2; die "unknown option '$1'" ;;
    esac
    shift
  done

  kind="$(torch_kind)"
  if [[ $print == yes ]]; then
    prefix "$kind"
    return
  fi
  install_packages
  install_libraries "$kind"
  say "libraries: $(prefix "$kind")"
  [[ $build == yes ]] || return 0

  cd "$REPO"
  say "building into build/release (about 20 minutes on 2 cores the first time, then only what changed)"
  local log
  log="$(cmake --preset release 2>&1)" || { printf '%s\n' "$log" >&2; die "configuring failed"; }
  cmake --build --preset release
}

# On one line: bash reads a script as it runs it, and this one may be replaced (git pull) meanwhile.
main "$@"; exit
