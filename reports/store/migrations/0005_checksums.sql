-- A checksum of each row, over all its other columns and its kind; rows of an older Kelpie have none. SQLite checks its own
-- structure, and not the values in it.
ALTER TABLE campaign ADD COLUMN checksum INTEGER;
ALTER TABLE experiment ADD COLUMN checksum INTEGER;
ALTER TABLE finding ADD COLUMN checksum INTEGER;
