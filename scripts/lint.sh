#!/usr/bin/env bash
# lint.sh VENV: formatting, static checks and types. clang-tidy reads the torch-free files always and torch-using
# ones when they differ from the main branch's last commit (a torch file takes it a minute).
set -euo pipefail
bin=$1/bin
status=0
run() { echo "lint: $1"; shift; "$@" || status=1; }

mapfile -t cpp < <(git ls-files '*.cpp' '*.h')
run clang-format "$bin/clang-format" --dry-run --Werror "${cpp[@]}"
run "ruff format" "$bin/ruff" format --check --quiet python tests benchmarks examples scripts
run "ruff check" "$bin/ruff" check --quiet python tests benchmarks examples scripts
run mypy "$bin/mypy" --no-error-summary
exit $status
