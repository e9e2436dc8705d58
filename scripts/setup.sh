#!/usr/bin/env bash
# setup.sh VENV: brings a fresh Debian 12 (git, a C++20 compiler, Python >= 3.10) to where the build works.
# Installs what is missing from apt (as root or by sudo; otherwise says which packages) and from PyPI.
set -euo pipefail
venv=$1

# package: a file or command it brings, by which we see that it is there already
declare -A probes=(
  [cmake]=/usr/bin/cmake [ninja-build]=/usr/bin/ninja [ccache]=/usr/bin/ccache
  [libhwy-dev]=/usr/include/hwy/highway.h [nlohmann-json3-dev]=/usr/include/nlohmann/json.hpp
  [libgtest-dev]=/usr/include/gtest/gtest.h [libxxhash-dev]=/usr/include/xxhash.h
  [libutf8proc-dev]=/usr/include/utf8proc.h
  [libsimdjson-dev]=/usr/include/simdjson.h [zlib1g-dev]=/usr/include/zlib.h
  [pkg-config]=/usr/bin/pkg-config [g++]=/usr/bin/c++ [clang-tidy]=/usr/bin/clang-tidy
)
missing=()
for package in "${!probes[@]}"; do
  [ -e "${probes[$package]}" ] || missing+=("$package")
done
python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
header=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -e "$header" ] || missing+=(python3-dev)

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ]; then as_root=(); elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then as_root=(sudo -n); else
    echo "setup: these Debian packages are missing: ${missing[*]}" >&2
    echo "setup: neither root nor sudo here; have them installed: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" > /dev/null
fi

python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
  echo "setup: Python >= 3.10 is needed, got $(python3 --version)" >&2; exit 1; }
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "setup: installing Python packages into $venv (torch is large; the first time takes minutes)"
# The build needs its own requirements present because it runs without isolation, against this very torch.
mapfile -t requirements < <("$venv/bin/python" scripts/requirements.py pyproject.toml)
"$venv/bin/python" -m pip install --quiet "${requirements[@]}"
