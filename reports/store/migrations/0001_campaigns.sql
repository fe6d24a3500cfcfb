-- Campaigns, their experiments and their findings.
--
-- `campaign`, `experiment` and `finding` hold what is decided by subsystem, space, algorithm and seed alone: equal
-- seeds give equal rows, but for the campaign's number. Whatever a clock says is in `campaign_clock` and
-- `experiment_clock`. JSON columns are exact: every float reads back as the same bits.
PRAGMA application_id = 1262832720; -- "KELP"

CREATE TABLE campaign (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    kelpie_version   TEXT    NOT NULL, -- the program that started it
    subsystem        TEXT    NOT NULL, -- as named on the command line, such as sim:F
    subsystem_source TEXT    NOT NULL, -- the whole model or pair file, YAML
    bounds           TEXT    NOT NULL, -- JSON {max_bps, max_pps}
    space            TEXT    NOT NULL, -- catalog name or file name
    space_source     TEXT    NOT NULL, -- YAML, space/1
    algorithm        TEXT    NOT NULL,
    signal           TEXT    NOT NULL,
    seed             INTEGER NOT NULL,
    config           TEXT    NOT NULL, -- JSON: every setting of the search
    budget           INTEGER,          -- experiments; NULL is no limit
    state            TEXT    NOT NULL CHECK (state IN ('open', 'finished')),
    skipped_at_end   INTEGER NOT NULL DEFAULT 0 -- workloads skipped after the last experiment
) STRICT;

CREATE TABLE experiment (
    campaign       INTEGER NOT NULL REFERENCES campaign (id),
    number         INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … without a gap
    purpose        TEXT    NOT NULL,
    skipped_before INTEGER NOT NULL, -- workloads skipped since the experiment before
    workload       TEXT    NOT NULL, -- JSON, workload/1
    measurement    TEXT,             -- JSON: samples with rates, pause and counters, hardware events
    assessment     TEXT,             -- JSON: verdict, symptoms, why inconclusive
    attempts       INTEGER NOT NULL, -- measurements until the verdict was conclusive or given up; the last is stored
    unsupported    TEXT,             -- why the subsystem cannot run it; then nothing was measured
    PRIMARY KEY (campaign, number),
    CHECK ((measurement IS NULL) = (assessment IS NULL)),
    CHECK ((measurement IS NULL) <> (unsupported IS NULL))
) STRICT;

CREATE TABLE finding (
    campaign            INTEGER NOT NULL REFERENCES campaign (id),
    number              INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … within the campaign
    symptom             TEXT    NOT NULL,
    found_at            INTEGER NOT NULL, -- experiment
    experiments_for_mfs INTEGER NOT NULL,
    confidence          REAL    NOT NULL, -- 0 to 1
    mfs                 TEXT    NOT NULL, -- JSON: conditions
    workload            TEXT    NOT NULL, -- JSON, workload/1: the witness
    evidence            TEXT    NOT NULL, -- JSON
    PRIMARY KEY (campaign, number),
    FOREIGN KEY (campaign, found_at) REFERENCES experiment (campaign, number)
) STRICT;

CREATE TABLE campaign_clock (
    campaign        INTEGER PRIMARY KEY REFERENCES campaign (id),
    started_unix_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE experiment_clock (
    campaign         INTEGER NOT NULL,
    number           INTEGER NOT NULL,
    started_unix_ms  INTEGER NOT NULL,
    duration_seconds REAL    NOT NULL,
    PRIMARY KEY (campaign, number),
    FOREIGN KEY (campaign, number) REFERENCES experiment (campaign, number)
) STRICT;
