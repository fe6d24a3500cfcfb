//! The last tables of each task, as files in `target/steps`; what a table holds is not known here.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::SystemTime;

use anyhow::{Context, Result};

/// How many tables of each task are kept.
const KEPT: usize = 10;

/// Keeps a table, with what is needed to compare it to another, and removes the oldest of its task.
pub fn keep(root: &Path, task: &str, outcome: &str, table: &str, now: SystemTime) -> Result<()> {
    let folder = root.join("target/steps");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let date = humantime::format_rfc3339_seconds(now).to_string();
    let processors = available_parallelism().map_or(0, std::num::NonZero::get);
    let text = format!("cargo xtask {task}, {date}, {processors} processors: {outcome}\n{table}");
    // Colons are not for every file system.
    let file = folder.join(format!("{}-{task}.txt", date.replace(':', ".")));
    let new = file.with_extension("new");
    fs::write(&new, text).with_context(|| new.display().to_string())?;
    fs::rename(&new, &file).with_context(|| file.display().to_string())?;
    let mut tables = of_task(&folder, task)?;
    // Their names begin with their dates.
    tables.sort();
    for old in tables.iter().rev().skip(KEPT) {
        fs::remove_file(folder.join(old)).with_context(|| old.clone())?;
    }
    Ok(())
}

/// The names of this task's tables; a name is a date of 20 characters, a hyphen and the task.
fn of_task(folder: &Path, task: &str) -> Result<Vec<String>> {
    let end = format!("-{task}.txt");
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()
        .with_context(|| folder.display().to_string())?;
    Ok(names.into_iter().filter(|name| name.get(20..) == Some(&end)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_last_ten_of_each_task_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let steps = folder.path().join("target/steps");
        for second in 0..13 {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            keep(folder.path(), "test", "passed", "   tests  1.0 s  ok\n", now).unwrap();
            if second == 0 {
                keep(folder.path(), "test-long", "failed", "", now).unwrap();
            }
        }
        let mut names = of_task(&steps, "test").unwrap();
        names.sort();
        assert_eq!(names.len(), KEPT);
        assert_eq!(names[0], "1970-01-01T00.00.03Z-test.txt");
        assert_eq!(of_task(&steps, "test-long").unwrap().len(), 1, "of another task");
        let text = fs::read_to_string(steps.join(&names[0])).unwrap();
        assert!(text.starts_with("cargo xtask test, 1970-01-01T00:00:03Z, "), "{text}");
        assert!(text.ends_with(" processors: passed\n   tests  1.0 s  ok\n"), "{text}");
        assert_eq!(fs::read_dir(&steps).unwrap().count(), KEPT + 1, "and nothing half-written");
    }
}
