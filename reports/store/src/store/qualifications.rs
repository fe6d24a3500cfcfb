//! Qualifications of fleets: what they were asked, unit by unit what came of it, and their verdict. The store reads
//! none of their JSON.

use std::ops::ControlFlow;

use serde::de::IgnoredAny;

use super::Store;
use crate::checksum::Checksum;
use crate::error::StoreError;
use crate::link::{Row, values};
use crate::records::{QualificationId, unix_ms};

/// The first version of the database that holds qualifications.
const SINCE: i64 = 9;

/// Longest unit. Units: bytes. Source: our choice, because the measurement of a pair of hosts takes some kilobytes.
const LONGEST_UNIT: usize = 1 << 20;

/// A stored qualification, without its units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredQualification {
    /// Its number.
    pub id: QualificationId,
    /// What it was asked: the text that it began with.
    pub document: String,
    /// When it began. Units: seconds since 1970.
    pub began: i64,
    /// Its verdict as JSON, if it has ended.
    pub ended: Option<String>,
}

fn qualification_checksum(qualification: &StoredQualification) -> Checksum {
    let StoredQualification { id, document, began, ended } = qualification;
    Checksum::of("qualification").integer(id.0).text(document).integer(*began).optional(ended.as_deref())
}

fn unit_checksum(id: QualificationId, number: i64, unit: &str) -> Checksum {
    Checksum::of("qualification_unit").integer(id.0).integer(number).text(unit)
}

/// Refuses a text that is not JSON: no later reader would know what to do with it.
fn json<'t>(what: &'static str, text: &'t str) -> Result<&'t str, StoreError> {
    serde_json::from_str::<IgnoredAny>(text)
        .map_err(|error| StoreError::Refused { what, detail: format!("it is not JSON: {error}") })?;
    Ok(text)
}

impl Store {
    /// Stores a qualification that is about to begin, and takes its lock, which the store holds until it writes another
    /// one or is dropped.
    ///
    /// # Errors
    /// The document is not JSON, or the database cannot be written.
    pub fn begin_qualification(&mut self, document: &str) -> Result<QualificationId, StoreError> {
        let document = json("qualification", document)?;
        let (id, lock) = self.write("storing the qualification", None, |link| {
            let began = unix_ms() / 1000;
            let id = link.number(
                "INSERT INTO qualification (document, began, checksum) VALUES ($1, $2, 0) RETURNING id",
                values![document, began],
                "id",
            )?;
            let id = QualificationId(id);
            let stored = StoredQualification { id, document: document.to_owned(), began, ended: None };
            link.execute(
                "UPDATE qualification SET checksum = $1 WHERE id = $2",
                values![qualification_checksum(&stored).finish(), id],
            )?;
            // Before anybody can see it, so that nobody else goes on with it.
            Ok((id, link.take(id.into())?))
        })?;
        self.qualification = Some((id, self.taken(id.into(), lock)));
        self.begin_writing()?;
        Ok(id)
    }

    /// Takes the lock of a stored qualification, to go on with it.
    ///
    /// # Errors
    /// There is no such qualification, or another process or store writes it.
    pub fn open_qualification(&mut self, id: QualificationId) -> Result<(), StoreError> {
        if self.qualification.as_ref().is_some_and(|(held, _)| *held == id) {
            return Ok(());
        }
        if self.qualification(id)?.is_none() {
            return Err(self.no_qualification(id));
        }
        self.qualification = Some((id, self.take(id.into())?));
        self.begin_writing()
    }

    /// One qualification; `None` if there is none of this number.
    ///
    /// # Errors
    /// The database cannot be read, or the record is damaged.
    pub fn qualification(&mut self, id: QualificationId) -> Result<Option<StoredQualification>, StoreError> {
        Ok(self.stored_qualifications(Some(id.0))?.pop())
    }

