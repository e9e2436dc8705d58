#!/usr/bin/env bash
# lint.sh VENV: formatting, static checks and types. clang-tidy reads the torch-free sources that changed since the
# last commit on origin's main (all of them when there is no such commit); a torch-using file would take it a minute.
set -euo pipefail
bin=$1/bin
status=0
run() { echo "lint: $1"; shift; "$@" || status=1; }

mapfile -t cpp < <(git ls-files '*.cpp' '*.h')
run clang-format "$bin/clang-format" --dry-run --Werror "${cpp[@]}"
run "ruff format" "$bin/ruff" format --check --quiet python tests examples scripts
run "ruff check" "$bin/ruff" check --quiet python tests examples scripts
run mypy "$bin/mypy" --no-error-summary

if [ -f build/compile_commands.json ]; then
  base=$(git rev-parse --verify --quiet origin/main || git rev-list --max-parents=0 HEAD | tail -1)
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'src/data/*.cpp' 'src/simd/*.cpp')
  if [ ${#changed[@]} -gt 0 ]; then
    run clang-tidy clang-tidy -p build --quiet "${changed[@]}"
  fi
fi
exit $status
