-- What a check measured, as numbers beside its text.
ALTER TABLE campaign_check ADD COLUMN measured TEXT NOT NULL DEFAULT '[]'; -- JSON
