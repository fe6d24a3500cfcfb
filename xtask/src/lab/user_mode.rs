//! The command line of a guest of user-mode Linux: a program of the user, whose links and consoles are open files that
//! it inherits.

use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};

use super::place::Lab;
use super::shape::{LINK_MTU, MEMORY_MIB, Role};

/// The numbers of the files that a guest inherits. Its standard input is the control port, its standard output the log
/// of its console.
pub struct Inherited {
    /// One for each link of the role, in this order.
    pub links: Vec<RawFd>,
    /// The link over which its agent is reached.
    pub control: Option<RawFd>,
}

/// User-mode Linux for this guest, whose files lie in `dir`. It ends when the thread that starts it ends.
pub fn command(
    lab: &Lab,
    role: &Role,
    dir: &Path,
    image: &Path,
    initramfs: &Path,
    inherited: &Inherited,
) -> Result<Command> {
    let text = |path: &Path| path.to_str().context("the lab's path is no UTF-8").map(str::to_owned);
    // Of util-linux, since only the new process itself can ask for the signal.
    let mut command = lab.command("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(image);
    // Where it makes its own folder, `.uml`, and which file system its memory is a file of.
    command.env("HOME", dir).env("TMPDIR", memory_folder(dir)).current_dir(dir);
    command.arg(format!("mem={MEMORY_MIB}M")).arg(format!("initrd={}", text(initramfs)?));
    command.args(["console=ttyS0", "quiet", "panic=-1", "noreboot", "con=null", "ssl=null", "bonding.max_bonds=0"]);
    command.args(["ssl0=null,fd:1", "ssl1=fd:0"]);
    let options = format!("mtu={LINK_MTU},depth=256");
    for (place, link) in inherited.links.iter().enumerate() {
        command.arg(format!("vec{place}:transport=fd,fd={link},mac={},{options}", role.link_mac(place)));
    }
    if let Some(control) = inherited.control {
        command.arg(format!("vec{}:transport=fd,fd={control},mac={}", inherited.links.len(), role.control_mac()));
    }
    command.args(role.arguments(lab.shape).split(' '));
    command.arg(format!("kelpie.share={}", text(&lab.share())?));
    // Which process this is: `guest` looks for it.
    command.arg(format!("kelpie.guest={}", text(&dir.join("control"))?));
    Ok(command)
}

/// A folder whose files can be as large as a guest's memory and can be programs: in memory if possible.
fn memory_folder(dir: &Path) -> PathBuf {
    let has_room = |folder: &Path| {
        statvfs(folder).is_ok_and(|there| {
            there.f_bavail * there.f_frsize >= MEMORY_MIB << 20 && !there.f_flag.contains(StatVfsMountFlags::NOEXEC)
        })
    };
    ["/dev/shm", "/tmp"].into_iter().map(Path::new).find(|folder| has_room(folder)).unwrap_or(dir).to_owned()
}
