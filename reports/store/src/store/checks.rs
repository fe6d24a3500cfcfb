//! The checks that are stored with a campaign, of its hosts before it began.

use kelpie_monitor::Check;

use super::Store;
use crate::error::StoreError;
use crate::json::exact;
use crate::link::{Link, Row, sql, values};
use crate::records::CampaignId;

/// The first version of the database that holds checks.
const SINCE: i64 = 2;

/// The first version that holds what they measured.
const MEASURED_SINCE: i64 = 8;

/// A check with its evidence and its numbers as text.
pub(super) type StoredCheck<'c> = (&'c Check, [String; 2]);

/// What of these checks cannot be bound to a statement as it is.
pub(super) fn rows(checks: &[Check]) -> Result<Vec<StoredCheck<'_>>, StoreError> {
    let row = |check: &Check| {
        let evidence = exact("evidence of a check", &check.evidence)?;
        Ok([evidence, exact("number of a check", &check.measured)?])
    };
    checks.iter().map(|check| Ok((check, row(check)?))).collect()
}

/// Stores the checks of a campaign, in order.
pub(super) fn insert(link: &mut Link, id: CampaignId, rows: &[StoredCheck<'_>]) -> Result<(), StoreError> {
    for (number, (check, [evidence, measured])) in (1_i64..).zip(rows) {
        let [about, name, summary] = [&check.about, &check.name, &check.summary].map(|text| link.storable(text));
        let fix = check.fix.as_deref().map(|fix| link.storable(fix));
        link.execute(
            "INSERT INTO campaign_check (campaign, number, about, name, state, summary, evidence, measured, fix) \
             VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9)",
            values![id, number, &*about, &*name, check.state.name(), &*summary, evidence, measured, fix.as_deref(),],
        )?;
    }
    Ok(())
}

impl Store {
    /// What was looked at on the hosts of a campaign before it began. There is nothing for a simulated subsystem, and
    /// in a database of a version that held none.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense.
    pub fn checks(&mut self, id: CampaignId) -> Result<Vec<Check>, StoreError> {
        if self.version < SINCE {
            return Ok(Vec::new());
        }
        let measured = if self.version < MEASURED_SINCE { "'[]'" } else { "measured" };
        let text = format!(
            "SELECT about, name, state, summary, evidence, {measured} AS measured, fix \
             FROM campaign_check WHERE campaign = $1 ORDER BY number"
        );
        let rows = self.sql("reading the checks", |link| link.rows(sql(text), values![id]))?;
        rows.iter().map(|row| self.read_check(row)).collect()
    }

    fn read_check(&self, row: &Row) -> Result<Check, StoreError> {
        Ok(Check {
            about: self.get(row, "about")?,
            name: self.get(row, "name")?,
            state: self.word(row, "state")?,
            summary: self.get(row, "summary")?,
            evidence: self.json(row, "evidence")?,
            measured: self.json(row, "measured")?,
            fix: self.get(row, "fix")?,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::place::{Place, both};
    use crate::testing::definition;
    use kelpie_monitor::checks::{Gauge, Repair};
    use kelpie_monitor::{CheckKind, CheckState};

    fn check(about: &str, state: CheckState) -> Check {
        let check = Check::new(CheckKind::Mtu, state, "1500 on the interface").about(about).seen("/sys/x", "1500");
        let check = check.measured(Gauge::InterfaceMtu, 1500.0, 4096.0);
        if state == CheckState::Warn { check.repair(Repair::RaiseMtu, &[("netdev", "eth0")]) } else { check }
    }

    fn checks_come_back_as_they_were_and_each_campaign_has_its_own(place: &Place<'_>) {
        let mut store = Store::create(place.database("kelpie")).unwrap();
        let checks: Vec<Check> = CheckState::ALL.iter().map(|state| check("host a, eth0 port 1", *state)).collect();
        let (first, _lock) = store.begin_campaign(&definition(), &checks).unwrap();
        let (second, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
        assert_eq!(store.checks(first).unwrap(), checks);
        assert_eq!(store.checks(second).unwrap(), []);
    }

    both![checks_come_back_as_they_were_and_each_campaign_has_its_own];
}
