-- Tries of an experiment under which a host failed, stored before the next one begins: after so many of them the workload
-- is to blame, and a campaign that is resumed must not begin to count again.
CREATE TABLE failed_try (
    campaign INTEGER NOT NULL REFERENCES campaign (id),
    number   INTEGER NOT NULL CHECK (number > 0), -- the experiment, which may never be stored
    try      INTEGER NOT NULL CHECK (try > 0),    -- 1, 2, 3, …
    reason   TEXT    NOT NULL,                    -- what the host said
    PRIMARY KEY (campaign, number, try)
) STRICT;
