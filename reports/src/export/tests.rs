//! Tests of both formats side by side.

use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::record::Field;

use super::*;
use crate::testing::{HOSTILE, definition, finding, inconclusive, measured, sample, unsupported, workload};
use kelpie_monitor::Symptom;
use kelpie_store::ExperimentClock;

fn stored(directory: &Path) -> (Store, CampaignId) {
    let mut store = Store::create(directory.join("campaigns.db")).unwrap();
    let (id, _lock) = store.begin_campaign(&definition(), &[]).unwrap();
    let low = vec![Symptom::LowThroughput, Symptom::Pause];
    for experiment in [
        measured(1, workload(1, 1024), sample(0.95, Some(0.0)), Vec::new()),
        measured(2, workload(4, 4096), sample(0.3, Some(0.2)), low),
        inconclusive(3),
        unsupported(4),
    ] {
        let clock = ExperimentClock { started_unix_ms: 0, duration_seconds: 1.0 };
        store.append_experiment(id, &experiment, clock).unwrap();
    }
    store.put_finding(id, &finding(1, 2, workload(4, 4096))).unwrap();
    (store, id)
}

/// Names and rows of a table as text; a missing value is empty.
fn read(path: &Path, format: ExportFormat) -> (Vec<String>, Vec<Vec<String>>) {
    let file = File::open(path).unwrap();
    match format {
        ExportFormat::Csv => {
            let mut reader = ::csv::Reader::from_reader(file);
            let names = reader.headers().unwrap().iter().map(str::to_owned).collect();
            let rows = reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
            (names, rows)
        }
        ExportFormat::Parquet => {
            let reader = SerializedFileReader::new(file).unwrap();
            let fields = reader.metadata().file_metadata().schema().get_fields().to_vec();
            let names = fields.iter().map(|field| field.name().to_owned()).collect();
            let rows = reader.get_row_iter(None).unwrap().map(|row| {
                let row = row.unwrap();
                let texts = row.get_column_iter().map(|(_, field)| match field {
                    Field::Null => String::new(),
                    Field::Long(count) => count.to_string(),
                    Field::Double(real) => real.to_string(),
                    Field::Str(text) => text.clone(),
                    other => panic!("unexpected {other:?}"),
                });
                texts.collect()
            });
            (names, rows.collect())
        }
    }
}

#[test]
fn both_formats_hold_the_same_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, id) = stored(directory.path());
    let read_all = |store: &mut Store, format: ExportFormat| {
        let out = directory.path().join(format.name());
        let exported = write(store, id, format, &out).unwrap();
        assert_eq!((exported.experiments, exported.findings), (4, 1));
        exported.files.iter().map(|path| read(path, format)).collect::<Vec<_>>()
    };
    let csv = read_all(&mut store, ExportFormat::Csv);
    assert_eq!(csv, read_all(&mut store, ExportFormat::Parquet));

    let (names, rows) = &csv[0];
    let cell = |row: usize, name: &str| rows[row][names.iter().position(|one| one == name).expect(name)].as_str();
    assert_eq!(
        (0..4).map(|row| cell(row, "verdict")).collect::<Vec<_>>(),
        ["healthy", "anomalous", "inconclusive", "unsupported"]
    );
    assert_eq!((cell(1, "symptoms"), cell(1, "qps"), cell(1, "mtu")), ("low_throughput+pause", "4", "4096"));
    assert_eq!((cell(1, "pause_ratio"), cell(1, "goodput_a_to_b_bps")), ("0.2", "57000000000"));
    assert_eq!((cell(1, "goodput_b_to_a_bps"), cell(3, "port_lost")), ("", ""));
    assert_eq!(cell(3, "reason"), HOSTILE, "text of strangers stays text");
    let (names, rows) = &csv[1];
    assert_eq!(
        (rows.len(), &rows[0][names.iter().position(|one| one == "conditions").unwrap()]),
        (1, &"qps at least 3".into())
    );
}

#[test]
fn columns_have_names_of_their_own() {
    for columns in [experiments(), findings()] {
        let names: std::collections::BTreeSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names.len(), columns.len());
    }
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (mut store, id) = stored(directory.path());
    let error = write(&mut store, id, ExportFormat::Csv, directory.path()).unwrap_err();
    assert!(error.to_string().contains("something is there already"), "{error}");
    assert_eq!(
        std::fs::read_dir(directory.path())
            .unwrap()
            .filter(|entry| {
                entry.as_ref().is_ok_and(|entry| entry.path().extension().is_some_and(|end| end == "csv"))
            })
            .count(),
        0
    );
}

#[test]
fn the_page_names_every_column_that_is_no_feature() {
    let page = include_str!("../../../docs/reference/exports.md");
    for column in experiments().into_iter().chain(findings()) {
        let is_feature = kelpie_spaces::Feature::ALL.iter().any(|feature| feature.name() == column.name);
        let is_of_another_way = column.name.starts_with("messages_") && column.name != "messages_a_to_b_per_sec";
        let named = page.contains(&format!("`{}`", column.name));
        assert!(is_feature || is_of_another_way || named, "{}", column.name);
    }
}
