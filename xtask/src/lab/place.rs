//! Where the lab keeps its state, how it finds programs, and how it says that one failed. What it does is elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::machine::Machine;
use super::shape::Shape;

/// Where the lab keeps its state, and how it finds programs.
pub struct Lab {
    pub root: PathBuf,
    pub shape: Shape,
    pub machine: Machine,
    /// `KELPIE_LAB_DIR`, or `target/lab`: what labs have in common.
    pub common: PathBuf,
    pub path: String,
}

impl Lab {
    /// Where this lab keeps its guests and its pair file.
    pub fn state(&self) -> PathBuf {
        match self.shape {
            Shape::Pair => self.common.clone(),
            Shape::DualPort(_) => self.common.join("dual"),
        }
    }

    /// The folder that guests can write to.
    pub fn share(&self) -> PathBuf {
        self.state().join("share")
    }

    /// A program, with the tools that a user's path may lack.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }
}

/// Runs a prepared command and says which one failed.
pub fn checked(command: &mut Command, what: &str) -> Result<String> {
    let output = command.output().with_context(|| format!("run {what}"))?;
    if !output.status.success() {
        bail!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("{what} printed no UTF-8"))
}

/// The whole of a file, with its name in the error.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}
