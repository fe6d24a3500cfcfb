//! `kelpie watch --listen`: how a campaign stands, in OpenMetrics, for a scraper on this machine.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use kelpie_store::{Follower, StoreError, unix_ms};
use kelpie_watch::{CampaignProgress, open_metrics};
use tiny_http::{Header, Method, Request, Response, Server};

use crate::output::{note, print_json};
use crate::stop;

/// How long the server waits before it looks whether it should stop. Source: our choice.
const SLICE: Duration = Duration::from_millis(200);

/// Media type of the answers. Source: OpenMetrics 1.0, section "Protocol Negotiation".
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapers until the user has had enough.
pub fn serve(
    listen: SocketAddr,
    json: bool,
    follower: &mut Follower,
    progress: &mut CampaignProgress,
) -> anyhow::Result<()> {
    if !listen.ip().is_loopback() {
        bail!(
            "--listen {listen}: metrics carry no secret and no password, so only loopback is served; try 127.0.0.1:9464"
        );
    }
    let stop = stop::on_signals("stopping")?;
    let server = Server::http(listen).map_err(|error| anyhow!("{error}")).context(format!("listen on {listen}"))?;
    let address = server.server_addr();
    if json {
        print_json(&serde_json::json!({ "listen": address.to_string() }))?;
    }
    note(&format!("campaign {}: metrics at http://{address}/metrics until Ctrl-C", progress.campaign.id));
    while !stop.load(Ordering::Relaxed) {
        if let Some(request) = server.recv_timeout(SLICE).context("wait for a scraper")? {
            answer(request, follower, progress)?;
        }
    }
    Ok(())
}

fn answer(request: Request, follower: &mut Follower, progress: &mut CampaignProgress) -> anyhow::Result<()> {
    let response = if request.url() != "/metrics" {
        Response::from_string("metrics are at /metrics\n").with_status_code(404)
    } else if *request.method() != Method::Get {
        Response::from_string("only GET\n").with_status_code(405)
    } else {
        match catch_up(follower, progress) {
            Ok(()) => {
                let kind = Header::from_bytes("Content-Type", OPEN_METRICS).expect("the header is a constant");
                Response::from_string(open_metrics::text(progress, unix_ms())).with_header(kind)
            }
            // It will be free again; the scraper comes back.
            Err(error @ StoreError::Busy { .. }) => Response::from_string(format!("{error}\n")).with_status_code(503),
            Err(error) => return Err(error.into()),
        }
    };
    // A scraper that went away is no failure.
    let _ = request.respond(response);
    Ok(())
}

fn catch_up(follower: &mut Follower, progress: &mut CampaignProgress) -> Result<(), StoreError> {
    loop {
        progress.take(follower.read()?);
        if progress.is_read() {
            return Ok(());
        }
    }
}
