//! The pages that show commands: README and the guides. What needs no hardware and little time runs as it stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Bench, Ran};

/// Where the table of commands is.
const COMMANDS: &str = "docs/reference/commands.md";

/// The lines around that table.
const MARKS: [&str; 2] = ["<!-- begin -->\n", "<!-- end -->"];

/// Runs a block of a page as one script that ends at the first status above 1: an anomaly is an answer.
const SCRIPT: &str = "set -E -o pipefail\ntrap 'status=$?; [ $status -le 1 ] || exit $status' ERR\n";

/// Stands for `kelpie` where a command is not to run: it parses its arguments, and `--help` ends it before it begins.
const PARSER: &str = "#!/bin/bash
words=()
for word; do [ \"$word\" = -- ] && break; words+=(\"$word\"); done
exec \"$KELPIE\" \"${words[@]}\" --help
";

/// A block of code of a page.
#[derive(Debug)]
struct CodeBlock {
    page: String,
    line: usize,
    /// What stands behind the opening fence.
    info: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// README and the guides, with the text of each.
fn pages() -> BTreeMap<String, String> {
    let guides =
        std::fs::read_dir(root().join("docs/guides")).expect("the guides").map(|entry| entry.expect("an entry").path());
    let pages =
        guides.chain([root().join("README.md")]).filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages
        .map(|path| {
            let name = path.strip_prefix(root()).expect("a page of ours").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a page"))
        })
        .collect()
}

fn blocks(page: &str, text: &str) -> Vec<CodeBlock> {
    let mut blocks = Vec::new();
    let mut open: Option<CodeBlock> = None;
    for (line, content) in (1..).zip(text.lines()) {
        match (content.strip_prefix("```"), open.take()) {
            (Some(info), None) => {
                open = Some(CodeBlock { page: page.to_owned(), line, info: info.to_owned(), text: String::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(content);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block does not end");
    blocks
}

/// The calls of `kelpie` in a block, whole lines joined, without what stands before or behind them.
fn calls(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let parts = joined
        .lines()
        .flat_map(|line| line.split(" | ").flat_map(|part| part.split("&& ")).flat_map(|part| part.split("; ")));
    parts.map(str::trim).filter(|part| part.starts_with("kelpie ")).map(str::to_owned).collect()
}

/// A folder with the examples and with `kelpie` on its path, as a reader has them.
fn desk(parse_only: bool) -> (Bench, Command) {
    let bench = Bench::new();
    let bin = bench.path("bin");
    std::fs::create_dir(&bin).expect("a folder");
    std::os::unix::fs::symlink(root().join("examples"), bench.path("examples")).expect("a link");
    let kelpie = bin.join("kelpie");
    if parse_only {
        std::fs::write(&kelpie, PARSER).expect("a script");
        std::fs::set_permissions(&kelpie, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a program");
    } else {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kelpie"), &kelpie).expect("a link");
    }
    // The environment is that of a test of the binary; only the program is another.
    let binary = bench.command(&[]);
    let mut shell = Command::new("bash");
    shell.current_dir(bench.path("")).env("KELPIE", env!("CARGO_BIN_EXE_kelpie"));
    for (name, value) in binary.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
    shell.env("PATH", std::env::join_paths(paths).expect("no folder of the path has a colon"));
    (bench, shell)
}

#[test]
fn commands_of_readme_and_guides_run_as_they_stand() {
    let mut ran = 0;
    for (page, text) in pages() {
        let blocks = blocks(&page, &text);
        let script: String =
            blocks.iter().filter(|block| block.info == "sh").map(|block| block.text.as_str()).collect();
        if script.is_empty() {
            continue;
        }
        let (_bench, mut shell) = desk(false);
        let output = Ran::of(shell.arg("-c").arg(format!("{SCRIPT}{script}")).output().expect("bash"));
        assert!(
            matches!(output.status, Some(0 | 1)),
            "{page}: status {:?}\n{}\n{}",
            output.status,
            output.stdout,
            output.stderr
        );
        ran += 1;
    }
    assert!(ran > 4, "{ran} pages have commands to run");
}

#[test]
fn commands_that_need_hardware_or_time_have_arguments_that_exist() {
    let (_bench, shell) = desk(true);
    let envs: Vec<_> = shell.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
    let folder = shell.get_current_dir().expect("a folder of its own").to_owned();
    let mut parsed = 0;
    for (page, text) in pages() {
        for block in blocks(&page, &text) {
            let known = ["sh", "sh long", "sh hardware", "text", "yaml", "json"].contains(&block.info.as_str());
            assert!(known, "{page}:{}: say what the block is, `sh` or `text`, not `{}`", block.line, block.info);
            if !["sh long", "sh hardware"].contains(&block.info.as_str()) {
                continue;
            }
            for call in calls(&block.text) {
                let output = in_shell(&folder, &envs, &call);
                let page = &block.page;
                assert_eq!(output.status, Some(0), "{page}:{}: {call}\n{}", block.line, output.stderr);
                parsed += 1;
            }
        }
    }
    assert!(parsed > 10, "{parsed} commands were parsed");
}

type Envs = [(std::ffi::OsString, Option<std::ffi::OsString>)];

fn in_shell(folder: &Path, envs: &Envs, call: &str) -> Ran {
    let mut shell = Command::new("bash");
    shell.current_dir(folder).args(["-c", call]);
    for (name, value) in envs {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Ran::of(shell.output().expect("bash"))
}

#[test]
fn an_argument_that_is_gone_is_seen() {
    let (_bench, mut shell) = desk(true);
    let output = Ran::of(shell.args(["-c", "kelpie measure w.yaml --subsystem sim:F --gone"]).output().expect("bash"));
    assert_eq!(output.status, Some(2), "{}", output.stderr);
    assert_eq!(
        calls("ssh b kelpie doctor | kelpie doctor \\\n  --against - # x\nkelpie watch && make"),
        ["kelpie doctor    --against - # x", "kelpie watch"]
    );
}

/// `cargo xtask headers` asks this page which commands there are. `KELPIE_BLESS=1` writes it anew.
#[test]
fn the_page_of_commands_is_as_the_binary_says() {
    let bench = Bench::new();
    let mut rows = Vec::new();
    describe(&bench, &mut Vec::new(), &mut rows);
    let table = format!("| command | what it does | exit status |\n|---|---|---|\n{}", rows.concat());
    let path = root().join(COMMANDS);
    let page = std::fs::read_to_string(&path).expect("the page of commands");
    let (before, rest) = page.split_once(MARKS[0]).expect("where the table begins");
    let (_, after) = rest.split_once(MARKS[1]).expect("where the table ends");
    let expected = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
    if std::env::var_os("KELPIE_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let page = std::fs::read_to_string(&path).expect("the page of commands");
    assert!(page == expected, "{COMMANDS} is old; renew it: KELPIE_BLESS=1 cargo test --test main pages::the_page");
}

/// A row for a command, and rows for those below it.
fn describe(bench: &Bench, command: &mut Vec<String>, rows: &mut Vec<String>) {
    let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
    args.push("--help");
    let help = bench.expect(0, &args);
    let about = paragraph(&help, |_| true).unwrap_or_default();
    let status = paragraph(&help, |line| line.starts_with("Exit status")).unwrap_or_default();
    let status = status.split_once(": ").map_or("", |(_, status)| status).replace('|', "\\|");
    let name = if command.is_empty() { String::new() } else { format!(" {}", command.join(" ")) };
    rows.push(format!("| `kelpie{name}` | {} | {status} |\n", about.replace('|', "\\|")));
    let below = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A name begins in the third column; what stands deeper goes on with the line above.
    let names = below
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
    for name in names.filter(|name| *name != "help").map(str::to_owned).collect::<Vec<_>>() {
        command.push(name);
        describe(bench, command, rows);
        command.pop();
    }
}

/// The first sentence that begins in such a line, without the line breaks of a terminal.
fn paragraph(help: &str, begins: impl Fn(&str) -> bool) -> Option<String> {
    let lines: Vec<&str> = help.lines().skip_while(|line| !begins(line)).take_while(|line| !line.is_empty()).collect();
    (!lines.is_empty()).then(|| lines.join(" "))
}
