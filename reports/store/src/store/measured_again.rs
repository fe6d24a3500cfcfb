//! What was measured beside the experiments of a campaign: the control workload, and workloads of findings.

use kelpie_monitor::{Measurement, Sample, Verdict};

use super::Store;
use crate::checksum::Checksum;
use crate::error::StoreError;
use crate::link::{Row, values};
use crate::records::CampaignId;

/// The first version of the database that holds this.
const SINCE: i64 = 6;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredAgain {
    /// Experiments that were stored before it.
    pub after: u64,
    /// The finding whose workload was measured; none is the control workload.
    pub finding: Option<u64>,
    /// What it means.
    pub verdict: Verdict,
    /// Mean goodput of all directions, at the capacity that the subsystem was calibrated at. Units: bits/s.
    pub bps: f64,
    /// Standard deviation of that mean. Units: bits/s.
    pub deviation: f64,
}

impl MeasuredAgain {
    /// What is kept of a measurement.
    pub fn of(after: u64, finding: Option<u64>, verdict: Verdict, measurement: &Measurement) -> Self {
        let capacity = measurement.capacity.unwrap_or(1.0);
        let rate = |sample: &Sample| sample.directions.iter().map(|way| way.goodput_bps).sum::<f64>() / capacity;
        let rates: Vec<f64> = measurement.samples.iter().map(rate).collect();
        let count = rates.len() as f64;
        let bps = if rates.is_empty() { 0.0 } else { rates.iter().sum::<f64>() / count };
        let squares: f64 = rates.iter().map(|rate| (rate - bps).powi(2)).sum();
        let deviation = if rates.len() > 1 { (squares / (count - 1.0) / count).sqrt() } else { 0.0 };
        Self { after, finding, verdict, bps, deviation }
    }
}

fn checksum(id: CampaignId, number: i64, row: &MeasuredAgain) -> Checksum {
    let finding = row.finding.map(|finding| finding.to_string());
    Checksum::of("measured_again")
        .integer(id.0)
        .integer(number)
        .integer(row.after.cast_signed())
        .optional(finding.as_deref())
        .text(row.verdict.name())
        .integer(row.bps.to_bits().cast_signed())
        .integer(row.deviation.to_bits().cast_signed())
}

impl Store {
    /// Commits the `number`th such measurement of a campaign, counted from 1.
    ///
    /// # Errors
    /// The database cannot be written.
    pub fn add_measured_again(&mut self, id: CampaignId, number: u64, row: &MeasuredAgain) -> Result<(), StoreError> {
        let number = number.cast_signed();
        self.write("storing what was measured again", Some(id.into()), |link| {
            link.execute(
                "INSERT INTO measured_again (campaign, number, after, finding, verdict, bps, deviation, checksum) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                values![
                    id,
                    number,
                    row.after,
                    row.finding,
                    row.verdict.name(),
                    row.bps,
                    row.deviation,
                    checksum(id, number, row).finish(),
                ],
            )
        })?;
        Ok(())
    }

    /// All of a campaign, in order; nothing of a database of an older Kelpie.
    ///
    /// # Errors
    /// The database cannot be read, or is damaged.
    pub fn measured_again(&mut self, id: CampaignId) -> Result<Vec<MeasuredAgain>, StoreError> {
        if self.version < SINCE {
            return Ok(Vec::new());
        }
        let rows = self.sql("reading what was measured again", |link| {
            link.rows("SELECT * FROM measured_again WHERE campaign = $1 ORDER BY number", values![id])
        })?;
        rows.iter().map(|row| self.read_measured_again(id, row)).collect()
    }

    fn read_measured_again(&self, id: CampaignId, row: &Row) -> Result<MeasuredAgain, StoreError> {
        let number: i64 = self.get(row, "number")?;
        let verdict: String = self.get(row, "verdict")?;
        let verdicts = [Verdict::Healthy, Verdict::Anomalous, Verdict::Inconclusive];
        let read = MeasuredAgain {
            after: self.get::<i64>(row, "after")?.cast_unsigned(),
            finding: self.get::<Option<i64>>(row, "finding")?.map(i64::cast_unsigned),
            // Another word does not have the checksum of this one.
            verdict: verdicts.into_iter().find(|known| known.name() == verdict).unwrap_or(Verdict::Inconclusive),
            bps: self.get(row, "bps")?,
            deviation: self.get(row, "deviation")?,
        };
        self.check_sum(row, checksum(id, number, &read), || format!("measurement {number} beside the experiments"))?;
        Ok(read)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::link::sql;
    use crate::place::{Place, both};
    use crate::testing::definition;

    fn what_was_measured_again_is_read_as_it_was_and_a_changed_value_is_noticed(place: &Place<'_>) {
        let mut store = Store::create(place.database("kelpie")).unwrap();
        let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
        let row = |after, finding, verdict| MeasuredAgain { after, finding, verdict, bps: 1e10 / 3.0, deviation: 0.1 };
        let rows = [row(0, None, Verdict::Inconclusive), row(9, Some(2), Verdict::Anomalous)];
        for (number, row) in (1..).zip(&rows) {
            store.add_measured_again(id, number, row).unwrap();
        }
        assert_eq!(store.measured_again(id).unwrap(), rows);
        for change in ["bps = bps + 1.0", "verdict = 'healthy'", "verdict = 'good'", "finding = 1", "after = after + 1"]
        {
            let set = |text: String| store.sql("changing", |link| link.execute(sql(text), &[])).unwrap();
            set(format!("UPDATE measured_again SET {change} WHERE number = 2"));
            let error = store.measured_again(id).expect_err(change);
            assert!(matches!(&error, StoreError::Damaged { detail, .. } if detail.contains("checksum")), "{error}");
            store.sql("removing", |link| link.execute("DELETE FROM measured_again WHERE number = 2", &[])).unwrap();
            store.add_measured_again(id, 2, &rows[1]).unwrap();
        }
    }

    #[test]
    fn the_mean_of_samples_has_the_deviation_of_a_mean() {
        let mut measurement = Measurement::default();
        assert_eq!(MeasuredAgain::of(3, None, Verdict::Healthy, &measurement).bps.to_bits(), 0);
        measurement.samples = vec![crate::testing::sample(0.3, None); 4];
        let row = MeasuredAgain::of(3, None, Verdict::Healthy, &measurement);
        let rates: f64 = measurement.samples[0].directions.iter().map(|way| way.goodput_bps).sum();
        assert!(rates > 0.0 && (row.bps / rates - 1.0).abs() < 1e-12 && row.deviation.abs() < 1e-3, "{row:?}");
        measurement.samples[0].directions.iter_mut().for_each(|way| way.goodput_bps *= 2.0);
        let row = MeasuredAgain::of(3, None, Verdict::Healthy, &measurement);
        // One of four is twice as fast: the samples deviate by a half of a rate, their mean by a quarter.
        assert!((row.bps / rates - 1.25).abs() < 1e-12 && (row.deviation / rates - 0.25).abs() < 1e-12, "{row:?}");
    }

    both![what_was_measured_again_is_read_as_it_was_and_a_changed_value_is_noticed];
}
