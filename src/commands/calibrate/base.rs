//! The base of a calibration: an embedded model. Files of models can have no other base.

use anyhow::bail;
use kelpie_sim::SimSubsystem;

/// The embedded model of a name, `F` or `sim:F`.
pub fn embedded(name: &str) -> anyhow::Result<SimSubsystem> {
    let model = name.strip_prefix("sim:").unwrap_or(name);
    if !SimSubsystem::names().contains(&model) {
        bail!("--base {name}: the base is an embedded model, A to H; `kelpie subsystem list` shows them");
    }
    Ok(SimSubsystem::load(model)?)
}
