//! Developer tasks: one row per subcommand. The work of each is in its own file.

mod builds;
mod cargo;
mod ci;
mod circles;
mod headers;
mod lab;
mod layers;
mod quick;
mod steps;
mod test;
mod workspace;

use std::env;
use std::process::ExitCode;

use workspace::workspace_root;

/// Name, what it does, and the function that does it.
type Task = (&'static str, &'static str, fn(&[String]) -> anyhow::Result<()>);

const TASKS: [Task; 6] =
    [
        ("quick", "what fails most often, of what changed, in less than a minute", quick::run),
        ("ci", "everything that has to hold before a change goes in", ci::run),
        ("test", "what CI runs: `ci`, and the tests of the lab", test::run),
        ("headers", "what each source file must have", |_| headers::check(&workspace_root())),
        ("layers", "dependencies point down only, between our crates and within them", |_| {
            layers::check(&workspace_root())
        }),
        ("lab", "two guests with Soft-RoCE: install, up, status, run, down", lab::run),
    ];

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
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
