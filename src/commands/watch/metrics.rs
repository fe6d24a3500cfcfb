//! `kelpie watch --listen`: how a campaign stands, in OpenMetrics, for a scraper on this machine.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kelpie_store::{CampaignFollower, StoreError, unix_ms};
use kelpie_watch::{CampaignProgress, open_metrics};

use crate::output::{note, print_json};
use crate::stop;
use kelpie_watch::metrics_server::Scrapes;

/// How long the server waits before it looks whether it should stop. Source: our choice.
const SLICE: Duration = Duration::from_millis(200);

/// Answers scrapers until the user has had enough.
pub fn serve(
    listen: SocketAddr,
    json: bool,
    follower: &mut CampaignFollower,
    progress: &mut CampaignProgress,
) -> anyhow::Result<()> {
    let stop = stop::on_signals("stopping")?;
    let mut scrapes = Scrapes::listen(listen, "127.0.0.1:9464")?;
    let address = scrapes.address();
    if json {
        print_json(&serde_json::json!({ "listen": address.to_string() }))?;
    }
    note(&format!("campaign {}: metrics at http://{address}/metrics until Ctrl-C", progress.campaign.id));
    while !stop.load(Ordering::Relaxed) {
        let Some(scrape) = scrapes.next(SLICE) else { continue };
        scrape.answer(match catch_up(follower, progress) {
            Ok(()) => Ok(open_metrics::text(progress, unix_ms())),
            // It will be free again; the scraper comes back.
            Err(error @ StoreError::Busy { .. }) => Err(error.to_string()),
            Err(error) => return Err(error.into()),
        });
    }
    Ok(())
}

fn catch_up(follower: &mut CampaignFollower, progress: &mut CampaignProgress) -> Result<(), StoreError> {
    loop {
        progress.take(follower.read()?);
        if progress.is_read() {
            return Ok(());
        }
    }
}
