//! A campaign as it goes: what is known of it, and that as a screen, as lines, as JSON and as metrics. It reads no
//! store and draws on no terminal. Metrics are served to scrapers on this machine, and so are
//! those of `kelpie host watch`.

pub mod campaign_progress;
mod details;
mod for_people;
pub mod host_metrics;
pub mod metrics_server;
pub mod open_metrics;
pub mod screen;
#[cfg(test)]
mod testing;
pub mod text;
pub mod view;

pub use campaign_progress::CampaignProgress;
