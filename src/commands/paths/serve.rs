//! `kelpie paths serve`: the planner that agents share. Who gets which port is decided in `kelpie_paths::leases`.

use std::process::ExitCode;

use anyhow::bail;
use kelpie_agent::steering::planner::{PlannerConfig, serve};
use kelpie_agent::{Security, TlsFiles};
use kelpie_paths::catalog::{LAG_PORTS, Lag};
use kelpie_paths::leases::Leases;
use kelpie_topology::Side;

use super::probe::read;
use crate::cli::paths::ServeArgs;
use crate::exit;
use crate::output::note;

/// Serves until it is ended from outside.
pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
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
            let [left, right] = Side::BOTH.map(|side| catalog.straight(direction.from, side).len());
            note(&format!(
                "{}, measured {}: from host {}, {left} source ports left to left, {right} right to right",
                path.display(),
                catalog.measured,
                direction.from
            ));
        }
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
    let config = PlannerConfig { security, state: args.state.clone() };
    serve(args.listen, &config, Leases::new(&catalogs))?;
    Ok(exit::HEALTHY)
}
