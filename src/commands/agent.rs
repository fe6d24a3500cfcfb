//! `kelpie agent`: serves this host to a controller. The protocol is in the engine, the traffic in `kelpie-verbs`.

use std::net::SocketAddr;
use std::process::ExitCode;

/// Arguments of the agent.
#[derive(Debug, clap::Args)]
pub struct AgentArgs {
    /// Address to listen on; the protocol is plain, so beyond this host name one that only a trusted network reaches
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7471")]
    pub listen: SocketAddr,

    /// RDMA device for controllers that name none; may be left out where there is only one
    #[arg(long, value_name = "NAME")]
    pub device: Option<String>,

    /// GID index for controllers that name none; `RoCEv2` over IPv4 first where it is left out
    #[arg(long, value_name = "N")]
    pub gid_index: Option<u8>,
}

/// Runs the agent until it is ended from outside.
#[cfg(feature = "verbs")]
pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    use kelpie_engine::agent::server::serve;
    use kelpie_engine::host::Port;
    use kelpie_verbs::LibibverbsHost;

    let host = LibibverbsHost::new(Port { device: args.device.clone(), port: 1, gid_index: args.gid_index })?;
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    serve(args.listen, name.trim(), Box::new(host))?;
    Ok(ExitCode::SUCCESS)
}

/// Says why there is no agent in this build.
#[cfg(not(feature = "verbs"))]
pub fn run(args: &AgentArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "this build drives no RDMA device, so nothing can listen on {}: build it with `cargo build --release --features \
         verbs` on a machine with libibverbs-dev, librdmacm-dev and libclang-dev",
        args.listen
    )
}
