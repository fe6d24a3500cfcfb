//! Developer tasks: one row per subcommand. The work of each is in its own file.

mod builds;
mod cargo;
mod ci;
mod circles;
mod headers;
mod lab;
mod layers;
mod long;
mod modules;
mod pages;
mod quick;
mod steps;
mod test;
mod workspace;

use std::env;
use std::process::ExitCode;

use steps::Interrupted;
use workspace::workspace_root;

/// Name, what it does, and the function that does it.
type Task = (&'static str, &'static str, fn(&[String]) -> anyhow::Result<()>);

const TASKS: [Task; 7] =
    [
        ("quick", "what fails most often, of what changed, in half a minute", quick::run),
        ("test", "all tests that a change has to pass, and a short lab", test::run),
        ("ci", "format, headers, layers, clippy, documentation", ci::run),
        ("test-long", "what is too long for every change, hours", long::run),
        ("headers", "what each source file and each page must have", |_| headers::check(&workspace_root())),
        ("layers", "dependencies point down only, between our crates and within them", |_| {
            layers::check(&workspace_root())
        }),
        ("lab", "guests with Soft-RoCE: `cargo xtask lab` lists what it can do", lab::run),
    ];

/// As shells say that a program was interrupted.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let task = args.first().and_then(|name| TASKS.iter().find(|(known, ..)| known == name));
    let Some((_, _, run)) = task else {
        eprintln!("usage: cargo xtask TASK");
        for (name, about, _) in TASKS {
            eprintln!("  {name:<10} {about}");
        }
        return ExitCode::from(2);
    };
    match run(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("{error}");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("error: {error}");
            error.chain().skip(1).for_each(|cause| eprintln!("   {cause}"));
            ExitCode::from(2)
        }
    }
}
