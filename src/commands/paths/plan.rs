//! `kelpie paths plan`: follows the steps of a request and shows the plan.

use std::fmt::Write as _;
use std::process::ExitCode;

use kelpie_examine::files::read_file;
use kelpie_paths::catalog::LAG_PORTS;
use kelpie_paths::followed::{PathsPlan, follow};
use kelpie_paths::request::{ConnectionEnd, PathsRequest};
use kelpie_paths::{Leaving, PortSearch, Route};
use kelpie_spaces::document::utf8;
use kelpie_topology::Cluster;
use serde_json::{Value, json};

use crate::args::Common;
use crate::cli::paths::{LeavingArg, PlanPathsArgs};
use crate::exit;
use crate::inputs::read_cluster;
use crate::output::{Table, plural, print, print_json};

/// Runs the command.
pub fn run(args: &PlanPathsArgs, common: Common) -> anyhow::Result<ExitCode> {
    let cluster = read_cluster(&args.topology)?;
    let name = args.request.display().to_string();
    let request = PathsRequest::from_yaml(&name, utf8(&name, &read_file(&args.request)?)?, &cluster)?;
    let plan = follow(&cluster, &request, !args.no_moves);
    let leaving = if args.leaving == LeavingArg::Chosen { Leaving::Chosen } else { Leaving::Hashed };
    let search = PortSearch::new(&cluster, &plan.working);
    let mut rows: Vec<(usize, Option<Route>, Option<u16>)> = Vec::new();
    for (nth, connection) in plan.connections.iter().enumerate() {
        let routes: Vec<Option<Route>> = connection.qps.iter().map(|id| plan.planner.route(*id)).collect();
        let there: Vec<Route> = routes.iter().flatten().copied().collect();
        let [from, to] = [connection.from, connection.to].map(|end| cluster.nic(end.host, end.nic));
        let mut ports = search.ports(from, to, &there, leaving).into_iter();
        rows.extend(routes.into_iter().map(|route| (nth, route, route.and_then(|_| ports.next().flatten()))));
    }
    let without = rows.iter().filter(|(_, route, port)| route.is_none() || port.is_none()).count() as u64;
    if common.json {
        print_json(&document(&cluster, &plan, &rows, without))?;
    } else {
        show(&cluster, &plan, &rows, without)?;
    }
    Ok(if without == 0 { exit::HEALTHY } else { exit::anomalous() })
}

fn document(cluster: &Cluster, plan: &PathsPlan, rows: &[(usize, Option<Route>, Option<u16>)], without: u64) -> Value {
    let qps: Vec<Value> = (rows.iter())
        .map(|(nth, route, port)| {
            let connection = &plan.connections[*nth];
            let spine = route.and_then(|route| route.plane).map(|plane| plane / cluster.cables);
            let cable = route.and_then(|route| route.plane).map(|plane| plane % cluster.cables);
            json!({
                "connection": connection.name, "from": connection.from, "to": connection.to,
                "side": route.map(|route| route.side), "spine": spine, "cable": cable, "source_port": port,
                // Source: mlx5dv_modify_qp_lag_port(3), whose ports count from 1.
                "lag_port": route.map(|route| LAG_PORTS[route.side.index()]),
            })
        })
        .collect();
    json!({"qps": qps, "loads": plan.loads(cluster), "moves": plan.moves, "without_path": without})
}

fn show(
    cluster: &Cluster,
    plan: &PathsPlan,
    rows: &[(usize, Option<Route>, Option<u16>)],
    without: u64,
) -> anyhow::Result<()> {
    let mut table = Table::new(&["from", "to", "side", "spine", "cable", "source port", "connection"], &[3, 4, 5]);
    for (nth, route, port) in rows {
        let connection = &plan.connections[*nth];
        let end = |end: ConnectionEnd| format!("host {} nic {}", end.host, end.nic);
        let side = route.map_or("none works".to_owned(), |route| format!("{:?}", route.side).to_lowercase());
        let plane = |of: fn(u32, u32) -> u32| match route.and_then(|route| route.plane) {
            Some(plane) => of(plane, cluster.cables).to_string(),
            None => "-".to_owned(),
        };
        let port = port.map_or("none leads there".to_owned(), |port| port.to_string());
        let ends = [end(connection.from), end(connection.to), side];
        let planes = [plane(|plane, cables| plane / cables), plane(|plane, cables| plane % cables)];
        table.row(ends.into_iter().chain(planes).chain([port, connection.name.clone()]).collect());
    }
    let mut text = table.render("");
    let _ = writeln!(text, "{}, {} on the way", plural(rows.len() as u64, "QP"), plural(plan.moves, "move"));
    if without > 0 {
        let _ = writeln!(text, "{} without a path", plural(without, "QP"));
    }
    print(&text)
}