    /// Every qualification, oldest first; none of a database of an older Kelpie.
    ///
    /// # Errors
    /// The database cannot be read, or a record is damaged.
    pub fn qualifications(&mut self) -> Result<Vec<StoredQualification>, StoreError> {
        self.stored_qualifications(None)
    }

    fn stored_qualifications(&mut self, id: Option<i64>) -> Result<Vec<StoredQualification>, StoreError> {
        if self.version < SINCE {
            return Ok(Vec::new());
        }
        let rows = self.sql("reading the qualifications", |link| {
            link.rows("SELECT * FROM qualification WHERE $1 IS NULL OR id = $1 ORDER BY id", values![id])
        })?;
        rows.iter().map(|row| self.read_qualification(row)).collect()
    }

    fn read_qualification(&self, row: &Row) -> Result<StoredQualification, StoreError> {
        let stored = StoredQualification {
            id: QualificationId(self.get(row, "id")?),
            document: self.get(row, "document")?,
            began: self.get(row, "began")?,
            ended: self.get(row, "ended")?,
        };
        self.check_sum(row, qualification_checksum(&stored), || format!("qualification {}", stored.id))?;
        Ok(stored)
    }

    /// Commits units of a qualification, all or none: numbered `from`, `from + 1`, …, which must follow the last one
    /// stored.
    ///
    /// # Errors
    /// They do not follow, one is not JSON or too long, another process or store writes the qualification, or the
    /// database cannot be written.
    pub fn add_units(&mut self, id: QualificationId, from: u64, units: &[String]) -> Result<(), StoreError> {
        for unit in units {
            if unit.len() > LONGEST_UNIT {
                let detail = format!("it has {} bytes, and {LONGEST_UNIT} is the most", unit.len());
                return Err(StoreError::Refused { what: "unit", detail });
            }
            json("unit", unit)?;
        }
        self.open_qualification(id)?;
        let stored = self.write("storing units", Some(id.into()), |link| {
            let last = "SELECT coalesce(max(number), 0) AS last FROM qualification_unit WHERE qualification = $1";
            if from != link.number(last, values![id], "last")?.cast_unsigned() + 1 {
                return Ok(false);
            }
            for (number, unit) in (from.cast_signed()..).zip(units) {
                link.execute(
                    "INSERT INTO qualification_unit (qualification, number, unit, checksum) VALUES ($1, $2, $3, $4)",
                    values![id, number, unit, unit_checksum(id, number, unit).finish()],
                )?;
            }
            Ok(true)
        })?;
        self.in_order(stored, id, "unit", from)?;
        self.check_place()
    }

    /// Gives the units of a qualification after this number to `visit`, in order and one at a time, until it breaks;
    /// also while somebody writes.
    ///
    /// # Errors
    /// The database cannot be read, or a unit is damaged or missing; what came before it has been visited.
    pub fn units(
        &mut self,
        id: QualificationId,
        after: u64,
        mut visit: impl FnMut(u64, &str) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if self.version < SINCE {
            return Ok(());
        }
        let text = "SELECT number, unit, checksum FROM qualification_unit WHERE qualification = $1 AND number > $2 \
                   ORDER BY number";
        let mut expected = after.cast_signed();
        self.rows("reading units", text.to_owned(), values![id, after], |store, row| {
            let (number, unit) = (store.get::<i64>(row, "number")?, store.get::<&str>(row, "unit")?);
            store.check_sum(row, unit_checksum(id, number, unit), || format!("unit {number} of qualification {id}"))?;
            expected += 1;
            if number != expected {
                let detail = format!("unit {expected} of qualification {id} is missing");
                return Err(StoreError::Damaged { database: store.database.clone(), detail });
            }
            Ok(visit(number.cast_unsigned(), unit))
        })
    }

