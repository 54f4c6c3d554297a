# make lint          formatters and linters of every language
# make lint-<what>   go, python, js

LINT := internal/testkit/lint
LINT_VENV := build/lint-venv
LINTED = $(shell git ls-files $(1) 2>/dev/null || \
	find . -name $(1) -not -path '*/node_modules/*' -not -path './build/*')

.PHONY: lint lint-go lint-python lint-js

lint: lint-go lint-python lint-js

build/staticcheck: $(LINT)/go.mod $(LINT)/go.sum
	@cd $(LINT) && $(GO) build -o $(CURDIR)/$@ honnef.co/go/tools/cmd/staticcheck

# Lines of more than 100 columns, in every language, are found by internal/arch.
lint-go: build/staticcheck
	@bad=$$(gofmt -l $(call LINTED,'*.go')); [ -z "$$bad" ] || { echo "gofmt -w: $$bad"; exit 1; }
	@build/staticcheck ./...

$(LINT_VENV)/stamp: $(LINT)/requirements.txt
	@$(PYTHON) -m venv $(LINT_VENV)
	@$(LINT_VENV)/bin/pip install -q --disable-pip-version-check --require-hashes -r $<
	@touch $@

lint-python: $(LINT_VENV)/stamp
	@$(LINT_VENV)/bin/ruff format --check -q .
	@$(LINT_VENV)/bin/ruff check -q .

$(LINT)/node_modules/.package-lock.json: $(LINT)/package-lock.json
	@cd $(LINT) && npm ci --silent --no-audit --no-fund && touch node_modules/.package-lock.json

lint-js: $(LINT)/node_modules/.package-lock.json
	@$(LINT)/node_modules/.bin/eslint -c $(LINT)/eslint.config.mjs $(call LINTED,'*.js')
