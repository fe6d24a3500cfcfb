-- What people call a campaign, and why they ran it. It decides nothing.
CREATE TABLE campaign_label (
    campaign INTEGER PRIMARY KEY REFERENCES campaign (id),
    name     TEXT,
    note     TEXT
) STRICT;
