//! `kelpie paths serve`: the planner that agents share. Who gets which port is decided in `kelpie_paths::leases`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use kelpie_agent::steering::planner::{PlannerConfig, serve};
use kelpie_agent::{Security, TlsFiles};
use kelpie_paths::catalog::{Catalog, LAG_PORTS, Lag, contradictions};
use kelpie_paths::leases::Leases;
use kelpie_topology::PortSide;

use super::probe::read;
use crate::cli::paths::ServePathsArgs;
use crate::exit;
use crate::output::note;

/// Serves until it is ended from outside.
pub fn run(args: &ServePathsArgs) -> anyhow::Result<ExitCode> {
    let catalogs = args.catalogs.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    for (path, catalog) in args.catalogs.iter().zip(&catalogs) {
        for direction in &catalog.directions {
            // Who steers puts QPs of the left side on LAG port 1.
            for (port, side) in direction.lag.iter().flat_map(Lag::known) {
                if port != LAG_PORTS[side.index()] {
                    bail!(
                        "{}: LAG port {port} of host {} leaves by {}, but programs are steered to LAG port 1 for left and \
                         2 for right; leave the catalog out",
                        path.display(),
                        direction.from,
                        side.name()
                    );
                }
            }
            if let Some(reason) = direction.lag.as_ref().and_then(|lag| lag.refused.as_deref()) {
                note(&format!(
                    "{}: QPs of host {} are not steered, because they cannot be put on a LAG port: {reason}",
                    path.display(),
                    direction.from
                ));
            }
            let [left, right] = PortSide::BOTH.map(|side| catalog.straight(direction.from, side).len());
            note(&format!(
                "{}, measured {}: from host {}, {left} source ports left to left, {right} right to right",
                path.display(),
                catalog.measured,
                direction.from
            ));
        }
    }
    for (path, catalog) in args.catalogs.iter().zip(&catalogs) {
        must_hold(catalog, SystemTime::now(), args.max_age.into()).with_context(|| path.display().to_string())?;
    }
    let contradictions = contradictions(&catalogs);
    if !contradictions.is_empty() {
        bail!("leave the older catalog out, or probe again: {}", contradictions.join("; "));
    }
    let security = match (&args.ca, &args.identity) {
        (Some(ca), Some(identity)) => Security::Tls(TlsFiles {
            ca: ca.clone(),
            identity: identity.clone(),
            insecure_key: args.insecure_key,
            revoked: args.revoked.clone(),
        }),
        _ if args.plain => Security::Plain,
        _ => Security::Loopback,
    };
    let config = PlannerConfig { security, state: args.state.clone(), absence: args.absence.into() };
    serve(args.listen, &config, Leases::new(&catalogs))?;
    Ok(exit::HEALTHY)
}

/// A clock that is ahead of another one may be so by this much. Source: our choice.
const CLOCKS_APART: Duration = Duration::from_hours(1);

/// Refuses a catalog that nobody should plan with any more.
fn must_hold(catalog: &Catalog, now: SystemTime, max_age: Duration) -> anyhow::Result<()> {
    let measured = UNIX_EPOCH + Duration::from_secs(catalog.measured_unix_s);
    match now.duration_since(measured) {
        Ok(age) if age > max_age => {
            let age = Duration::from_secs(age.as_secs() / 3600 * 3600);
            let age = humantime::format_duration(age);
            bail!("the catalog is stale: it was measured {age} ago (--max-age); probe again")
        }
        Err(ahead) if ahead.duration() > CLOCKS_APART => {
            bail!("measured_unix_s: the catalog was measured in the future; set the clock, and probe again")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(measured_unix_s: u64) -> Catalog {
        let text = include_str!("../../../engine/examine/tests/dealt.yaml");
        Catalog { measured_unix_s, ..Catalog::from_yaml("dealt.yaml", text).expect("a good file") }
    }

    #[test]
    fn a_catalog_of_the_future_or_of_long_ago_is_refused() {
        let now = UNIX_EPOCH + Duration::from_hours(500_000);
        let held = |ago: i64| {
            let at = u64::try_from(1_800_000_000 - ago).expect("after 1970");
            must_hold(&catalog(at), now, Duration::from_hours(24)).map_err(|error| error.to_string())
        };
        assert_eq!((held(0), held(86_000), held(-600)), (Ok(()), Ok(()), Ok(())));
        assert!(held(100_000).expect_err("stale").contains("measured 1day 3h ago"));
        assert!(held(-7200).expect_err("of the future").contains("in the future"));
    }

    #[test]
    fn catalogs_that_say_two_things_of_one_host_are_refused() {
        let (one, mut other) = (catalog(7), catalog(8));
        assert!(contradictions(&[one.clone(), other.clone()]).is_empty());
        other.ends[0].down = vec![other.ends[0].ports[0].name.clone()];
        let found = contradictions(&[one, other]);
        assert!(found.len() == 1 && found[0].contains("ports that are down none, now"), "{found:?}");
    }
}
