//! `kelpie watch` as a user sees it: on a terminal, in a pipe, beside a campaign. Layouts are tested beside the code.

mod terminal;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Bench, Ran, SMALL_SPACE};
use terminal::TerminalSession;

/// A name that would clear the screen, set a title, colour, and turn the direction of writing.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}.yaml";

/// A finished campaign with findings.
fn finished() -> Bench {
    let bench = Bench::new();
    bench.write("ud.yaml", SMALL_SPACE);
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", "ud.yaml", "--budget", "30", "--db", "k.db"];
    bench.expect(0, &[&run[..], &["--seed", "1"]].concat());
    bench
}

#[test]
fn a_pipe_is_told_once() {
    let bench = finished();
    let shown = bench.json(0, &["campaign", "show", "--db", "k.db"]);
    let document = bench.json(0, &["watch", "--db", "k.db"]);
    for key in ["campaign", "subsystem", "space", "algorithm", "signal", "seed", "experiments", "skipped"] {
        assert_eq!(document[key], shown[key], "{key}");
    }
    let ids = |document: &Value| {
        document["findings"].as_array().into_iter().flatten().map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&document), ids(&shown));
    let sum = |key: &str| document[key].as_object().into_iter().flatten().filter_map(|(_, n)| n.as_u64()).sum::<u64>();
    assert_eq!((sum("verdicts"), sum("purposes")), (30, 30), "{document}");
    assert_eq!((&document["state"], &document["budget"]), (&"finished".into(), &30.into()));
    assert!(document["experiments_per_minute"].as_f64() > Some(0.0), "{document}");
    assert_eq!(document["seconds_left"], Value::Null);
    assert!(document["signals"]["perf/utilisation"].is_number(), "{document}");

    let text = bench.expect(0, &["watch", "1", "--db", "k.db"]);
    assert!(text.starts_with("campaign 1 (finished): sim:F over ud.yaml, kelpie, seed "), "{text}");
    assert!(text.contains("30 of 30 experiments") && text.contains("\nfinding 1.1: "), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_running_campaign_is_followed_and_not_disturbed() {
    let bench = Bench::new();
    let args = ["campaign", "run", "--subsystem", "sim:F", "--budget", "100000", "--db", "k.db"];
    let mut campaign =
        bench.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let deadline = Instant::now() + Duration::from_mins(1);
    let mut seen = Vec::new();
    while seen.len() < 5 {
        assert!(Instant::now() < deadline && campaign.try_wait().expect("our child").is_none(), "{seen:?}");
        let ran = bench.run(&["watch", "--db", "k.db", "--json"]);
        if ran.status != Some(0) {
            // Not yet begun.
            continue;
        }
        let document = ran.json();
        assert_eq!((&document["state"], &document["budget"]), (&"running".into(), &100_000.into()));
        let experiments = document["experiments"].as_u64().expect("a count");
        if experiments > seen.last().copied().unwrap_or(0) {
            assert!(document["seconds_left"].as_f64() > Some(0.0), "{document}");
            seen.push(experiments);
        }
    }
    let mut drawn = TerminalSession::start(bench.command(&["watch", "--db", "k.db"]), 24, 80);
    let done = |picture: &str| {
        let (before, _) = picture.split_once(" of 100000")?;
        before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
    };
    let first = done(&drawn.until(|picture| done(picture).is_some()));
    drawn.until(|picture| done(picture) > first && picture.contains(" left") && picture.contains("campaign 1 running"));
    campaign.kill().expect("our child");
    drawn.until(|picture| picture.contains("campaign 1 stopped"));
    drawn.press("q");
    assert_eq!(drawn.end(), (Some(0), true));
    let ran = Ran::of(campaign.wait_with_output().expect("it ends"));
    assert!(!ran.stderr.contains("error"), "{}", ran.stderr);
    let document = bench.json(0, &["watch", "--db", "k.db"]);
    assert_eq!((&document["state"], &document["seconds_left"]), (&"stopped".into(), &Value::Null));
    assert!(document["experiments"].as_u64() >= seen.last().copied());
}

#[test]
fn a_scraper_gets_metrics_until_the_user_has_had_enough() {
    let bench = finished();
    let mut server = bench
        .command(&["watch", "--db", "k.db", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut line = String::new();
    BufReader::new(server.stderr.as_mut().expect("a pipe")).read_line(&mut line).expect("the address");
    let address = line.split_once("http://").and_then(|(_, rest)| rest.split_once('/')).expect("an address").0;
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: kelpie\r\nConnection: close\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let metrics = ask("/metrics");
    assert!(metrics.starts_with("HTTP/1.1 200") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(metrics.contains("kelpie_campaign_budget_experiments 30\n"), "{metrics}");
    assert!(ask("/").starts_with("HTTP/1.1 404"));
    let id = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("our child");
    assert_eq!(server.wait().expect("it ends").code(), Some(0));
}

#[test]
fn what_cannot_be_watched_is_said_with_the_next_step() {
    let bench = Bench::new();
    bench.expect(0, &["campaign", "run", "--subsystem", "sim:F", "--budget", "1", "--db", "k.db"]);
    bench.write("text.db", "no database ".repeat(1000));
    let cases: [(&[&str], &[&str]); 6] = [
        (&["watch", "--db", "none.db"], &["none.db", "no Kelpie database", "kelpie campaign run"]),
        (&["watch", "--db", "text.db"], &["text.db", "not a Kelpie database", "--db"]),
        (&["watch", "--db", "."], &["not a file", "--db"]),
        (&["watch", "7", "--db", "k.db"], &["no campaign 7", "kelpie campaign list"]),
        (&["watch", "first", "--db", "k.db"], &["first", "kelpie campaign list"]),
        (&["watch", "--db", "k.db", "--listen", "0.0.0.0:0"], &["0.0.0.0:0", "only loopback", "127.0.0.1"]),
    ];
    for (args, fragments) in cases {
        let ran = bench.run(args);
        assert_eq!((ran.status, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        for fragment in fragments {
            assert!(ran.stderr.contains(fragment), "{args:?}: no `{fragment}` in {}", ran.stderr);
        }
    }
}

#[test]
fn a_terminal_shows_it_takes_keys_and_is_given_back() {
    let bench = finished();
    let mut seen = TerminalSession::start(bench.command(&["watch", "--db", "k.db"]), 24, 80);
    let picture = seen.until(|picture| picture.contains("q quit"));
    let shown = bench.json(0, &["campaign", "show", "--db", "k.db"]);
    let worst = shown["findings"][0]["mfs"][0]["feature"].as_str().expect("it has a condition").to_owned() + " ";
    for part in ["campaign 1 finished", "30 of 30 experiments", "utilisation", "finding 1 of", &worst] {
        assert!(picture.contains(part), "no {part}: {picture}");
    }
    seen.press("?");
    seen.until(|picture| picture.contains("PgUp PgDn"));
    seen.resize(40, 130);
    seen.until(|picture| picture.lines().count() > 30 && picture.contains("PgUp PgDn"));
    seen.resize(1, 1);
    seen.resize(24, 80);
    seen.until(|picture| picture.contains("campaign 1 finished"));
    seen.press("jjkq");
    assert_eq!(seen.end(), (Some(0), true));
}

#[test]
fn every_way_out_gives_the_terminal_back() {
    let bench = finished();
    let start = || {
        let seen = TerminalSession::start(bench.command(&["watch", "--db", "k.db"]), 24, 80);
        seen.until(|picture| picture.contains("q quit"));
        seen
    };
    for keys in ["q", "\u{1b}", "\u{3}"] {
        let mut seen = start();
        seen.press(keys);
        assert_eq!(seen.end(), (Some(0), true), "{keys:?}");
    }
    // A window that is closed, beside which nobody sends a signal.
    for _ in 0..3 {
        assert!(start().close(), "it reads the end of its terminal for ever");
    }
    for name in ["TERM", "INT", "HUP"] {
        let mut seen = start();
        seen.signal(name);
        assert_eq!(seen.end(), (Some(0), true), "{name}");
    }
    let mut seen = start();
    std::fs::remove_file(bench.path("k.db")).expect("it is there");
    assert_eq!(seen.end(), (Some(2), true), "an error while it is drawn");
    seen.until(|picture| picture.contains("error: k.db: no Kelpie database there"));
}

#[test]
fn names_of_a_database_cannot_steer_the_terminal() {
    let bench = Bench::new();
    bench.write(HOSTILE, SMALL_SPACE);
    let run = ["campaign", "run", "--subsystem", "sim:F", "--space", HOSTILE, "--budget", "5", "--db", "k.db"];
    bench.expect(0, &run);
    assert_eq!(bench.json(0, &["watch", "--db", "k.db"])["space"], HOSTILE);
    for more in [&["--json"][..], &[]] {
        let text = bench.expect(0, &[&["watch", "--db", "k.db"], more].concat());
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
    }
    let mut seen = TerminalSession::start(bench.command(&["watch", "--db", "k.db"]), 24, 200);
    seen.until(|picture| picture.contains(r"\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}.yaml"));
    seen.press("q");
    assert_eq!(seen.end(), (Some(0), true));
    let bytes = seen.bytes();
    for steering in [&b"\x1b]0;owned"[..], b"\x07", "\u{9b}".as_bytes(), "\u{202e}".as_bytes()] {
        assert!(!bytes.windows(steering.len()).any(|window| window == steering), "{steering:?}");
    }
}

#[test]
fn colours_can_be_refused() {
    let bench = finished();
    for (no_color, expected) in [("", true), ("1", false)] {
        let mut command = bench.command(&["watch", "--db", "k.db"]);
        command.env("NO_COLOR", no_color);
        let mut seen = TerminalSession::start(command, 24, 80);
        seen.until(|picture| picture.contains("q quit"));
        seen.press("q");
        seen.end();
        let text = String::from_utf8_lossy(&seen.bytes()).into_owned();
        // Green, red and cyan, as crossterm writes them.
        let coloured = ["38;5;2", "38;5;1", "38;5;6"].iter().any(|colour| text.contains(colour));
        assert_eq!(coloured, expected, "NO_COLOR={no_color:?}: {text:?}");
    }
}
