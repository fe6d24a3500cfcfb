-- From where a resumed campaign goes on without a look at the experiments before. It is replaced now and then; without it,
-- or if it does not fit, the search begins anew.
CREATE TABLE checkpoint (
    campaign    INTEGER PRIMARY KEY REFERENCES campaign (id),
    experiments INTEGER NOT NULL CHECK (experiments > 0), -- those before it
    state       TEXT    NOT NULL, -- JSON
    checksum    INTEGER NOT NULL
) STRICT;
