//! Findings: the next of a campaign, or in place of one that was refined.

use super::Store;
use crate::checksum::Checksum;
use crate::error::StoreError;
use crate::json::exact;
use crate::link::{Row, sql, values};
use crate::records::{CampaignId, FindingRecord};

/// What a finding is made of, beside its checksum.
pub(super) const FINDING: &str =
    "campaign, number, symptom, found_at, experiments_for_mfs, confidence, mfs, workload, evidence";

impl Store {
    /// Commits a finding: the next of its campaign, or in place of the one with its number.
    ///
    /// # Errors
    /// Its number is neither, it cannot be written exactly, or the database cannot be written.
    pub fn put_finding(&mut self, id: CampaignId, finding: &FindingRecord) -> Result<(), StoreError> {
        let mfs = exact("minimal feature set", &finding.mfs)?;
        let workload = exact("workload", &finding.workload)?;
        let evidence = exact("evidence", &finding.evidence)?;
        let confidence: f64 = finding.confidence;
        let checksum = Checksum::of("finding")
            .integer(id.0)
            .integer(finding.number.cast_signed())
            .text(finding.symptom.name())
            .integer(finding.found_at.cast_signed())
            .integer(finding.experiments_for_mfs.cast_signed())
            .integer(confidence.to_bits().cast_signed())
            .text(&mfs)
            .text(&workload)
            .text(&evidence)
            .finish();
        let rows = self.write("storing the finding", Some(id.into()), |link| {
            link.execute(
                "INSERT INTO finding \
                 (campaign, number, symptom, found_at, experiments_for_mfs, confidence, mfs, workload, evidence, checksum) \
                 SELECT $1,$2,$3,$4,$5,$6,$7,$8,$9,$10 \
                 WHERE $2 <= 1 + (SELECT coalesce(max(number), 0) FROM finding WHERE campaign = $1) \
                 ON CONFLICT (campaign, number) DO UPDATE SET \
                 symptom = excluded.symptom, found_at = excluded.found_at, \
                 experiments_for_mfs = excluded.experiments_for_mfs, confidence = excluded.confidence, \
                 mfs = excluded.mfs, workload = excluded.workload, evidence = excluded.evidence, \
                 checksum = excluded.checksum",
                values![
                    id,
                    finding.number,
                    finding.symptom.name(),
                    finding.found_at,
                    finding.experiments_for_mfs,
                    confidence,
                    &mfs,
                    &workload,
                    &evidence,
                    checksum,
                ],
            )
        })?;
        self.in_order(rows == 1, id, "finding", finding.number)?;
        self.check_place()
    }

    /// The findings of a campaign, in the order they were made.
    ///
    /// # Errors
    /// The database cannot be read, or a record does not make sense.
    pub fn findings(&mut self, id: CampaignId) -> Result<Vec<FindingRecord>, StoreError> {
        let text = self.select(FINDING, "finding WHERE campaign = $1 ORDER BY number");
        let rows = self.sql("reading the findings", |link| link.rows(sql(text), values![id]))?;
        rows.iter().map(|row| self.read_finding(row)).collect()
    }

    pub(super) fn read_finding(&self, row: &Row) -> Result<FindingRecord, StoreError> {
        let number = self.count(row, "number")?;
        let checksum = Checksum::of("finding")
            .integer(self.get(row, "campaign")?)
            .integer(number.cast_signed())
            .text(self.get(row, "symptom")?)
            .integer(self.get(row, "found_at")?)
            .integer(self.get(row, "experiments_for_mfs")?)
            .integer(self.get::<f64>(row, "confidence")?.to_bits().cast_signed())
            .text(self.get(row, "mfs")?)
            .text(self.get(row, "workload")?)
            .text(self.get(row, "evidence")?);
        self.check_sum(row, checksum, || format!("finding {number}"))?;
        Ok(FindingRecord {
            number,
            symptom: self.word(row, "symptom")?,
            found_at: self.count(row, "found_at")?,
            experiments_for_mfs: self.count(row, "experiments_for_mfs")?,
            confidence: self.get(row, "confidence")?,
            mfs: self.json(row, "mfs")?,
            workload: self.json(row, "workload")?,
            evidence: self.json(row, "evidence")?,
        })
    }
}
