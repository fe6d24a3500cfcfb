//! Putting a site where it belongs, whole or not at all. What is in it lives in the other files.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::error::SiteError;
use super::file::SiteFile;
use crate::folder::Beside;

/// Says whether a site may be put at `out`; with `replace`, also if one is already.
///
/// # Errors
/// There is something other than a directory, or a directory that is not empty, or, with `replace`, one that holds
/// what no report wrote.
pub fn check_target(out: &Path, replace: bool) -> Result<(), SiteError> {
    let refused = |reason: String| Err(SiteError::Target { path: out.to_owned(), reason });
    let metadata = match fs::metadata(out) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|source| failed(out, "looking at it", source))?,
    };
    if !metadata.is_dir() {
        return refused("is not a directory; name another one with --out".to_owned());
    }
    let names = names(out)?;
    if names.is_empty() {
        return Ok(());
    }
    if !replace {
        return refused("is not empty; name another directory, or replace the report in it with --force".to_owned());
    }
    match names.iter().find(|name| !is_ours(name)) {
        Some(stranger) => refused(format!(
            "holds `{stranger}`, which no report wrote, so it is not replaced; name another directory with --out"
        )),
        None => Ok(()),
    }
}

/// Writes a site to `out`: the files that `make` gives one at a time. It is built beside it and moved there when it is
/// whole.
///
/// # Errors
/// As [`check_target`]; also if something cannot be made or written.
pub fn publish(
    out: &Path,
    replace: bool,
    make: impl FnOnce(&mut dyn FnMut(SiteFile) -> Result<(), SiteError>) -> Result<(), SiteError>,
) -> Result<(), SiteError> {
    check_target(out, replace)?;
    let exists = out.exists();
    // A link to a directory stays; what it leads to is replaced.
    let out = if exists { out.canonicalize().map_err(|source| failed(out, "finding it", source))? } else { out.into() };
    let parent = match out.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => {
            let reason = "is no place for a report; name another directory with --out".to_owned();
            return Err(SiteError::Target { path: out, reason });
        }
    };
    fs::create_dir_all(parent).map_err(|source| failed(parent, "creating it", source))?;
    let beside = Beside::new(parent).map_err(|source| failed(parent, "making a directory in it", source))?;
    // Below the temporary directory, which only its owner may read.
    let site = beside.path().join("site");
    make(&mut |file| write(&site.join(&file.name), &file.bytes))?;
    let old = beside.path().join("old");
    if exists {
        fs::rename(&out, &old).map_err(|source| not_moved(&out, "moving it away", source))?;
    }
    if let Err(source) = fs::rename(&site, &out) {
        if exists {
            // The first error is the one to report.
            let _ = fs::rename(&old, &out);
        }
        return Err(not_moved(&out, "moving the report there", source));
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), SiteError> {
    let folder = path.parent().expect("it is below the site's directory");
    fs::create_dir_all(folder).map_err(|source| failed(folder, "creating it", source))?;
    fs::write(path, bytes).map_err(|source| failed(path, "writing", source))
}

fn failed(path: &Path, operation: &'static str, source: std::io::Error) -> SiteError {
    SiteError::Io { path: path.to_owned(), operation, source }
}

/// What stopped a move; a directory that something is mounted on stays where it is.
fn not_moved(path: &Path, operation: &'static str, source: std::io::Error) -> SiteError {
    match source.kind() {
        ErrorKind::ResourceBusy | ErrorKind::CrossesDevices => SiteError::Target {
            path: path.to_owned(),
            reason: "is mounted there and cannot be replaced; name a directory below it with --out".to_owned(),
        },
        _ => failed(path, operation, source),
    }
}

