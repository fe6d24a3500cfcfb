-- Qualifications of fleets, and what was measured unit by unit. The store does not read their JSON.
CREATE TABLE qualification (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    document TEXT    NOT NULL, -- JSON: inventory, plan and settings
    began    INTEGER NOT NULL, -- seconds since 1970
    ended    TEXT,             -- JSON: the verdict; NULL until it ended
    checksum INTEGER NOT NULL
) STRICT;

CREATE TABLE qualification_unit (
    qualification INTEGER NOT NULL REFERENCES qualification (id),
    number        INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … without a gap
    unit          TEXT    NOT NULL,                    -- JSON
    checksum      INTEGER NOT NULL,
    PRIMARY KEY (qualification, number)
) STRICT;
