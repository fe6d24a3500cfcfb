//! What all pages of a site share: the frame around them, plots, tables that scroll. No content of their own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kelpie_spaces::Feature;
use kelpie_text::plain;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use super::error::SiteError;
use super::plot::Titled;
use crate::stored_campaign::StoredCampaign;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("sort.js");

/// The title of a campaign's first page.
pub(super) fn campaign_title(stored: &StoredCampaign) -> String {
    let definition = &stored.campaign.definition;
    format!("Campaign {}: {} over {}", stored.campaign.id, definition.subsystem, definition.space)
}

/// A page with this title; `trail` stands above it.
pub(crate) fn page(title: &str, trail: &Markup, content: &Markup) -> String {
    // Nothing is loaded from anywhere, and no script runs but the one below, whatever a name or a workload holds.
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        STANDARD.encode(Sha256::digest(SCRIPT))
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content={ "Kelpie " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { (trail) }
                main #main tabindex="-1" {
                    h1 { (title) }
                    (content)
                }
                footer { "Made by Kelpie " (env!("CARGO_PKG_VERSION")) "." }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    plain(&page.into_string())
}

/// Where a plot's PNG is in the site.
pub(super) fn png_name(plot: &Titled) -> String {
    format!("plots/{}.png", plot.slug)
}

/// A plot with its caption, and the same as a PNG.
pub(super) fn figure(plot: &Titled) -> Result<Markup, SiteError> {
    let svg = plot.svg()?;
    Ok(html! {
        figure {
            // Too wide for a phone, where it is scrolled, by keyboard too.
            div.plot tabindex="0" role="img" aria-label={ (plot.title) ". " (plot.caption) } { (PreEscaped(svg)) }
            figcaption {
                strong { (plot.title) ". " } (plot.caption) " "
                a href=(png_name(plot)) { "As PNG" } "."
            }
        }
    })
}

/// A feature: its phrase, and the name that every file, command and JSON document has for it.
pub(super) fn named(feature: Feature) -> Markup {
    html! { (feature.phrase()) " " code.soft { (feature) } }
}

/// A table that scrolls in a box of its own if it is too wide; `id` names its caption.
pub(crate) fn wide(id: &str, table: &Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" aria-labelledby=(id) { (table) } }
}
