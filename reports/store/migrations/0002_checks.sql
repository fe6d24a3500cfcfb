-- What was looked at on both hosts before a campaign on a real pair began; nothing for a simulated subsystem. It is no
-- matter of seed and subsystem, so it stands beside `campaign` as its clock does.
CREATE TABLE campaign_check (
    campaign INTEGER NOT NULL REFERENCES campaign (id),
    number   INTEGER NOT NULL CHECK (number > 0), -- 1, 2, 3, … within the campaign
    about    TEXT    NOT NULL, -- such as: host a, mlx5_0 port 1
    name     TEXT    NOT NULL,
    state    TEXT    NOT NULL CHECK (state IN ('pass', 'warn', 'fail', 'not_applicable', 'unknown')),
    summary  TEXT    NOT NULL,
    evidence TEXT    NOT NULL, -- JSON: [{source, value}]
    fix      TEXT,             -- what mends it
    PRIMARY KEY (campaign, number)
) STRICT;