    /// Stores the verdict of a qualification, in place of an earlier one.
    ///
    /// # Errors
    /// There is no such qualification, the verdict is not JSON, another process or store writes it, or the database
    /// cannot be written.
    pub fn end_qualification(&mut self, id: QualificationId, verdict: &str) -> Result<(), StoreError> {
        let verdict = json("verdict", verdict)?;
        self.open_qualification(id)?;
        let stored = self.qualification(id)?.ok_or_else(|| self.no_qualification(id))?;
        let checksum = qualification_checksum(&StoredQualification { ended: Some(verdict.to_owned()), ..stored });
        self.write("storing the verdict", Some(id.into()), |link| {
            link.execute(
                "UPDATE qualification SET ended = $1, checksum = $2 WHERE id = $3",
                values![verdict, checksum.finish(), id],
            )
        })?;
        self.check_place()
    }

    fn no_qualification(&self, id: QualificationId) -> StoreError {
        StoreError::NoQualification { database: self.database.clone(), id }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::database::Database;
    use crate::link::sql;
    use crate::place::{Place, both};

    fn read(store: &mut Store, id: QualificationId, after: u64) -> Result<Vec<(u64, String)>, StoreError> {
        let mut read = Vec::new();
        store.units(id, after, |number, unit| {
            read.push((number, unit.to_owned()));
            ControlFlow::Continue(())
        })?;
        Ok(read)
    }

    fn units(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
        numbers.map(|number| format!("{{ \"unit\": {number}.0, \"text\": \"\\u0000ü\" }}")).collect()
    }

    fn begun(database: impl Into<Database>) -> (Store, QualificationId) {
        let mut store = Store::create(database).unwrap();
        let id = store.begin_qualification(" { \"plan\": [1.50] } ").unwrap();
        (store, id)
    }

    fn a_qualification_is_read_as_it_was_written(place: &Place<'_>) {
        let path = place.database("kelpie");
        let (mut store, id) = begun(&path);
        let mut reader = Store::open_to_read(&path).unwrap();
        for from in [1, 3, 5] {
            store.add_units(id, from, &units(from..=from + 1)).unwrap();
            let all: Vec<(u64, String)> = (1..).zip(units(1..=from + 1)).collect();
            assert_eq!(read(&mut reader, id, 0).unwrap(), all, "while somebody writes");
            assert_eq!(read(&mut reader, id, from).unwrap(), all[all.len() - 1..]);
        }
        store.add_units(id, 7, &[]).unwrap();
        let mut first = None;
        let stop = reader.units(id, 2, |number, _| {
            first = Some(number);
            ControlFlow::Break(())
        });
        stop.unwrap();
        assert_eq!((first, read(&mut reader, id, 6).unwrap()), (Some(3), Vec::new()));

        let stored = reader.qualification(id).unwrap().unwrap();
        assert_eq!((stored.document.as_str(), stored.ended), (" { \"plan\": [1.50] } ", None));
        assert!((unix_ms() / 1000 - stored.began).abs() < 3600, "{}", stored.began);
        store.end_qualification(id, "{\"verdict\":\"failed\"}").unwrap();
        store.end_qualification(id, "{\"verdict\": \"qualified\"}").unwrap();
        let second = store.begin_qualification("2").unwrap();
        assert_eq!(read(&mut store, second, 0).unwrap(), []);
        let all = reader.qualifications().unwrap();
        let ended: Vec<_> = all.iter().map(|one| (one.id, one.ended.as_deref())).collect();
        assert_eq!(ended, [(id, Some("{\"verdict\": \"qualified\"}")), (second, None)]);
        assert_eq!(reader.qualification(QualificationId(99)).unwrap(), None);
    }

    fn units_must_follow_each_other_and_are_stored_all_or_none(place: &Place<'_>) {
        let (mut store, id) = begun(place.database("kelpie"));
        store.add_units(id, 1, &units(1..=2)).unwrap();
        for from in [0, 1, 2, 4, u64::MAX] {
            let refused = store.add_units(id, from, &units(1..=1)).unwrap_err();
            assert!(matches!(refused, StoreError::OutOfOrder { what: "unit", .. }), "{from}: {refused}");
        }
        for bad in ["", "{", "{} {}", "\u{0}"] {
            let refused = store.add_units(id, 3, &["{}".to_owned(), bad.to_owned()]).unwrap_err();
            assert!(matches!(refused, StoreError::Refused { .. }), "{bad:?}: {refused}");
        }
        assert!(store.begin_qualification("{").is_err() && store.end_qualification(id, "no").is_err());
        let long = format!("\"{}\"", "x".repeat(LONGEST_UNIT - 2));
        assert!(store.add_units(id, 3, &[long.clone() + " "]).is_err());
        store.add_units(id, 3, &[long]).unwrap();
        assert_eq!(read(&mut store, id, 0).unwrap().len(), 3);
        let missing = store.add_units(QualificationId(99), 1, &[]).unwrap_err();
        assert!(matches!(missing, StoreError::NoQualification { .. }), "{missing}");
    }

    fn a_qualification_has_one_writer_who_is_named(place: &Place<'_>) {
        let path = place.database("kelpie");
        let (mut first, id) = begun(&path);
        first.add_units(id, 1, &units(1..=1)).unwrap();
        let mut second = Store::open_to_write(&path).unwrap();
        for refused in
            [second.open_qualification(id), second.add_units(id, 2, &units(2..=2)), second.end_qualification(id, "{}")]
        {
            let error = refused.unwrap_err();
            let StoreError::Locked { holder: Some(holder), .. } = &error else { panic!("{error}") };
            assert_eq!(holder.process, std::process::id());
        }
        let other = second.begin_qualification("{}").unwrap();
        first.add_units(id, 2, &units(2..=2)).unwrap();
        drop(first);
        second.open_qualification(id).unwrap();
        second.add_units(id, 3, &units(3..=3)).unwrap();
        assert_eq!((read(&mut second, id, 0).unwrap().len(), read(&mut second, other, 0).unwrap().len()), (3, 0));
    }

    #[test]
    fn what_was_added_is_on_the_disk_before_its_writer_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kelpie.db");
        let (mut store, id) = begun(&path);
        store.add_units(id, 1, &units(1..=3)).unwrap();
        // What a crash leaves: the files as they are, with no writer that tidies up.
        let left = folder.path().join("left.db");
        for suffix in ["", "-wal"] {
            let [from, to] = [&path, &left].map(|path| format!("{}{suffix}", path.display()));
            std::fs::copy(from, to).unwrap();
        }
        let mut left = Store::open_to_write(&left).unwrap();
        assert_eq!(read(&mut left, id, 0).unwrap().len(), 3);
        left.add_units(id, 4, &units(4..=4)).unwrap();
        assert_eq!(read(&mut left, id, 3).unwrap(), [(4, units(4..=4).remove(0))]);
    }

    fn a_unit_that_changed_by_itself_or_is_missing_is_noticed(place: &Place<'_>) {
        for change in ["UPDATE qualification_unit SET unit = '7'", "DELETE FROM qualification_unit"] {
            let (mut store, id) = begun(place.database(&change[..6]));
            store.add_units(id, 1, &units(1..=3)).unwrap();
            let changed = sql(format!("{change} WHERE number = 2"));
            store.sql("changing", |link| link.execute(changed, &[])).unwrap();
            let mut before = Vec::new();
            let read = store.units(id, 0, |number, _| {
                before.push(number);
                ControlFlow::Continue(())
            });
            let error = read.expect_err(change);
            assert!(matches!(&error, StoreError::Damaged { detail, .. } if detail.contains("unit 2 ")), "{error}");
            assert_eq!(before, [1], "{change}");
        }
    }

    both![
        a_qualification_is_read_as_it_was_written,
        units_must_follow_each_other_and_are_stored_all_or_none,
        a_qualification_has_one_writer_who_is_named,
        a_unit_that_changed_by_itself_or_is_missing_is_noticed,
    ];
}