/// Every file below `folder` and every empty directory, relative to it.
fn names(folder: &Path) -> Result<Vec<String>, SiteError> {
    let mut names = Vec::new();
    let mut open: Vec<PathBuf> = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).map_err(|source| failed(&next, "reading it", source))? {
            let entry = entry.map_err(|source| failed(&next, "reading it", source))?;
            let path = entry.path();
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && name == "plots" {
                open.push(path);
            } else {
                names.push(if is_folder { name + "/" } else { name });
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a report writes a file of this name.
fn is_ours(name: &str) -> bool {
    let of_finding = |suffix: &str| {
        let number = name.strip_prefix("finding-").and_then(|rest| rest.strip_suffix(suffix));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    matches!(name, "index.html" | "summary.md" | "junit.xml")
        || of_finding(".html")
        || of_finding(".yaml")
        || of_finding(".tar.gz")
        || is_plot(name)
}

fn is_plot(name: &str) -> bool {
    let stem = name.strip_prefix("plots/").and_then(|plot| plot.strip_suffix(".png"));
    stem.is_some_and(|stem| !stem.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(files: &[SiteFile], out: &Path, replace: bool) -> Result<(), SiteError> {
        super::publish(out, replace, |write| files.iter().cloned().try_for_each(write))
    }

    fn files(text: &str) -> Vec<SiteFile> {
        let file = |name: &str| SiteFile { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
        vec![file("index.html"), file("plots/a.png")]
    }

    fn left_in(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_site_is_put_where_nothing_is_and_replaced_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/site");
        publish(&files("one"), &out, false).unwrap();
        assert_eq!(fs::read_to_string(out.join("plots/a.png")).unwrap(), "one");
        let refused = publish(&files("two"), &out, false).unwrap_err().to_string();
        assert!(refused.contains("--force"), "{refused}");
        fs::write(out.join("finding-7.html"), "of an older report").unwrap();
        publish(&files("two"), &out, true).unwrap();
        assert_eq!(fs::read_to_string(out.join("index.html")).unwrap(), "two");
        assert_eq!(left_in(&out), ["index.html", "plots"]);
        assert_eq!(left_in(out.parent().unwrap()), ["site"], "nothing is left beside it");
    }

    #[test]
    fn a_site_that_cannot_be_written_whole_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("site");
        let mut broken = files("two");
        broken.push(SiteFile { name: "index.html/below-a-file".to_owned(), bytes: Vec::new() });
        assert!(publish(&broken, &out, false).is_err());
        assert!(left_in(folder.path()).is_empty(), "neither a half site nor a temporary one");
        publish(&files("one"), &out, false).unwrap();
        assert!(publish(&broken, &out, true).is_err());
        assert_eq!(fs::read_to_string(out.join("index.html")).unwrap(), "one");
        assert_eq!(left_in(folder.path()), ["site"]);
    }

    #[test]
    fn an_empty_directory_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        publish(&files("one"), folder.path(), false).unwrap();
        assert_eq!(left_in(folder.path()), ["index.html", "plots"]);
    }

    #[test]
    fn what_no_report_wrote_is_never_removed() {
        for stranger in
            ["thesis.txt", "finding-.html", "finding-1.html.bak", "plots/raw.csv", "plots/more/a.png", ".git/x"]
        {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("site");
            publish(&files("one"), &out, false).unwrap();
            fs::create_dir_all(out.join(stranger).parent().unwrap()).unwrap();
            fs::write(out.join(stranger), "mine").unwrap();
            let refused = publish(&files("two"), &out, true).unwrap_err().to_string();
            assert!(refused.contains("which no report wrote"), "{stranger}: {refused}");
            assert_eq!(fs::read_to_string(out.join(stranger)).unwrap(), "mine");
            assert_eq!(fs::read_to_string(out.join("index.html")).unwrap(), "one");
        }
    }

    #[test]
    fn a_file_is_no_place_for_a_site() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("file");
        fs::write(&out, "").unwrap();
        assert!(publish(&files("one"), &out, true).unwrap_err().to_string().contains("not a directory"));
        assert!(publish(&files("one"), &out.join("below"), true).is_err());
    }

    #[test]
    fn a_link_to_a_directory_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        publish(&files("one"), &link, false).unwrap();
        assert!(link.is_symlink() && real.join("index.html").is_file());
    }
}
