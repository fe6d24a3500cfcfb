//! The command line of an emulated guest: QEMU without the machine's help (KVM), one CPU, links of datagram sockets.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::kernel::Kernel;
use super::place::Lab;
use super::shape::{LINK_MTU, MEMORY_MIB, Role};

/// QEMU for this guest, whose files lie in `dir` and whose agent is reached at this port of 127.0.0.1.
pub fn command(lab: &Lab, role: &Role, dir: &Path, kernel: &Kernel, port: Option<u16>) -> Result<Command> {
    let text = |path: PathBuf| path.into_os_string().into_string().ok().context("the lab's path is no UTF-8");
    let file = |name: &str| text(dir.join(name));
    let arguments = format!("console=ttyS0 quiet panic=-1 {}", role.arguments(lab.shape));
    let mut qemu = lab.command("qemu-system-x86_64");
    // One CPU, and room for a second that never comes: with `-smp 1` TCG leaves out what orders locked instructions
    // among CPUs, QEMU's own threads among them, and the transmit queue of a guest stopped for ever within minutes.
    // Guests of 6.12 still died of flags that no CPU has, in the allocator that uses CMPXCHG16B where it is there.
    let cpu = if kernel.version == "6.12" { "max,cx16=off" } else { "max" };
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", cpu, "-smp", "1,maxcpus=2"]);
    qemu.args(["-m", &MEMORY_MIB.to_string()]);
    if lab.shape.is_dual() && role.port.is_some() {
        // Two NUMA nodes, of one memory: `host matrix` has two columns.
        for node in 0..2 {
            qemu.args(["-object", &format!("memory-backend-ram,id=node{node},size={}M", MEMORY_MIB / 2)]);
            qemu.args(["-numa", &format!("node,nodeid={node},memdev=node{node},cpus={node}")]);
        }
    }
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-daemonize"]);
    qemu.arg("-pidfile").arg(dir.join("pid"));
    qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(&kernel.initramfs);
    qemu.args(["-append", &arguments]);
    qemu.args(["-serial", &format!("file:{}", file("console.log")?)]);
    qemu.args(["-serial", &format!("unix:{},server=on,wait=off", file("control")?)]);
    for (place, (own, peer, theirs)) in role.links.iter().enumerate() {
        let (local, remote) = (lab.state().join(role.name).join(own), lab.state().join(peer).join(theirs));
        let (local, remote, mac) = (text(local)?, text(remote)?, role.link_mac(place));
        let link = format!("local.type=unix,local.path={local},remote.type=unix,remote.path={remote}");
        qemu.args(["-netdev", &format!("dgram,id={own},{link}")]);
        qemu.args(["-device", &format!("virtio-net-pci,netdev={own},mac={mac},host_mtu={LINK_MTU},romfile=")]);
    }
    if let Some(port) = port {
        qemu.args(["-netdev", &format!("user,id=control,restrict=on,hostfwd=tcp:127.0.0.1:{port}-10.0.2.15:7471")]);
        let mac = role.control_mac();
        qemu.args(["-device", &format!("virtio-net-pci,netdev=control,mac={mac},romfile=")]);
    }
    let share = text(lab.share())?;
    qemu.args(["-virtfs", "local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap"]);
    qemu.args(["-virtfs", &format!("local,path={share},mount_tag=lab,security_model=none,multidevs=remap")]);
    Ok(qemu)
}
