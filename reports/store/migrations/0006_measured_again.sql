-- What was measured beside the experiments, to see whether things are as they were. It decides nothing.
CREATE TABLE measured_again (
    campaign  INTEGER NOT NULL REFERENCES campaign (id),
    number    INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … within the campaign
    after     INTEGER NOT NULL CHECK (after >= 0), -- experiments that were stored before
    finding   INTEGER,                             -- the finding whose workload it was; none is the control workload
    verdict   TEXT    NOT NULL,                    -- healthy, anomalous or inconclusive
    bps       REAL    NOT NULL,                    -- mean goodput of all directions, in bits/s
    deviation REAL    NOT NULL,                    -- standard deviation of that mean, in bits/s
    checksum  INTEGER NOT NULL,
    PRIMARY KEY (campaign, number)
) STRICT, WITHOUT ROWID;
