//! The files of a job: one or several, a folder or a pattern of them, plain or as gzip, each bounded in what it unpacks
//! to.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::files::open;
use anyhow::{Context as _, bail};
use flate2::bufread::MultiGzDecoder;
use kelpie_diagnosis::job::{Jobs, MAX_OPERATIONS, Reader};

/// Longest file of operations, unpacked. Units: bytes. Source: our choice, because 8 million operations need no more.
const MAX_FILE: u64 = 1 << 30;
/// Most files. Source: our choice, one for each process of the largest job.
const MAX_FILES: usize = 65_536;
/// From this length on, rows of CSV are counted before they are kept. Units: bytes. Source: our choice; a second pass
/// over less takes no time, and less takes no memory worth to save.
const COUNTED: u64 = 4 << 20;

/// Reads all of them as one job.
///
/// # Errors
/// A file is missing, unreadable, too long or no record of a job.
pub fn read(names: &[PathBuf]) -> anyhow::Result<Jobs> {
    let mut reader = Reader::default();
    for path in all(names)? {
        if path == Path::new("-") {
            reader.add("stdin", unpacked(BufReader::new(io::stdin().lock()))?)?;
            continue;
        }
        let name = path.display().to_string();
        let file = open(&path).with_context(|| name.clone())?;
        let found = file.metadata().with_context(|| name.clone())?;
        if found.is_file() && found.len() > MAX_FILE {
            bail!("{name}: longer than {} MiB, the most that Kelpie reads", MAX_FILE >> 20);
        }
        if found.is_file() && found.len() > COUNTED {
            let again = BufReader::new(File::open(&path).with_context(|| name.clone())?);
            refuse_long_csv(unpacked(again)?).with_context(|| name.clone())?;
        }
        reader.add(&name, unpacked(BufReader::new(file)).with_context(|| name.clone())?)?;
    }
    Ok(reader.finish()?)
}

/// The files that are meant, in their order.
fn all(names: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for name in names {
        let text = name.to_string_lossy();
        if name.is_dir() {
            let entries = std::fs::read_dir(name).with_context(|| text.clone().into_owned())?;
            let mut files = Vec::new();
            for entry in entries {
                let path = entry.with_context(|| text.clone().into_owned())?.path();
                let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
                if path.is_file() && !is_hidden {
                    files.push(path);
                }
            }
            if files.is_empty() {
                bail!("{text}: a folder without files");
            }
            files.sort();
            all.append(&mut files);
        } else if !name.exists() && text.contains(['*', '?', '[']) {
            let found = glob::glob(&text).with_context(|| text.clone().into_owned())?;
            let mut files: Vec<PathBuf> = found.filter_map(Result::ok).filter(|path| path.is_file()).collect();
            if files.is_empty() {
                bail!("{text}: no file has such a name");
            }
            all.append(&mut files);
        } else {
            all.push(name.clone());
        }
        if all.len() > MAX_FILES {
            bail!("more than {MAX_FILES} files");
        }
    }
    Ok(all)
}

/// What a file has, unpacked if it is gzip.
fn unpacked<'r>(mut file: impl BufRead + 'r) -> anyhow::Result<Box<dyn BufRead + 'r>> {
    let is_packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let plain: Box<dyn Read + 'r> = if is_packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    Ok(Box::new(BufReader::new(Bounded { plain, left: MAX_FILE })))
}

/// Ends with an error and not with what would be a part.
struct Bounded<'r> {
    plain: Box<dyn Read + 'r>,
    left: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.plain.read(buffer)?;
        let problem =
            || io::Error::other(format!("it unpacks to more than {} MiB, the most that Kelpie reads", MAX_FILE >> 20));
        self.left = self.left.checked_sub(count as u64).ok_or_else(problem)?;
        Ok(count)
    }
}

/// Refuses CSV with more rows than are kept before any is kept.
fn refuse_long_csv(mut text: impl BufRead) -> anyhow::Result<()> {
    let mut heading = Vec::new();
    text.by_ref().take(4096).read_until(b'\n', &mut heading)?;
    let heading = String::from_utf8_lossy(&heading).to_lowercase();
    if !(heading.contains("iteration") && heading.contains("source") && !heading.contains('{')) {
        return Ok(());
    }
    let mut rows = 0;
    loop {
        let piece = text.fill_buf()?;
        if piece.is_empty() {
            return Ok(());
        }
        rows += piece.split(|byte| *byte == b'\n').count() - 1;
        if rows > MAX_OPERATIONS {
            bail!("more than {MAX_OPERATIONS} operations; give the latest iterations alone");
        }
        let count = piece.len();
        text.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    #[test]
    fn a_folder_a_pattern_and_packed_files_are_one_job() {
        let folder = tempfile::tempdir().expect("a folder");
        for rank in 0..4 {
            let text = format!(
                "{{\"header\":{{\"id\":\"0x1\",\"rank\":{rank},\"n_ranks\":4}},\"metadata\":{{\"hostname\":\"n{rank}\"}}}}\n\
                 {{\"coll_perf\":{{\"coll\":\"AllReduce\",\"coll_sn\":0,\"coll_msg_size_bytes\":8,\"coll_exec_time_us\":5}}}}\n"
            );
            let path = folder.path().join(format!("p{rank}.log"));
            if rank % 2 == 0 {
                std::fs::write(path, text).expect("written");
            } else {
                let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
                packed.write_all(text.as_bytes()).expect("packed");
                std::fs::write(path.with_extension("log.gz"), packed.finish().expect("packed")).expect("written");
            }
        }
        std::fs::write(folder.path().join(".hidden"), "{").expect("written");
        let pattern = folder.path().join("p*.log*");
        for names in [
            vec![folder.path().to_owned()],
            vec![pattern],
            vec![folder.path().join("p0.log"), folder.path().join("p[123].*")],
        ] {
            let read = read(&names).expect("four files");
            assert_eq!(
                (read.jobs.len(), read.jobs[0].operations.len(), read.jobs[0].hosts.len()),
                (1, 4, 4),
                "{names:?}"
            );
        }
        let error = read(&[folder.path().join("q*")]).expect_err("no such").to_string();
        assert!(error.ends_with("q*: no file has such a name"), "{error}");
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        let row = b"1,0,1,1,1,2,1\n".repeat(1 << 12);
        packed.write_all(b"iteration,source,destination,bytes,begin,end,entered\n").expect("packed");
        for _ in 0..=(MAX_OPERATIONS >> 12) {
            packed.write_all(&row).expect("packed");
        }
        let bytes = packed.finish().expect("packed");
        let path = folder.path().join("rows.csv.gz");
        std::fs::write(&path, &bytes).expect("written");
        let text = || unpacked(bytes.as_slice()).expect("gzip");
        let error = refuse_long_csv(text()).expect_err("too many").to_string();
        assert!(error.starts_with("more than 8388608 operations"), "{error}");
        let mut bounded = Bounded { plain: Box::new(text()), left: 1 << 20 };
        let error = io::copy(&mut bounded, &mut io::sink()).expect_err("too much").to_string();
        assert!(error.starts_with("it unpacks to more than"), "{error}");
    }
}
