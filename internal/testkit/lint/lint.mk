# make lint          formatters and linters of every language
# make lint-<what>   go, python, js, java

LINT := internal/testkit/lint
LINT_VENV := build/lint-venv
LINTED = $(shell git ls-files $(1) 2>/dev/null || \
	find . -name $(1) -not -path '*/node_modules/*' -not -path './build/*')

.PHONY: lint lint-go lint-python lint-js lint-java

# Left out where there is no JDK or no Maven.
LINT_JAVA := $(shell command -v javac >/dev/null && command -v mvn >/dev/null && echo lint-java)

lint: lint-go lint-python lint-js $(LINT_JAVA)

build/staticcheck: $(LINT)/go.mod $(LINT)/go.sum
	@cd $(LINT) && $(GO) build -o $(CURDIR)/$@ honnef.co/go/tools/cmd/staticcheck

# Lines of more than 100 columns, in every language, are found by internal/arch.
lint-go: build/staticcheck
	@bad=$$(gofmt -l $(call LINTED,'*.go')); [ -z "$$bad" ] || { echo "gofmt -w: $$bad"; exit 1; }
	@build/staticcheck ./...
	@internal/testkit/within.sh raftlog $(CURDIR)/build/staticcheck ./...
	@internal/testkit/within.sh replica $(CURDIR)/build/staticcheck ./...
	$(if $(LOAM_T2),@internal/testkit/within.sh tikv $(CURDIR)/build/staticcheck ./...)

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

# Maven downloads checkstyle. javac's own warnings are errors when the package is built.
lint-java:
	@mvn -B -q -f bindings/java/pom.xml checkstyle:check
